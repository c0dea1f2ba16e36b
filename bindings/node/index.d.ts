import {
  AbstractBatchOperation,
  AbstractBatchOptions,
  AbstractChainedBatch,
  AbstractClearOptions,
  AbstractDatabaseOptions,
  AbstractDelOptions,
  AbstractGetManyOptions,
  AbstractGetOptions,
  AbstractHasManyOptions,
  AbstractHasOptions,
  AbstractIterator,
  AbstractIteratorOptions,
  AbstractKeyIterator,
  AbstractKeyIteratorOptions,
  AbstractLevel,
  AbstractOpenOptions,
  AbstractPutOptions,
  AbstractSnapshot,
  AbstractValueIterator,
  AbstractValueIteratorOptions,
  Transcoder
} from 'abstract-level'

type Format = string | Buffer | Uint8Array

/**
 * A keyspace: the operations that a database and its other keyspaces have in common. Their keys
 * have at most 64 KiB, their values at most 64 MiB.
 */
declare abstract class Store<KDefault, VDefault> extends AbstractLevel<Format, KDefault, VDefault> {
  get (key: KDefault): Promise<VDefault | undefined>
  get<K = KDefault, V = VDefault> (
    key: K, options: GetOptions<K, V>
  ): Promise<V | undefined>

  /** As {@link get}. Blocks the event loop while a file is read, if memory has no answer. */
  getSync (key: KDefault): VDefault | undefined
  getSync<K = KDefault, V = VDefault> (key: K, options: GetOptions<K, V>): V | undefined

  put (key: KDefault, value: VDefault): Promise<void>
  put<K = KDefault, V = VDefault> (key: K, value: V, options: PutOptions<K, V>): Promise<void>

  del (key: KDefault): Promise<void>
  del<K = KDefault> (key: K, options: DelOptions<K>): Promise<void>

  iterator (): Iterator<this, KDefault, VDefault>
  iterator<K = KDefault, V = VDefault> (
    options: IteratorOptions<K, V>
  ): Iterator<this, K, V>

  keys (): KeyIterator<this, KDefault>
  keys<K = KDefault> (options: KeyIteratorOptions<K>): KeyIterator<this, K>

  values (): ValueIterator<this, KDefault, VDefault>
  values<K = KDefault, V = VDefault> (
    options: ValueIteratorOptions<K, V>
  ): ValueIterator<this, K, V>

  /** Deletes a range. Without `limit` and `snapshot` it is one write, whatever the range holds. */
  clear (): Promise<void>
  clear<K = KDefault> (options: ClearOptions<K>): Promise<void>

  snapshot (): Snapshot

  /** Estimates the bytes that the keys of `[start, end)` take up in files. */
  approximateSize (start: KDefault, end: KDefault): Promise<number>
  approximateSize<K = KDefault> (start: K, end: K, options: StartEndOptions<K>): Promise<number>

  /** Merges the tables of `[start, end)`, so that what was deleted gives its space back. */
  compactRange (start: KDefault, end: KDefault): Promise<void>
  compactRange<K = KDefault> (start: K, end: K, options: CompactOptions<K>): Promise<void>
}

/**
 * An {@link AbstractLevel} database backed by Hedgerow.
 *
 * @template KDefault The default type of keys if not overridden on operations.
 * @template VDefault The default type of values if not overridden on operations.
 */
export class HedgerowLevel<KDefault = string, VDefault = string>
  extends Store<KDefault, VDefault> {
  /**
   * @param location The directory of the database.
   * @param options Options, of which those of {@link OpenOptions} are forwarded to {@link open}.
   */
  constructor (location: string, options?: DatabaseOptions<KDefault, VDefault> | undefined)

  /** The location that was passed to the constructor. */
  get location (): string

  open (): Promise<void>
  open (options: OpenOptions): Promise<void>

  batch (operations: Array<BatchOperation<this, KDefault, VDefault>>): Promise<void>
  batch<K = KDefault, V = VDefault> (
    operations: Array<BatchOperation<this, K, V>>, options: BatchOptions<K, V>
  ): Promise<void>
  batch (): ChainedBatch<this, KDefault, VDefault>

  /**
   * A keyspace with this name, which is created if it does not exist. It is a map of its own, with
   * a design of its own. A batch of the database takes it as the `sublevel` of an operation, and
   * is atomic over all keyspaces.
   */
  keyspace<K = string, V = string> (
    name: string, options?: KeyspaceOptions<K, V> | undefined
  ): Keyspace<K, V>

  /** The names of all keyspaces. That of the database itself is `default`. */
  keyspaces (): string[]

  /** Removes a keyspace with everything in it. */
  dropKeyspace (name: string): Promise<void>

  /** Copies the database into a new directory, by links where the file system has them. */
  checkpoint (location: string): Promise<void>

  /**
   * Adds the present state of the database to a directory of backups, which keeps each file once.
   * The result is the number of the backup.
   */
  backup (repository: string, options?: SignalOptions | undefined): Promise<number>

  /**
   * Statistics of the work since the database was opened and of its present state: operations,
   * bytes, amplification, memory, levels of each keyspace. Sizes are bytes, times microseconds.
   */
  stats (): Promise<Stats>

  /** Restores a backup, the latest by default, into a new directory. */
  static restore (
    repository: string, location: string, options?: RestoreOptions | undefined
  ): Promise<void>

  /** Removes the files of a database, and nothing else. */
  static destroy (location: string): Promise<void>

  /** Rebuilds a damaged database from what can be read. */
  static repair (location: string): Promise<void>
}

/** A keyspace of a database. */
export class Keyspace<KDefault = string, VDefault = string> extends Store<KDefault, VDefault> {
  private constructor ()

  get name (): string

  /**
   * Combines an operand with the value of a key, by the merge operator of the keyspace. Reads
   * nothing.
   */
  merge (key: KDefault, operand: VDefault): Promise<void>
  merge<K = KDefault, V = VDefault> (
    key: K, operand: V, options: MergeOptions<K, V>
  ): Promise<void>
}

/** The choices for a keyspace. They are stored: an open without them keeps them. */
export interface DesignOptions {
  /**
   * The design of the trees as text, one choice a line: `policy = leveling:6`,
   * `filter = bloom:10`. `docs/design` describes the choices; the default suits most data.
   */
  design?: string | undefined

  /** The trees that the keys are divided into: `single`, `hash:4`. Fixed at creation. */
  partitions?: string | undefined

  /**
   * A merge operator by name: `add_i64`, `add_f64`, `min`, `max`, `append`, `bit_and`, `bit_or`,
   * `bit_xor`, `union_u64`. Fixed at creation.
   */
  mergeOperator?: string | undefined

  /** Compress blocks with LZ4. @defaultValue `true` */
  compression?: boolean | undefined

  /** The bytes of a block, before compression. */
  blockSize?: number | undefined
}

export interface OpenOptions extends AbstractOpenOptions, DesignOptions {
  /**
   * The bytes of memory for everything: memtables, cache, indexes and filters.
   * @defaultValue 256 MiB
   */
  memoryBudget?: number | undefined

  /** Open without writing. Another process may have the database open. @defaultValue `false` */
  readOnly?: boolean | undefined

  /** The threads that flush and merge. @defaultValue two more than processors */
  backgroundThreads?: number | undefined

  /** The bytes that merges write per second at most. @defaultValue no limit */
  ioBytesPerSecond?: number | undefined

  /** Directories for levels, log and filters: `0-1=/fast;2-=/slow;log=/fast`. */
  levelPaths?: string | undefined

  /**
   * Share the database with other threads of the process that open it with this option. The first
   * one's other options count. @defaultValue `false`
   */
  multithreading?: boolean | undefined

  /** The bytes of LevelDB's cache. It and `writeBufferSize` give the default of the budget. */
  cacheSize?: number | undefined

  /** The bytes of each of LevelDB's two write buffers. */
  writeBufferSize?: number | undefined
}

export interface DatabaseOptions<K, V>
  extends AbstractDatabaseOptions<K, V>, Omit<OpenOptions, 'passive'> {}

export interface KeyspaceOptions<K, V> extends DesignOptions {
  keyEncoding?: string | Transcoder.PartialEncoding<K> | undefined
  valueEncoding?: string | Transcoder.PartialEncoding<V> | undefined
}

export interface Stats {
  puts: number
  gets: number
  memory: { budget: number, total: number, [part: string]: number }
  keyspaces: Array<{ name: string, design: string, entries: number, [name: string]: unknown }>
  [name: string]: unknown
}

export interface SignalOptions {
  /** Ends the call early; it fails with the code `LEVEL_ABORTED`. */
  signal?: AbortSignal | undefined
}

export interface RestoreOptions extends SignalOptions {
  /** The number of the backup. @defaultValue the latest */
  id?: number | undefined
}

export interface WriteOptions {
  /** Wait until the write is on the disk. @defaultValue `false` */
  sync?: boolean | undefined
}

export interface ExpiryOptions {
  /** The time when the entry expires: a date, or milliseconds since 1970. */
  expiresAt?: Date | number | undefined
}

export interface ChunkOptions {
  /** The bytes that an iterator reads at once, approximately. @defaultValue 64 KiB */
  highWaterMarkBytes?: number | undefined
}

export interface StartEndOptions<K> {
  /** The encoding of `start` and `end`. */
  keyEncoding?: string | Transcoder.PartialEncoder<K> | undefined
}

export interface MergeOptions<K, V> extends WriteOptions {
  keyEncoding?: string | Transcoder.PartialEncoder<K> | undefined
  valueEncoding?: string | Transcoder.PartialEncoder<V> | undefined
}

export interface CompactOptions<K> extends StartEndOptions<K>, SignalOptions {}
export interface ClearOptions<K> extends AbstractClearOptions<K>, WriteOptions, SignalOptions {}
export interface PutOptions<K, V> extends AbstractPutOptions<K, V>, WriteOptions, ExpiryOptions {}
export interface DelOptions<K> extends AbstractDelOptions<K>, WriteOptions {}
export interface BatchOptions<K, V>
  extends AbstractBatchOptions<K, V>, WriteOptions, ExpiryOptions {}
export type GetOptions<K, V> = AbstractGetOptions<K, V>
export type GetManyOptions<K, V> = AbstractGetManyOptions<K, V>
export type HasOptions<K> = AbstractHasOptions<K>
export type HasManyOptions<K> = AbstractHasManyOptions<K>
export type BatchOperation<TDatabase, K, V> =
  AbstractBatchOperation<TDatabase, K, V> & ExpiryOptions

export type Iterator<TDatabase, K, V> = AbstractIterator<TDatabase, K, V>
export type KeyIterator<TDatabase, K> = AbstractKeyIterator<TDatabase, K>
export type ValueIterator<TDatabase, K, V> = AbstractValueIterator<TDatabase, K, V>
export type ChainedBatch<TDatabase, K, V> = AbstractChainedBatch<TDatabase, K, V>
export type IteratorOptions<K, V> = AbstractIteratorOptions<K, V> & ChunkOptions
export type KeyIteratorOptions<K> = AbstractKeyIteratorOptions<K> & ChunkOptions
export type ValueIteratorOptions<K, V> = AbstractValueIteratorOptions<K, V> & ChunkOptions
export type Snapshot = AbstractSnapshot
