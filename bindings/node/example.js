'use strict'

// Stores some readings, reads a range of them back and lets one expire.

const fs = require('fs')
const os = require('os')
const path = require('path')
const { HedgerowLevel } = require('hedgerow-level')

async function main () {
  const location = fs.mkdtempSync(path.join(os.tmpdir(), 'readings-'))
  const db = new HedgerowLevel(location, { valueEncoding: 'json', memoryBudget: 32 << 20 })

  // A sublevel is a part of the keys. A batch is atomic, over all sublevels and keyspaces.
  const readings = db.sublevel('readings', { valueEncoding: 'json' })
  await db.batch([1, 2, 3, 4].map(day => ({
    type: 'put',
    sublevel: readings,
    key: `2024-01-0${day}`,
    value: { celsius: 2.5 * day }
  })))

  for await (const [day, { celsius }] of readings.iterator({ gte: '2024-01-02', lt: '2024-01-04' })) {
    console.log(`${day}: ${celsius} degrees`)
  }

  // A snapshot keeps what it saw.
  const before = db.snapshot()
  await readings.clear()
  console.log('readings now:', await readings.keys().all())
  console.log('readings then:', await readings.keys({ snapshot: before }).all())
  await before.close()

  // An entry that expires, and a value that is added to without reading it.
  await db.put('session', { user: 'ada' }, { expiresAt: Date.now() + 3600e3 })
  const words = db.keyspace('words', { mergeOperator: 'append', valueEncoding: 'utf8' })
  for (const letter of 'hedge') await words.merge('word', letter)
  console.log('words:', await words.get('word'), '- session:', await db.get('session'))

  await db.close()
  fs.rmSync(location, { recursive: true })
}

main()
