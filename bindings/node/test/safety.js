'use strict'

// An object that is closed, released or wrong is an error, never a crash: through the classes, and
// through native functions with arguments that the classes never pass.

const { HedgerowLevel } = require('..')
const binding = require('../lib/binding')
const { kHandle } = require('../lib/store')
const { test, newLocation, newDatabase, codeOf, fill, keyOf } = require('./common')

const { NaN, Infinity } = globalThis
const junk = [0, 1, -1, 0.5, 2 ** 31, 2 ** 52, 2 ** 53, 1e300, NaN, Infinity, -Infinity]
const empty = Buffer.alloc(0)

test('a native function refuses every number that is no handle', async t => {
  for (const it of junk) {
    const calls = {
      close: () => binding.close(it),
      openKeyspace: () => binding.openKeyspace(it, 'x', {}),
      snapshot: () => binding.snapshot(it),
      get: () => binding.get(it, 0, Buffer.alloc(8), 1),
      getSync: () => binding.getSync(it, 0, Buffer.alloc(8), 1),
      getMany: () => binding.getMany(it, 0, empty, false),
      getManyLater: () => binding.getManyLater(it, 0, empty, true),
      write: () => binding.write(it, empty, [], false, true),
      clear: () => binding.clear(it, 0, Buffer.from([0, 0]), false, -1, 0),
      iterator: () => binding.iterator(it, 0, Buffer.from([0, 0]), false, true, true),
      nextv: () => binding.nextv(it, 1, 1, false, empty, -1),
      approximateSize: () => binding.approximateSize(it, Buffer.from([0, 0])),
      compactRange: () => binding.compactRange(it, Buffer.from([0, 0]), 0),
      checkpoint: () => binding.checkpoint(it, newLocation()),
      backup: () => binding.backup(it, newLocation(), newLocation(), 0),
      stats: () => binding.stats(it),
      keyspaces: () => binding.keyspaces(it)
    }
    for (const [name, call] of Object.entries(calls)) {
      t.match(await codeOf(call), /^LEVEL_(DATABASE|ITERATOR)_NOT_OPEN$/, `${name} of ${it}`)
    }
    binding.release(it)
  }
})

test('a native function refuses a handle of another kind', async t => {
  const db = await newDatabase()
  const handle = db[kHandle]
  const snapshot = binding.snapshot(handle)
  const iterator = binding.iterator(handle, 0, Buffer.from([0, 0]), false, true, true)
  const abort = binding.newAbort()
  for (const other of [snapshot, iterator, abort]) {
    t.is(await codeOf(() => binding.get(other, 0, Buffer.alloc(8), 1)), 'LEVEL_INVALID_ARGUMENT')
  }
  for (const other of [handle, iterator, abort]) {
    t.is(await codeOf(() => binding.get(handle, other, Buffer.alloc(8), 1)), 'LEVEL_INVALID_ARGUMENT')
  }
  for (const other of [handle, snapshot, abort]) {
    t.is(await codeOf(() => binding.nextv(other, 1, 1, false, empty, -1)), 'LEVEL_INVALID_ARGUMENT')
  }
  for (const other of [handle, snapshot]) {
    t.is(await codeOf(() => binding.abort(other)), 'LEVEL_INVALID_ARGUMENT')
  }
  await db.close()
  for (const freed of [handle, snapshot, iterator]) {
    t.match(await codeOf(() => binding.nextv(freed, 1, 1, false, empty, -1)), /NOT_OPEN$/, 'freed')
  }
})

test('a native function refuses what is no buffer, no string and no number', async t => {
  const db = await newDatabase()
  const handle = db[kHandle]
  for (const it of [undefined, null, 1, 'x', {}, [], () => {}, Symbol('x'), 1n]) {
    t.ok(await codeOf(() => binding.get(handle, 0, it, 0)), 'get')
    t.ok(await codeOf(() => binding.write(handle, it, [], false, true)), 'write')
    t.ok(await codeOf(() => binding.getMany(handle, 0, it, false)), 'getMany')
    t.ok(await codeOf(() => binding.iterator(handle, 0, it, false, true, true)), 'iterator')
    if (typeof it !== 'string') t.ok(await codeOf(() => binding.checkpoint(handle, it)), 'checkpoint')
    if (typeof it !== 'number') t.ok(await codeOf(() => binding.get(it, 0, empty, 0)), 'handle')
  }
  await db.close()
})

test('a native function refuses cut and wrong packed bytes', async t => {
  const db = await newDatabase()
  const handle = db[kHandle]
  const put = Buffer.from([0, 1, 0, 0, 0, 97, 1, 0, 0, 0, 98])
  for (let length = 1; length < put.length; length++) {
    const cut = put.subarray(0, length)
    for (const atOnce of [false, true]) {
      t.is(await codeOf(() => binding.write(handle, cut, [], false, atOnce)), 'LEVEL_INVALID_ARGUMENT', `${length}`)
    }
  }
  for (const wrong of [[9], [5, 0, 0, 0, 0], [4, 3], [0, 255, 255, 255, 255], [2, 0, 0, 0, 0, 0, 0, 0, 0]]) {
    for (const atOnce of [false, true]) {
      t.is(await codeOf(() => binding.write(handle, Buffer.from(wrong), [], false, atOnce)), 'LEVEL_INVALID_ARGUMENT')
    }
  }
  t.is(await codeOf(() => binding.write(handle, put, [handle, 7], false, true)), 'LEVEL_DATABASE_NOT_OPEN')
  t.is(await codeOf(() => binding.getMany(handle, 0, Buffer.from([9, 9]), false)), 'LEVEL_INVALID_ARGUMENT')
  t.is(await codeOf(() => binding.getManyLater(handle, 0, Buffer.from([9, 9]), false)), 'LEVEL_INVALID_ARGUMENT')
  t.is(await codeOf(() => binding.get(handle, 0, Buffer.alloc(4), 5)), 'LEVEL_INVALID_ARGUMENT')
  await binding.write(handle, put, [], true, true)
  t.is(await db.get('a'), 'b', 'the whole one is written')
  await db.close()
})

test('every call on a closed database fails', async t => {
  const db = await newDatabase()
  await db.put('a', '1')
  const iterator = db.iterator()
  const snapshot = db.snapshot()
  const keyspace = db.keyspace('other')
  await keyspace.put('b', '2')
  await db.close()
  const calls = {
    get: () => db.get('a'),
    getSync: () => db.getSync('a'),
    getMany: () => db.getMany(['a']),
    has: () => db.has('a'),
    put: () => db.put('a', '2'),
    del: () => db.del('a'),
    batch: () => db.batch([{ type: 'del', key: 'a' }]),
    clear: () => db.clear(),
    snapshot: () => db.snapshot(),
    iterator: () => db.iterator(),
    approximateSize: () => db.approximateSize('a', 'b'),
    compactRange: () => db.compactRange('a', 'b'),
    checkpoint: () => db.checkpoint(newLocation()),
    stats: () => db.stats(),
    keyspaces: () => db.keyspaces(),
    'iterator.next': () => iterator.next(),
    'iterator.all': () => iterator.all(),
    'keyspace.get': () => keyspace.get('b'),
    'keyspace.merge': () => keyspace.merge('b', 'x')
  }
  for (const [name, call] of Object.entries(calls)) {
    t.match(await codeOf(call), /^LEVEL_(DATABASE|ITERATOR)_NOT_OPEN$/, name)
  }
  await db.open()
  t.is(await codeOf(() => db.get('a', { snapshot })), 'LEVEL_SNAPSHOT_NOT_OPEN')
  t.is(await db.get('a'), '1')
  await db.close()
})

test('a released snapshot is an error, and its iterators end', async t => {
  const db = await newDatabase()
  await fill(db, 0, 10)
  const snapshot = db.snapshot()
  const iterator = db.iterator({ snapshot })
  t.ok(await iterator.next())
  await snapshot.close()
  t.is(await codeOf(() => db.get(keyOf(1), { snapshot })), 'LEVEL_SNAPSHOT_NOT_OPEN')
  t.is(await codeOf(() => db.getMany([keyOf(1)], { snapshot })), 'LEVEL_SNAPSHOT_NOT_OPEN')
  t.is(await codeOf(() => iterator.next()), 'LEVEL_SNAPSHOT_NOT_OPEN')
  await db.close()
})

test('a close during reads and writes ends each with a result or an error', async t => {
  for (let round = 0; round < 20; round++) {
    const db = await newDatabase({ memoryBudget: 16 << 20 })
    await fill(db, 0, 2000, 100)
    const running = []
    for (let i = 0; i < 200; i++) {
      const key = keyOf(i * 7)
      running.push(db.get(key), db.getMany(Array.from({ length: 200 }, (_, j) => keyOf(i + j))))
      running.push(db.put(key, 'x'), db.has(key), db.iterator().all(), db.clear({ limit: 1 }))
    }
    const iterator = db.iterator()
    const next = iterator.next()
    const closed = db.close()
    const results = await Promise.allSettled([...running, next])
    await closed
    const codes = new Set(results.map(({ reason }) => reason?.code))
    codes.delete(undefined)
    codes.delete('LEVEL_DATABASE_NOT_OPEN')
    codes.delete('LEVEL_ITERATOR_NOT_OPEN')
    t.same([...codes], [], `round ${round}`)
  }
})

test('a database that is opened twice is locked', async t => {
  const db = await newDatabase()
  const second = new HedgerowLevel(db.location)
  const err = await second.open().then(() => undefined, err => err)
  t.is(err?.code, 'LEVEL_DATABASE_NOT_OPEN')
  t.is(err?.cause?.code, 'LEVEL_LOCKED')
  await db.close()
})

test('a key or a value that is too long fails alone', async t => {
  const db = await newDatabase()
  const long = 'k'.repeat(65537)
  const results = await Promise.allSettled([
    db.put('a', '1'),
    db.put(long, '1'),
    db.put('b', 'v'.repeat((64 << 20) + 1)),
    db.batch([{ type: 'put', key: 'c', value: '1' }, { type: 'del', key: long }]),
    db.put('d', '1', { expiresAt: 'tomorrow' }),
    db.put('e', '1')
  ])
  const codes = results.map(({ reason }) => reason?.code)
  t.same(codes, [undefined, 'LEVEL_INVALID_KEY', 'LEVEL_INVALID_VALUE', 'LEVEL_INVALID_KEY', 'LEVEL_INVALID_ARGUMENT', undefined])
  t.same(await db.keys().all(), ['a', 'e'])
  await db.put('k'.repeat(65536), 'v'.repeat(64 << 20))
  t.is((await db.get('k'.repeat(65536))).length, 64 << 20, 'the longest are stored')
  await db.close()
})
