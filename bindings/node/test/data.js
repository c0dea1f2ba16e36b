'use strict'

// Puts entries `from..to`, with values of so many bytes.
async function fill (db, from, to, valueBytes = 10) {
  const value = 'v'.repeat(valueBytes)
  for (let i = from; i < to; i += 1000) {
    const length = Math.min(1000, to - i)
    await db.batch(Array.from({ length }, (_, j) => ({ type: 'put', key: keyOf(i + j), value })))
  }
}

const keyOf = i => String(i).padStart(8, '0')

module.exports = { fill, keyOf }
