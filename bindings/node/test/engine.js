'use strict'

// The additions to Level: keyspaces, expiry, merges, copies; and options.

const fs = require('fs')
const path = require('path')
const { HedgerowLevel } = require('..')
const { test, newLocation, newDatabase, codeOf, fill, keyOf } = require('./common')

test('a batch is atomic over keyspaces and their sublevels', async t => {
  const db = await newDatabase()
  const users = db.keyspace('users', { valueEncoding: 'json' })
  const emails = users.sublevel('emails')
  await db.batch([
    { type: 'put', key: 'a', value: 'in the database' },
    { type: 'put', sublevel: users, key: 'ada', value: { born: 1815 } },
    { type: 'put', sublevel: emails, key: 'ada', value: 'ada@example.org' },
    { type: 'put', sublevel: db.sublevel('s'), key: 'k', value: 'in a sublevel' }
  ])
  t.same(await db.iterator().all(), [['!s!k', 'in a sublevel'], ['a', 'in the database']])
  t.same(await users.get('ada'), { born: 1815 })
  t.is(await emails.get('ada'), 'ada@example.org')
  t.same(await emails.keys().all(), ['ada'])
  t.same(db.keyspaces().sort(), ['default', 'users'])

  const other = await newDatabase()
  const foreign = other.keyspace('users')
  await foreign.open()
  const mixed = db.batch([{ type: 'put', sublevel: foreign, key: 'x', value: 'y' }])
  t.is(await codeOf(mixed), 'LEVEL_INVALID_ARGUMENT', 'another database')
  await other.close()

  const chained = db.batch()
  chained.put('bob', { born: 1900 }, { sublevel: users }).del('a').del('k', { sublevel: db.sublevel('s') })
  for (const sublevel of [users, emails]) {
    t.is(await codeOf(() => chained.del('ada', { sublevel })), 'LEVEL_NOT_SUPPORTED')
  }
  await chained.write()
  t.same(await users.get('bob'), { born: 1900 })
  t.same(await db.keys().all(), [])
  await db.batch([{ type: 'del', sublevel: emails, key: 'ada' }])
  t.same(await emails.keys().all(), [])
  await emails.put('ada', 'again')

  const snapshot = db.snapshot()
  await users.clear()
  t.same(await users.keys().all(), [])
  t.same(await users.keys({ snapshot }).all(), ['!emails!ada', 'ada', 'bob'])
  await snapshot.close()
  await db.close()

  await db.open()
  await users.open()
  t.is(users.status, 'open', 'a keyspace opens again with its database')
  await users.close()
  await db.dropKeyspace('users')
  t.same(db.keyspaces(), ['default'])
  t.is(await codeOf(db.dropKeyspace('default')), 'LEVEL_INVALID_ARGUMENT')
  await db.close()
})

test('an entry expires', async t => {
  const db = await newDatabase({ valueEncoding: 'json' })
  const past = Date.now() - 1000
  await db.put('past', 1, { expiresAt: past })
  await db.put('future', 2, { expiresAt: new Date(Date.now() + 3600e3) })
  await db.batch([{ type: 'put', key: 'batched', value: 3, expiresAt: past }])
  await db.batch([{ type: 'put', key: 'all', value: 4 }], { expiresAt: past })
  await db.batch().put('chained', 5, { expiresAt: past }).write()
  await db.sublevel('s').put('k', 'v', { expiresAt: past })
  t.same(await db.iterator().all(), [['future', 2]])
  t.same(await db.getMany(['past', 'future', 'batched']), [undefined, 2, undefined])
  t.is(await db.has('past'), false)
  await db.close()
})

test('a merge combines operands without reading', async t => {
  const db = await newDatabase()
  const log = db.keyspace('log', { mergeOperator: 'append' })
  await Promise.all(['a', 'b', 'c'].map(letter => log.merge('k', letter)))
  t.is(await log.get('k'), 'abc')

  const counts = db.keyspace('counts', { mergeOperator: 'add_i64', valueEncoding: 'buffer' })
  const one = Buffer.from([1, 0, 0, 0, 0, 0, 0, 0])
  const results = await Promise.allSettled([
    counts.merge('n', one),
    counts.merge('n', Buffer.from('short')),
    counts.merge('n', one)
  ])
  t.same(results.map(({ status }) => status), ['fulfilled', 'rejected', 'fulfilled'])
  t.is((await counts.get('n')).readBigInt64LE(), 2n)
  t.ok(await codeOf(db.keyspace('plain').merge('k', 'v')), 'a keyspace without an operator')
  await db.close()
})

test('a checkpoint and a backup have what was written before', async t => {
  const db = await newDatabase()
  await fill(db, 0, 3000)
  const [checkpoint, repository, restored] = [newLocation(), newLocation(), newLocation()]
  db.put('late', 'write')
  await db.checkpoint(checkpoint)
  const first = await db.backup(repository)
  await db.put('later', 'write')
  const second = await db.backup(repository)
  t.ok(second > first)
  await db.close()

  await HedgerowLevel.restore(repository, restored, { id: first })
  for (const location of [checkpoint, restored]) {
    const copy = new HedgerowLevel(location)
    t.is((await copy.keys().all()).length, 3001)
    t.is(await copy.get('late'), 'write')
    await copy.close()
  }
  t.ok(await codeOf(HedgerowLevel.restore(repository, restored)), 'a directory that is not empty')
  t.ok(await codeOf(HedgerowLevel.restore(newLocation(), newLocation())), 'no backups')
})

test('options reach the engine', async t => {
  const options = {
    memoryBudget: 16 << 20,
    design: 'filter = bloom:12',
    blockSize: 8192,
    compression: false,
    partitions: 'hash:2',
    backgroundThreads: 2
  }
  const db = await newDatabase(options)
  await fill(db, 0, 100)
  const { memory, keyspaces } = await db.stats()
  t.is(memory.budget, 16 << 20)
  t.is(keyspaces[0].partitions.length, 2)
  await db.close()
  const wrong = { memoryBudget: 1.5, design: 'filter = sieve', partitions: 'hash:x', backgroundThreads: 0 }
  for (const [name, value] of Object.entries(wrong)) {
    const refused = new HedgerowLevel(newLocation(), { [name]: value })
    t.ok(await codeOf(refused.open()), name)
  }
  const reader = new HedgerowLevel(db.location, { readOnly: true })
  t.is(await reader.get(keyOf(7)), 'vvvvvvvvvv')
  t.is(await codeOf(reader.put('a', 'b')), 'LEVEL_NOT_SUPPORTED')
  await reader.close()
  await HedgerowLevel.repair(db.location)
  await db.open()
  t.is((await db.keys().all()).length, 100, 'a repair keeps what is whole')
  await db.close()
  await HedgerowLevel.destroy(db.location)
  t.is(await codeOf(db.open({ createIfMissing: false })), 'LEVEL_DATABASE_NOT_OPEN')
  await HedgerowLevel.destroy(newLocation())
})

test('a repair finds entries without the names of keyspaces', async t => {
  const db = await newDatabase()
  await fill(db, 0, 100)
  await db.compactRange(keyOf(0), keyOf(100))
  await db.close()
  fs.rmSync(path.join(db.location, 'MANIFEST'))
  await HedgerowLevel.repair(db.location)
  await db.open()
  t.is((await db.keys().all()).length, 100)
  await db.close()
})

test('sizes are estimated, ranges are merged, and a signal ends long calls', async t => {
  const db = await newDatabase({ memoryBudget: 16 << 20 })
  await fill(db, 0, 20000, 100)
  await db.compactRange(keyOf(0), keyOf(20000))
  const [all, half] = [keyOf(20000), keyOf(10000)].map(end => db.approximateSize(keyOf(0), end))
  t.ok(await all > await half && await half > 0)
  await db.clear({ gte: keyOf(5000) })
  await db.compactRange(keyOf(0), keyOf(20000))
  t.ok(await db.approximateSize(keyOf(0), keyOf(20000)) < await all)

  const aborted = AbortSignal.abort()
  t.is(await codeOf(db.compactRange(keyOf(0), keyOf(9), { signal: aborted })), 'LEVEL_ABORTED')
  const controller = new AbortController()
  const clear = db.clear({ limit: 1e9, signal: controller.signal })
  controller.abort()
  const code = await codeOf(clear)
  t.ok(code === 'LEVEL_ABORTED' || code === undefined)
  const reading = new AbortController()
  const iterator = db.iterator({ signal: reading.signal })
  const all2 = iterator.all()
  reading.abort()
  const err = await all2.then(() => undefined, err => err)
  t.ok(err === undefined || (err.code === 'LEVEL_ABORTED' && err.name === 'AbortError'))
  await db.close()
})
