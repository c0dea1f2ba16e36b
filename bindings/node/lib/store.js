'use strict'

const { AbstractLevel, AbstractSnapshot } = require('abstract-level')
const ModuleError = require('module-error')
const { abortable } = require('./abortable')
const binding = require('./binding')
const { ChainedBatch } = require('./chained-batch')
const { Iterator } = require('./iterator')
const { Misses } = require('./misses')
const { scratch, unpackPresence, unpackValues } = require('./packed')

const kHandle = Symbol('handle')
const kWriter = Symbol('writer')
const kOpened = Symbol('opened')

// The answers of native code that are no length of a value.
const ABSENT = -1
const UNKNOWN = -2

// A list of at most so many keys is answered at once if memory has the answer. This takes some tens
// of microseconds; for a longer list the event loop would wait too long.
const KEYS_AT_ONCE_MAX = 128

const manifest = {
  encodings: { buffer: true, utf8: true, view: true },
  implicitSnapshots: true,
  explicitSnapshots: true,
  has: true,
  seek: true,
  getSync: true,
  createIfMissing: true,
  errorIfExists: true,
  additionalMethods: { approximateSize: true, compactRange: true },
  signals: { iterators: true }
}

// A keyspace of a database: the methods that a database and its other keyspaces have in common.
class Store extends AbstractLevel {
  #misses = null

  constructor (options) {
    super(manifest, options)
    // 0 while it is not open.
    this[kHandle] = 0
    this[kWriter] = null
  }

  // Takes over the handle of a keyspace that was opened, and the writer of its database.
  [kOpened] (handle, writer) {
    this[kHandle] = handle
    this[kWriter] = writer
    this.#misses = new Misses(handle)
  }

  _get (key, options) {
    const handle = this[kHandle]
    const snapshot = handleOf(options.snapshot)
    const length = lookUp(binding.get, handle, snapshot, key)
    if (length >= 0) return valueOf(length, options)
    if (length === ABSENT) return undefined
    return this.#misses.get(key, snapshot, options.valueEncoding === 'utf8')
  }

  _getSync (key, options) {
    const length = lookUp(binding.getSync, this[kHandle], handleOf(options.snapshot), key)
    return length === ABSENT ? undefined : valueOf(length, options)
  }

  _has (key, options) {
    const snapshot = handleOf(options.snapshot)
    const length = lookUp(binding.get, this[kHandle], snapshot, key)
    if (length !== UNKNOWN) return length !== ABSENT
    return this._hasMany([key], options).then(([found]) => found)
  }

  async _getMany (keys, options) {
    const packed = await this.#read(keys, options, false)
    return unpackValues(packed, keys.length, options.valueEncoding === 'utf8')
  }

  async _hasMany (keys, options) {
    return unpackPresence(await this.#read(keys, options, true), keys.length)
  }

  #read (keys, options, onlyPresence) {
    const handle = this[kHandle]
    const snapshot = handleOf(options.snapshot)
    const { packed } = scratch.clear().keys(keys)
    const values = keys.length > KEYS_AT_ONCE_MAX
      ? null
      : binding.getMany(handle, snapshot, packed, onlyPresence)
    return values ?? binding.getManyLater(handle, snapshot, packed, onlyPresence)
  }

  _put (key, value, options) {
    return this[kWriter].write(options.sync, group => {
      group.put(this[kHandle], key, value, options)
    })
  }

  _del (key, options) {
    return this[kWriter].write(options.sync, group => group.del(this[kHandle], key))
  }

  async _batch (operations, options) {
    const pack = group => {
      for (const op of operations) {
        let { key } = op
        let store = this
        if (op.sublevel != null) [store, key] = ofOther(this, op)
        if (op.type === 'put') group.put(store[kHandle], key, op.value, op)
        else group.del(store[kHandle], key)
      }
    }
    const writer = this[kWriter]
    const others = operations.map(({ sublevel }) => sublevel?.db ?? sublevel)
    if (!others.some(isOpening)) return writer.write(options.sync, pack)
    return writer.inOrder(options.sync, async group => {
      for (const other of others.filter(isOpening)) await other.open({ passive: true })
      pack(group)
    })
  }

  _chainedBatch () {
    return new ChainedBatch(this)
  }

  // Without a limit and a snapshot it is one range delete.
  async _clear (options) {
    const { snapshot, reverse, limit, signal } = options
    if (limit < 0 && snapshot == null) {
      return this[kWriter].write(options.sync, group => group.delRange(this[kHandle], options))
    }
    return this[kWriter].inOrder(false, () => abortable(signal, abort => {
      const { packed } = scratch.clear().range(options)
      return binding.clear(this[kHandle], handleOf(snapshot), packed, reverse, limit, abort)
    }))
  }

  // Estimates the bytes that a range of keys takes up in files.
  async approximateSize (start, end, options) {
    return whenOpen(this, () => {
      return binding.approximateSize(this[kHandle], this.#packed(start, end, options))
    })
  }

  // Merges the tables of a range of keys, so that what was deleted gives its space back.
  async compactRange (start, end, options) {
    return whenOpen(this, () => {
      return abortable(options?.signal, abort => {
        return binding.compactRange(this[kHandle], this.#packed(start, end, options), abort)
      })
    })
  }

  #packed (start, end, options) {
    if (start === undefined || end === undefined) {
      throw new TypeError("The arguments 'start' and 'end' are required")
    }
    const encoding = this.keyEncoding(options?.keyEncoding)
    return scratch.clear().range({ gte: encoding.encode(start), lt: encoding.encode(end) }).packed
  }

  _iterator (options) {
    return new Iterator(this, this[kHandle], handleOf(options.snapshot), options)
  }

  _snapshot (options) {
    return new Snapshot(this[kHandle], options)
  }
}

class Snapshot extends AbstractSnapshot {
  constructor (handle, options) {
    // Before the database knows of this object, because it may fail.
    const own = binding.snapshot(handle)
    super(options)
    this[kHandle] = own
  }

  async _close () {
    binding.release(this[kHandle])
  }
}

function isOpening (store) {
  return store?.status === 'opening'
}

// The handle of a snapshot; 0 is the present.
function handleOf (snapshot) {
  return snapshot == null ? 0 : snapshot[kHandle]
}

// Calls a native get. Afterwards the scratch buffer begins with the value.
function lookUp (get, handle, snapshot, key) {
  const length = scratch.clear().raw(key)
  let found = get(handle, snapshot, scratch.buffer, length)
  while (found > scratch.buffer.length) {
    scratch.reserve(found)
    found = get(handle, snapshot, scratch.buffer, length)
  }
  return found
}

function valueOf (length, options) {
  if (options.valueEncoding === 'utf8') return scratch.buffer.utf8Slice(0, length)
  const value = Buffer.allocUnsafe(length)
  scratch.buffer.copy(value, 0, 0, length)
  return value
}

// The keyspace and the key of a batch operation for another keyspace of the database, or for a
// sublevel of it.
function ofOther (store, { sublevel, key, keyEncoding }) {
  const isKeyspace = sublevel instanceof Store
  const other = isKeyspace ? sublevel : sublevel.db
  if (!(other instanceof Store) || other[kWriter] !== store[kWriter]) {
    throw new ModuleError('Sublevel must belong to the database of the batch', {
      code: 'LEVEL_INVALID_ARGUMENT'
    })
  }
  return [other, isKeyspace ? key : sublevel.prefixKey(key, keyEncoding, false)]
}

// Calls a function once the database is open.
async function whenOpen (store, call) {
  if (store.status === 'opening') return store.deferAsync(() => whenOpen(store, call))
  if (store.status === 'open') return call()
  throw new ModuleError('Database is not open', { code: 'LEVEL_DATABASE_NOT_OPEN' })
}

module.exports = { Store, kHandle, kOpened, kWriter, whenOpen }
