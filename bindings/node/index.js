'use strict'

const { abortable } = require('./lib/abortable')
const binding = require('./lib/binding')
const { Keyspace } = require('./lib/keyspace')
const { Store, kHandle, kOpened, kWriter, whenOpen } = require('./lib/store')
const { Writer } = require('./lib/writer')

// The memory that a database of LevelDB needs beside its cache and its two write buffers.
const FIXED_BYTES = 8 * 1024 * 1024
const CACHE_BYTES = 8 * 1024 * 1024
const WRITE_BUFFER_BYTES = 4 * 1024 * 1024

const noop = () => {}

// Closes a database that was collected and not closed.
const collected = new FinalizationRegistry(handle => binding.close(handle).catch(noop))

class HedgerowLevel extends Store {
  #location

  constructor (location, options) {
    assertLocation(location)
    super(options)
    this.#location = location
  }

  get location () {
    return this.#location
  }

  async _open (options) {
    const memoryBudget = options.memoryBudget ?? memoryOf(options)
    const handle = await binding.open(this.#location, { ...options, memoryBudget }, options)
    this[kOpened](handle, new Writer(handle))
    collected.register(this, handle, this)
  }

  async _close () {
    await this[kWriter].ended()
    const handle = this[kHandle]
    if (handle === 0) return
    this[kHandle] = 0
    collected.unregister(this)
    await binding.close(handle)
  }

  // Another keyspace, which is created if it does not exist.
  keyspace (name, options) {
    return new Keyspace(this, name, options)
  }

  // The names of all keyspaces.
  keyspaces () {
    return binding.keyspaces(this[kHandle])
  }

  async dropKeyspace (name) {
    return whenOpen(this, async () => {
      await this[kWriter].ended()
      return binding.dropKeyspace(this[kHandle], name)
    })
  }

  // Copies the database into a new directory.
  async checkpoint (location) {
    return whenOpen(this, async () => {
      await this[kWriter].ended()
      return binding.checkpoint(this[kHandle], location)
    })
  }

  // Adds the present state to a directory of backups.
  async backup (repository, options) {
    return whenOpen(this, async () => {
      await this[kWriter].ended()
      return abortable(options?.signal, abort => {
        return binding.backup(this[kHandle], this.#location, repository, abort)
      })
    })
  }

  // Statistics of the work since the database was opened, and of its present state.
  async stats () {
    return whenOpen(this, async () => JSON.parse(await binding.stats(this[kHandle])))
  }

  // Restores a backup into a new directory.
  static async restore (repository, location, options) {
    return abortable(options?.signal, abort => {
      return binding.restore(repository, location, options?.id, abort)
    })
  }

  static async destroy (location) {
    assertLocation(location)
    return binding.destroy(location)
  }

  static async repair (location) {
    assertLocation(location)
    return binding.repair(location)
  }
}

// The budget that the options of LevelDB amount to.
function memoryOf ({ cacheSize, writeBufferSize }) {
  if (cacheSize === undefined && writeBufferSize === undefined) return undefined
  return (cacheSize ?? CACHE_BYTES) + 2 * (writeBufferSize ?? WRITE_BUFFER_BYTES) + FIXED_BYTES
}

function assertLocation (location) {
  if (typeof location !== 'string' || location === '') {
    throw new TypeError("The first argument 'location' must be a non-empty string")
  }
}

module.exports = { HedgerowLevel, Keyspace }
