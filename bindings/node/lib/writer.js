'use strict'

const ModuleError = require('module-error')
const binding = require('./binding')
const { Packer } = require('./packed')

// The operations of packed writes, as src/writes.rs reads them.
const PUT = 0
const DELETE = 1
const PUT_UNTIL = 2
const MERGE = 3
const DELETE_RANGE = 4
const KEYSPACE = 5

// The operations that a turn of the event loop commits on its thread, in bytes. This takes a few
// hundred microseconds. A larger group is committed by a thread of the pool; smaller ones beyond
// these bytes wait for the next turn, so that a loop over writes lets the program do other things.
const TURN_BYTES_MAX = 65536
// The bytes that a commit counts for, beside its operations.
const COMMIT_BYTES = 512

const noop = () => {}

// Operations that are committed together.
class Group {
  operations = new Packer()
  // The handles of other keyspaces that the operations name, and the one that the last is for.
  keyspaces
  keyspace
  sync
  isAlone
  // A function to be called before, which may pack operations; undefined if there is none.
  task

  begin (handle, isAlone, task) {
    this.operations.clear()
    this.keyspaces = []
    this.keyspace = handle
    this.sync = false
    this.isAlone = isAlone
    this.task = task
    this.promise = new Promise((resolve, reject) => Object.assign(this, { resolve, reject }))
    return this
  }

  put (handle, key, value, options) {
    const { expiresAt } = options
    if (expiresAt === undefined || expiresAt === null) {
      this.#of(handle).byte(PUT).key(key).value(value)
    } else {
      this.#of(handle).byte(PUT_UNTIL).key(key).value(value).double(time(expiresAt))
    }
  }

  del (handle, key) {
    this.#of(handle).byte(DELETE).key(key)
  }

  merge (handle, key, operand) {
    this.#of(handle).byte(MERGE).key(key).value(operand)
  }

  delRange (handle, range) {
    this.#of(handle).byte(DELETE_RANGE).range(range)
  }

  #of (handle) {
    if (handle !== this.keyspace) {
      let index = this.keyspaces.indexOf(handle)
      if (index < 0) index = this.keyspaces.push(handle) - 1
      this.operations.byte(KEYSPACE).number(index)
      this.keyspace = handle
    }
    return this.operations
  }
}

// Commits writes in their order. Those of one turn of the event loop, and those that arrive during
// a commit, go together. What need not wait is committed at once, on this thread, unless a commit
// before it is under way.
class Writer {
  #handle
  // The groups that wait, in their order; a group to be used again; the promise of the newest
  // group.
  #waiting = []
  #spare = null
  #newest = null
  #isBusy = false
  // The operations that were committed on this thread in this turn of the event loop, and whether
  // groups wait for the next one.
  #turnBytes = 0
  #isTurnOver = false

  constructor (handle) {
    this.#handle = handle
  }

  // Packs operations with a function and commits them together. If the function throws, none of
  // them is written. Those that are alone may fail without others.
  write (sync, pack, isAlone = false) {
    const group = this.#group(isAlone)
    const { operations, keyspaces, keyspace } = group
    const lengths = [operations.length, keyspaces.length]
    try {
      pack(group)
    } catch (err) {
      group.keyspace = keyspace
      ;[operations.length, keyspaces.length] = lengths
      throw err
    }
    if (sync) group.sync = true
    return group.promise
  }

  // Calls an asynchronous function when the writes before it have ended. Those behind it wait for
  // it. What it packs is committed.
  inOrder (sync, task) {
    const group = this.#group(true, task)
    if (sync) group.sync = true
    return group.promise
  }

  // Waits until the writes before this call have ended.
  async ended () {
    await this.#newest?.catch(noop)
  }

  // The group that the next operations belong to.
  #group (isAlone, task) {
    const last = this.#waiting.at(-1)
    if (last !== undefined && !last.isAlone && !isAlone) return last
    const group = (this.#spare ?? new Group()).begin(this.#handle, isAlone, task)
    this.#spare = null
    this.#newest = group.promise
    this.#waiting.push(group)
    if (!this.#isBusy) {
      this.#isBusy = true
      queueMicrotask(() => this.#commit())
    }
    return group
  }

  // Commits the groups that wait, up to one that takes longer than this turn of the event loop.
  #commit () {
    while (this.#waiting.length > 0) {
      const group = this.#waiting[0]
      const bytes = group.operations.length + COMMIT_BYTES
      const atOnce = group.task === undefined && !group.sync && bytes <= TURN_BYTES_MAX
      if (atOnce && !this.#takeOfTurn(bytes)) return
      this.#waiting.shift()
      const under = this.#start(group, atOnce)
      if (under !== null) {
        under.then(() => group.resolve(), group.reject).then(() => {
          this.#spare = group
          this.#commit()
        })
        return
      }
      this.#spare = group
    }
    this.#isBusy = false
  }

  // Begins to commit a group. Returns null if that has ended, a promise otherwise.
  #start (group, atOnce) {
    try {
      const under = group.task === undefined ? this.#write(group, atOnce) : this.#run(group)
      if (under !== true) return under
      group.resolve()
    } catch (err) {
      // A write to a closed database is a rejection, too.
      group.reject(err)
    }
    return null
  }

  async #run (group) {
    await group.task(group)
    await this.#write(group, false)
  }

  // Returns true if the operations are committed, a promise otherwise.
  #write ({ operations, keyspaces, sync }, atOnce) {
    if (operations.length === 0) return true
    return binding.write(this.#handle, operations.packed, keyspaces, sync, atOnce)
  }

  // Takes bytes of what this turn of the event loop may commit. Returns false if there are not so
  // many left; then the next turn goes on.
  #takeOfTurn (bytes) {
    if (this.#turnBytes === 0) setImmediate(() => this.#nextTurn())
    this.#isTurnOver = this.#turnBytes + bytes > TURN_BYTES_MAX
    if (!this.#isTurnOver) this.#turnBytes += bytes
    return !this.#isTurnOver
  }

  #nextTurn () {
    this.#turnBytes = 0
    if (!this.#isTurnOver) return
    this.#isTurnOver = false
    this.#commit()
  }
}

// A date, or milliseconds since 1970.
function time (expiresAt) {
  const milliseconds = Number(expiresAt)
  if (milliseconds >= 0 && milliseconds <= 8.64e15) return milliseconds
  throw new ModuleError(`Option 'expiresAt' must be a date after 1970, found ${expiresAt}`, {
    code: 'LEVEL_INVALID_ARGUMENT'
  })
}

module.exports = { Writer }
