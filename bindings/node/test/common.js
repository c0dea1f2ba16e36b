'use strict'

const fs = require('fs')
const os = require('os')
const path = require('path')
const test = require('tape')
const { HedgerowLevel } = require('..')

const root = fs.mkdtempSync(path.join(os.tmpdir(), 'hedgerow-level-'))
let locations = 0
test.onFinish(() => fs.rmSync(root, { recursive: true, force: true }))

const newLocation = () => path.join(root, String(locations++))

// An open database in a new directory.
async function newDatabase (options) {
  const db = new HedgerowLevel(newLocation(), options)
  await db.open()
  return db
}

// The code of the error that a function or promise fails with; undefined if it does not fail.
async function codeOf (failing) {
  try {
    await (typeof failing === 'function' ? failing() : failing)
  } catch (err) {
    return err.code
  }
}

// A generator of numbers below a bound.
function random (seed) {
  let state = seed
  return bound => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return Math.floor(state / 2 ** 32 * bound)
  }
}

module.exports = { test, newLocation, newDatabase, codeOf, random, ...require('./data') }
