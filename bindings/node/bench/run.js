'use strict'

// hedgerow-level beside classic-level in one process: the same keys, values, operations and memory,
// the sides in turn in every round. Prints the median of the rounds; writes a JSON row for each
// round, operation and side, with the machine and the versions, to the file of --json.
//
//   node bench/run.js [--entries 200000] [--rounds 5] [--value-bytes 100] [--memory-mib 64] [--only
//   get]
//                     [--json FILE]
//
// Both compress their blocks, have Bloom filters of 10 bits for a key and do not sync, by default.
// Writes come first. Then both compact all they have, so that neither merges while the other one is
// read.

const { execFileSync } = require('child_process')
const fs = require('fs')
const os = require('os')
const path = require('path')
const { parseArgs } = require('util')
const { ClassicLevel } = require('classic-level')
const { HedgerowLevel } = require('..')

const options = parseArgs({
  options: {
    entries: { type: 'string', default: '200000' },
    rounds: { type: 'string', default: '5' },
    'value-bytes': { type: 'string', default: '100' },
    'memory-mib': { type: 'string', default: '64' },
    only: { type: 'string', default: '' },
    json: { type: 'string' }
  }
}).values
// Every workload is a whole number of batches.
const entries = Math.ceil(Number(options.entries) / 4000) * 4000
const rounds = Number(options.rounds)
const valueBytes = Number(options['value-bytes'])
const memory = Number(options['memory-mib']) << 20
const writeBuffer = 4 << 20

// A generator that both sides begin with the same seed.
function random (seed) {
  let state = seed
  return bound => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return Math.floor(state / 2 ** 32 * bound)
  }
}

const keyOf = i => `user${String(i).padStart(12, '0')}`
const text = 'The quick brown fox jumps over the lazy dog, again and again. '
// A value that compresses to about a half.
const valueOf = next => {
  let value = ''
  while (value.length < valueBytes) value += next(2 ** 32).toString(36) + text.slice(0, next(12))
  return value.slice(0, valueBytes)
}

// Made beforehand, so that it is not measured.
const values = (() => {
  const next = random(1)
  return Array.from({ length: 1000 }, () => valueOf(next))
})()

const anyPut = next => ({ type: 'put', key: keyOf(next(entries)), value: values[next(1000)] })

// Each returns the number of its operations.
const writes = {
  async 'batch of 100, random keys' (db, next) {
    for (let done = 0; done < entries / 4; done += 100) {
      await db.batch(Array.from({ length: 100 }, () => anyPut(next)))
    }
    return entries / 4
  },
  async 'batch of 1000, random keys' (db, next) {
    for (let done = 0; done < entries / 4; done += 1000) {
      await db.batch(Array.from({ length: 1000 }, () => anyPut(next)))
    }
    return entries / 4
  },
  async 'chained batch of 100' (db, next) {
    for (let done = 0; done < entries / 8; done += 100) {
      const batch = db.batch()
      for (let i = 0; i < 100; i++) batch.put(keyOf(next(entries)), values[next(1000)])
      await batch.write()
    }
    return entries / 8
  },
  async 'put, one at a time' (db, next) {
    const count = entries / 20
    for (let i = 0; i < count; i++) await db.put(keyOf(next(entries)), values[next(1000)])
    return count
  },
  async 'put, 100 at a time' (db, next) {
    const count = entries / 8
    for (let done = 0; done < count; done += 100) {
      await Promise.all(Array.from({ length: 100 }, () => db.put(keyOf(next(entries)), values[next(1000)])))
    }
    return count
  }
}

const reads = {
  async 'get, one at a time' (db, next) {
    const count = entries / 4
    for (let i = 0; i < count; i++) expect(await db.get(keyOf(next(entries))))
    return count
  },
  async 'get, 100 at a time' (db, next) {
    const count = entries / 4
    for (let done = 0; done < count; done += 100) {
      const found = await Promise.all(Array.from({ length: 100 }, () => db.get(keyOf(next(entries)))))
      found.forEach(expect)
    }
    return count
  },
  async 'get of absent keys' (db, next) {
    const count = entries / 4
    for (let i = 0; i < count; i++) {
      if (await db.get(keyOf(next(entries)) + 'x') !== undefined) throw new Error('found')
    }
    return count
  },
  async 'get as buffers' (db, next) {
    const encodings = { keyEncoding: 'buffer', valueEncoding: 'buffer' }
    const count = entries / 4
    for (let i = 0; i < count; i++) expect(await db.get(Buffer.from(keyOf(next(entries))), encodings))
    return count
  },
  async getSync (db, next) {
    const count = entries / 4
    for (let i = 0; i < count; i++) expect(db.getSync(keyOf(next(entries))))
    return count
  },
  async 'getMany of 10' (db, next) {
    for (let done = 0; done < entries / 4; done += 10) {
      const keys = Array.from({ length: 10 }, () => keyOf(next(entries)))
      ;(await db.getMany(keys)).forEach(expect)
    }
    return entries / 4
  },
  async 'getMany of 1000' (db, next) {
    for (let done = 0; done < entries / 4; done += 1000) {
      const keys = Array.from({ length: 1000 }, () => keyOf(next(entries)))
      ;(await db.getMany(keys)).forEach(expect)
    }
    return entries / 4
  },
  async 'iterator, for await' (db) {
    let count = 0
    for await (const [key, value] of db.iterator({ limit: entries / 2 })) {
      if (key.length > 0 && value.length > 0) count++
    }
    return count
  },
  async 'iterator, reverse' (db) {
    let count = 0
    for await (const [key] of db.iterator({ reverse: true, limit: entries / 4 })) {
      if (key.length > 0) count++
    }
    return count
  },
  async 'iterator, all()' (db) {
    return (await db.iterator({ limit: entries / 2 }).all()).length
  },
  async 'iterator as buffers, all()' (db) {
    const encodings = { keyEncoding: 'buffer', valueEncoding: 'buffer' }
    return (await db.iterator({ limit: entries / 2, ...encodings }).all()).length
  },
  async 'iterator, nextv(1000)' (db) {
    const iterator = db.iterator()
    let count = 0
    let items
    while ((items = await iterator.nextv(1000)).length > 0) count += items.length
    await iterator.close()
    return count
  },
  async 'keys, all()' (db) {
    return (await db.keys({ limit: entries / 2 }).all()).length
  },
  async 'range of 10' (db, next) {
    const count = entries / 100
    for (let i = 0; i < count; i++) {
      expect(await db.iterator({ gte: keyOf(next(entries)), limit: 10 }).all())
    }
    return count
  },
  async 'range of 100' (db, next) {
    const count = entries / 200
    for (let i = 0; i < count; i++) {
      expect(await db.iterator({ gte: keyOf(next(entries)), limit: 100 }).all())
    }
    return count
  }
}

function expect (value) {
  if (value === undefined) throw new Error('expected a value')
}

async function fill (db) {
  for (let i = 0; i < entries; i += 1000) {
    const length = Math.min(1000, entries - i)
    await db.batch(Array.from({ length }, (_, j) => {
      return { type: 'put', key: keyOf(i + j), value: values[(i + j) % 1000] }
    }))
  }
}

const median = numbers => numbers.sort((a, b) => a - b)[numbers.length >> 1]
const loads = () => os.loadavg().map(load => load.toFixed(1)).join(' ')

const versionOf = name => require(`${name}/package.json`).version

// All that a number depends on, for each row.
function settings () {
  const versions = {
    node: process.version,
    'hedgerow-level': require('../package.json').version,
    'classic-level': versionOf('classic-level'),
    'abstract-level': versionOf('abstract-level')
  }
  const pairs = Object.entries(versions).map(([name, version]) => `${name}=${version}`)
  const common = execFileSync(path.join(__dirname, '../../common/row'), ['node', ...pairs])
  return { ...JSON.parse(common), entries, value_bytes: valueBytes, memory_mib: memory >> 20 }
}

// Runs the workloads, the sides in turn. Calls `row` with each result.
async function measure (sides, workloads, row) {
  for (const [operation, workload] of Object.entries(workloads)) {
    if (!operation.includes(options.only)) continue
    const times = { hedgerow: [], classic: [] }
    for (let round = 0; round < rounds; round++) {
      // Neither side is always the first.
      for (const [store, db] of round % 2 === 0 ? sides : [...sides].reverse()) {
        const next = random(7 + round)
        const began = process.hrtime.bigint()
        const operations = await workload(db, next)
        const us = Number(process.hrtime.bigint() - began) / 1000 / operations
        times[store].push(us)
        row({ operation, store, round, operations, us_per_operation: us, load: os.loadavg()[0] })
      }
    }
    const [ours, theirs] = [median(times.hedgerow), median(times.classic)]
    const cell = us => `${us.toFixed(2)} us`.padStart(12)
    console.log(`${operation.padEnd(28)}${cell(ours)}${cell(theirs)}   ${(theirs / ours).toFixed(2)} times as fast`)
  }
}

async function main (root) {
  const cacheSize = memory - 2 * writeBuffer
  const sides = [
    ['hedgerow', new HedgerowLevel(path.join(root, 'hedgerow'), { memoryBudget: memory })],
    ['classic', new ClassicLevel(path.join(root, 'classic'), { cacheSize, writeBufferSize: writeBuffer })]
  ]
  const fixed = settings()
  const rows = []
  const row = measured => rows.push(JSON.stringify({ ...fixed, ...measured }) + '\n')
  console.log(`${fixed.machine.cores} x ${fixed.machine.cpu}, ${fixed.date}, ${JSON.stringify(fixed.versions)}`)
  console.log(`${entries} entries, keys of 16 bytes, values of ${valueBytes} bytes, memory ${memory >> 20} MiB,` +
    ` ${rounds} rounds, load ${loads()}`)
  for (const [, db] of sides) await fill(db)

  console.log(`\n${'operation'.padEnd(28)}${'hedgerow'.padStart(12)}${'classic'.padStart(12)}   per operation`)
  await measure(sides, writes, row)
  for (const [, db] of sides) await db.compactRange(keyOf(0), keyOf(entries))
  await measure(sides, reads, row)
  console.log(`\nload at the end ${loads()}`)
  for (const [, db] of sides) await db.close()
  if (options.json) fs.writeFileSync(options.json, rows.join(''))
}

const root = fs.mkdtempSync(path.join(os.tmpdir(), 'level-bench-'))
main(root).finally(() => fs.rmSync(root, { recursive: true, force: true }))
