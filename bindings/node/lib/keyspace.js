'use strict'

const binding = require('./binding')
const { Store, kHandle, kOpened, kWriter, whenOpen } = require('./store')

// Another keyspace of a database, with a design of its own. It is open while the database is.
class Keyspace extends Store {
  #db
  #name

  constructor (db, name, options) {
    super(options)
    this.#db = db
    this.#name = name
  }

  get name () {
    return this.#name
  }

  async _open (options) {
    await this.#db.open({ passive: true })
    const handle = await binding.openKeyspace(this.#db[kHandle], this.#name, options)
    this[kOpened](handle, this.#db[kWriter])
    this.#db.attachResource(this)
  }

  async _close () {
    await this[kWriter].ended()
    binding.release(this[kHandle])
    this.#db.detachResource(this)
  }

  // Combines an operand with the value by the merge operator of the keyspace, without reading it.
  async merge (key, operand, options) {
    return whenOpen(this, () => {
      this._assertValidKey(key)
      this._assertValidValue(operand)
      const packedKey = this.keyEncoding(options?.keyEncoding).encode(key)
      const packedOperand = this.valueEncoding(options?.valueEncoding).encode(operand)
      const pack = group => group.merge(this[kHandle], packedKey, packedOperand)
      // Alone: an operand that the operator refuses fails this call only.
      return this[kWriter].write(options?.sync, pack, true)
    })
  }
}

module.exports = { Keyspace }
