'use strict'

const { AbstractChainedBatch } = require('abstract-level')
const ModuleError = require('module-error')

// Operations that are gathered one by one and written as a batch.
class ChainedBatch extends AbstractChainedBatch {
  #operations = []

  constructor (db) {
    super(db, { add: true })
  }

  // The base class would delete the key in the database of this batch.
  del (key, options) {
    let store = options?.sublevel
    while (store?.parent != null && store !== this.db) store = store.parent
    if (store != null && store !== this.db) {
      throw new ModuleError('A chained batch deletes in its own keyspace; use an array of operations', {
        code: 'LEVEL_NOT_SUPPORTED'
      })
    }
    return super.del(key, options)
  }

  _add (operation) {
    this.#operations.push(operation)
  }

  _clear () {
    this.#operations = []
  }

  async _write (options) {
    return this.db._batch(this.#operations, options)
  }
}

module.exports = { ChainedBatch }
