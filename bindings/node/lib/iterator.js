'use strict'

const { AbstractIterator } = require('abstract-level')
const { abortError } = require('./abortable')
const binding = require('./binding')
const { scratch, unpack } = require('./packed')

// The entries of the first chunk: often few are wanted. Each further chunk has twice as many.
const FIRST_ENTRIES = 32
const ENTRIES_MAX = 4096
// The default for the bytes of a chunk. Buffers and views that an iterator yields share the memory
// of their chunk.
const CHUNK_BYTES = 65536

// Chunks without entries: src/iterator.rs has the format.
const unread = Buffer.from([0, 0, 0, 0, 0])
const ended = Buffer.from([1, 0, 0, 0, 0])
const HEAD_BYTES = 5

const noop = () => {}

// Reads a range in chunks. From the second one on, a thread reads the next chunk while this one is
// consumed.
class Iterator extends AbstractIterator {
  #handle
  #options
  #chunk = unread
  #at = HEAD_BYTES
  // The entries of the chunk that were not yielded.
  #cached = 0
  // The chunks since the start or the last seek.
  #chunks = 0
  // The chunk that a thread reads ahead, or one that a seek made useless.
  #ahead = null
  #useless = null
  #target = null

  constructor (db, handle, snapshot, options) {
    const { keys, values, signal } = options
    // Before the database knows of this object, because it may fail.
    const own = open(handle, snapshot, options)
    super(db, options)
    this.#handle = own
    this.#options = {
      keys,
      values,
      keysAsStrings: options.keyEncoding === 'utf8',
      valuesAsStrings: options.valueEncoding === 'utf8',
      bytes: options.highWaterMarkBytes ?? CHUNK_BYTES,
      signal: signal ?? null
    }
    signal?.addEventListener('abort', this, { once: true })
  }

  // The entries that were read and not yielded.
  get cached () {
    return this.#cached
  }

  // The listener of the signal.
  handleEvent () {
    binding.abort(this.#handle)
  }

  _seek (target) {
    this.#useless ??= this.#ahead
    this.#ahead = null
    this.#use(unread)
    this.#chunks = 0
    // The caller may change a buffer before the next read.
    this.#target = typeof target === 'string' ? target : Buffer.from(target)
  }

  _next () {
    if (this.#cached > 0) return this.#entry()
    if (this.#chunk[0] === 1) return undefined
    return this.#read(this.#entries).then(() => this.#cached > 0 ? this.#entry() : undefined)
  }

  async _nextv (size) {
    if (this.#cached === 0 && this.#chunk[0] === 0) await this.#read(size)
    const items = new Array(Math.min(size, this.#cached))
    for (let i = 0; i < items.length; i++) items[i] = this.#entry()
    return items
  }

  async _close () {
    this.#use(ended)
    this.#options.signal?.removeEventListener('abort', this)
    return binding.release(this.#handle)
  }

  get #entries () {
    return Math.min(FIRST_ENTRIES * 2 ** this.#chunks, ENTRIES_MAX)
  }

  #use (chunk) {
    this.#chunk = chunk
    this.#at = HEAD_BYTES
    this.#cached = chunk.readUInt32LE(1)
  }

  // Waits for the next chunk.
  async #read (entries) {
    if (this.#useless !== null) await this.#useless.catch(noop)
    this.#useless = null
    const chunk = this.#ahead ?? this.#start(entries)
    this.#ahead = null
    try {
      this.#use(await chunk)
    } catch (err) {
      throw err.code === 'LEVEL_ABORTED' ? abortError(err) : err
    }
    if (this.#options.signal?.aborted) throw abortError()
    this.#chunks++
    if (this.#chunks > 1 && this.#chunk[0] === 0 && this.#left > 0) {
      this.#ahead = this.#start(Math.max(entries, this.#entries))
      this.#ahead.catch(noop)
    }
  }

  // The entries that may still be read.
  get #left () {
    return this.limit - this.count - this.#cached
  }

  // Starts to read a chunk, from the target of a seek if there is one.
  async #start (entries) {
    const left = this.#left
    const target = this.#target
    this.#target = null
    const length = target === null ? -1 : scratch.clear().raw(target)
    const [handle, { bytes }] = [this.#handle, this.#options]
    return binding.nextv(handle, Math.min(entries, left), bytes, entries >= left, scratch.buffer, length)
  }

  #entry () {
    const { keys, values, keysAsStrings, valuesAsStrings } = this.#options
    const chunk = this.#chunk
    const key = this.#at + 4
    const value = key + chunk.readUInt32LE(this.#at) + 4
    const end = value + chunk.readUInt32LE(value - 4)
    this.#at = end
    this.#cached--
    return [
      keys ? unpack(chunk, key, value - 4, keysAsStrings) : undefined,
      values ? unpack(chunk, value, end, valuesAsStrings) : undefined
    ]
  }
}

// The handle of a new native iterator; 0, of which reads fail, if the snapshot was closed before.
function open (handle, snapshot, options) {
  const { packed } = scratch.clear().range(options)
  const { reverse, keys, values } = options
  try {
    return binding.iterator(handle, snapshot, packed, reverse, keys, values)
  } catch (err) {
    if (err.code === 'LEVEL_SNAPSHOT_NOT_OPEN') return 0
    throw err
  }
}

module.exports = { Iterator }
