'use strict'

const binding = require('./binding')
const { scratch, unpackValues } = require('./packed')

// The most keys that one thread reads: as many as the engine reads at the same time.
const KEYS_MAX = 64

// Gets that memory could not answer. Those of one turn of the event loop are read together.
class Misses {
  #handle
  #groups = new Map()

  constructor (handle) {
    this.#handle = handle
  }

  get (key, snapshot, asString) {
    let group = this.#groups.get(snapshot)
    if (group === undefined || group.length === KEYS_MAX) {
      group = []
      this.#groups.set(snapshot, group)
      queueMicrotask(() => this.#read(group, snapshot))
    }
    return new Promise((resolve, reject) => {
      // The caller may change a buffer before it is read.
      group.push({ key: typeof key === 'string' ? key : Buffer.from(key), asString, resolve, reject })
    })
  }

  async #read (group, snapshot) {
    if (this.#groups.get(snapshot) === group) this.#groups.delete(snapshot)
    try {
      const { packed } = scratch.clear().keys(group.map(({ key }) => key))
      const read = await binding.getManyLater(this.#handle, snapshot, packed, false)
      const values = unpackValues(read, group.length, false)
      group.forEach(({ asString, resolve }, i) => resolve(asString ? values[i]?.utf8Slice() : values[i]))
    } catch (err) {
      for (const { reject } of group) reject(err)
    }
  }
}

module.exports = { Misses }
