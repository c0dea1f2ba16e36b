'use strict'

// The event loop is never blocked, and what memory answers or takes ends at once: in the same turn
// of the loop.

const { test, newDatabase, newLocation, codeOf, fill, keyOf, random } = require('./common')

const turn = () => new Promise(resolve => setImmediate(resolve))

// Awaits a promise. The result is the number of turns of the event loop meanwhile.
async function turnsOf (promise) {
  let isSettled = false
  promise.then(() => { isSettled = true }, () => { isSettled = true })
  let turns = 0
  for (await null; !isSettled; turns++) await turn()
  await promise
  return turns
}

// Lets everything run that needs no turn.
async function microtasks () {
  for (let i = 0; i < 50; i++) await null
}

async function isSettledAtOnce (promise) {
  let isSettled = false
  promise.then(() => { isSettled = true }, () => { isSettled = true })
  await microtasks()
  return isSettled
}

test('what memory answers is answered in the same turn', async t => {
  const db = await newDatabase()
  await fill(db, 0, 1000)
  const snapshot = db.snapshot()
  const keys = Array.from({ length: 100 }, (_, i) => keyOf(i))
  const reads = {
    get: () => db.get(keyOf(1)),
    'get of an absent key': () => db.get('x'),
    'get of a snapshot': () => db.get(keyOf(1), { snapshot }),
    'get as a buffer': () => db.get(keyOf(1), { valueEncoding: 'buffer' }),
    getMany: () => db.getMany(keys),
    has: () => db.has(keyOf(1)),
    hasMany: () => db.hasMany(keys),
    'get of a sublevel': () => db.sublevel('s').get(keyOf(1))
  }
  for (const [name, read] of Object.entries(reads)) t.ok(await isSettledAtOnce(read()), name)
  await db.close()
})

test('a write that memory takes ends in the same turn', async t => {
  const db = await newDatabase()
  const sums = db.keyspace('sums', { mergeOperator: 'add_i64', valueEncoding: 'buffer' })
  await sums.open()
  const puts = (count, bytes) => Array.from({ length: count }, (_, i) => {
    return { type: 'put', key: keyOf(i), value: 'v'.repeat(bytes) }
  })
  const one = Buffer.from([1, 0, 0, 0, 0, 0, 0, 0])
  const writes = {
    put: () => db.put('a', '1'),
    del: () => db.del('a'),
    'put that expires': () => db.put('b', '1', { expiresAt: Date.now() + 1e9 }),
    merge: () => sums.merge('a', one),
    batch: () => db.batch(puts(100, 100)),
    'batch of two keyspaces': () => db.batch([...puts(1, 1), { type: 'del', sublevel: sums, key: 'b' }]),
    'chained batch': () => db.batch().put('c', '1').del('b').write(),
    'puts of one turn': () => Promise.all(puts(100, 100).map(({ key, value }) => db.put(key, value))),
    'put of a sublevel': () => db.sublevel('s').put('a', '1'),
    clear: () => db.clear({ gte: keyOf(50) })
  }
  for (const [name, write] of Object.entries(writes)) {
    await turn()
    t.ok(await isSettledAtOnce(write()), name)
  }
  const longer = {
    'synced put': () => db.put('a', '1', { sync: true }),
    'large put': () => db.put('a', 'v'.repeat(70000)),
    'large batch': () => db.batch(puts(1000, 100))
  }
  for (const [name, write] of Object.entries(longer)) {
    await turn()
    const written = write()
    const next = db.put('behind', name)
    t.notOk(await isSettledAtOnce(next), `a put behind a ${name}`)
    await written
    await next
    t.is(await db.get('behind'), name)
  }
  t.is(await codeOf(db.batch([{ type: 'put', sublevel: sums, key: 'k'.repeat(70000), value: one }])), 'LEVEL_INVALID_KEY')
  t.ok(await isSettledAtOnce(sums.merge('a', one)), 'after a failure')
  t.is((await sums.get('a'))[0], 2)
  await db.close()
  t.is(await codeOf(db.put('a', '1')), 'LEVEL_DATABASE_NOT_OPEN')
})

test('the event loop turns while a program writes one key after another', async t => {
  const db = await newDatabase()
  let isDone = false
  let turns = 0
  const count = async () => {
    for (; !isDone; turns++) await turn()
  }
  const counted = count()
  // Each counts as 500 bytes and more, of 64 KiB in a turn.
  for (let i = 0; i < 5000; i++) await db.put(keyOf(i), 'v')
  isDone = true
  await counted
  t.ok(turns >= 30, `${turns} turns`)
  t.is((await db.keys().all()).length, 5000)
  await db.close()
})

test('writes that memory has no room for at once are made all the same', async t => {
  const db = await newDatabase({ memoryBudget: 8 << 20 })
  const value = i => String(i).padStart(6).repeat(500)
  for (let i = 0; i < 10000; i++) await db.put(keyOf(i), value(i))
  let right = 0
  for await (const [key, found] of db.iterator()) if (key === keyOf(right) && found === value(right)) right++
  t.is(right, 10000)
  await db.close()
})

test('what is in a file is read on another thread', async t => {
  const db = await newDatabase()
  await fill(db, 0, 20000, 100)
  const reads = {
    get: () => db.get(keyOf(1)),
    'get of a snapshot': snapshot => db.get(keyOf(5000), { snapshot }),
    getMany: () => db.getMany([keyOf(10), keyOf(19000)]),
    has: () => db.has(keyOf(11000)),
    hasMany: () => db.hasMany([keyOf(12000), keyOf(13000)]),
    'getMany of many': () => db.getMany(Array.from({ length: 1000 }, (_, i) => keyOf(i)))
  }
  for (const [name, read] of Object.entries(reads)) {
    await db.compactRange(keyOf(0), keyOf(20000))
    await db.close()
    await db.open()
    const snapshot = db.snapshot()
    const result = read(snapshot)
    t.notOk(await isSettledAtOnce(result), name)
    t.ok(await result)
    await snapshot.close()
  }
  const values = await Promise.all(Array.from({ length: 1000 }, (_, i) => db.get(keyOf(i * 20))))
  t.ok(values.every(value => value.length === 100), 'gets that are read together')
  await db.close()
})

test('the event loop turns while a long call runs', async t => {
  const db = await newDatabase({ memoryBudget: 16 << 20 })
  await fill(db, 0, 30000, 100)
  const calls = {
    compactRange: () => db.compactRange(keyOf(0), keyOf(30000)),
    'iterator.all': () => db.iterator().all(),
    'getMany of many': () => db.getMany(Array.from({ length: 5000 }, (_, i) => keyOf(i))),
    'clear with a limit': () => db.clear({ limit: 10000 }),
    'batch of many': () => fill(db, 0, 30000, 100),
    stats: () => db.stats(),
    close: () => db.close()
  }
  for (const [name, call] of Object.entries(calls)) {
    const turns = await turnsOf(call())
    t.ok(turns > 0, name)
  }
})

test('writes that arrive during a commit are committed together, in their order', async t => {
  const db = await newDatabase()
  const writes = []
  for (let i = 0; i < 1000; i++) writes.push(db.put('last', String(i)), db.put(keyOf(i), 'v'))
  writes.push(db.clear({ lt: keyOf(10) }), db.put(keyOf(3), 'again'), db.put('synced', '1', { sync: true }))
  await Promise.all(writes)
  t.is(await db.get('last'), '999')
  t.same(await db.keys({ lt: keyOf(12) }).all(), [keyOf(3), keyOf(10), keyOf(11)])
  await db.close()
})

test('writes of any kind take effect in the order of their calls', async t => {
  const db = await newDatabase()
  for (let seed = 1; seed <= 30; seed++) {
    const log = db.keyspace(`log${seed}`, { mergeOperator: 'append' })
    // Calls of a keyspace wait until it is open. Those of its database do not wait for them.
    const isOpen = seed % 2 === 0
    if (isOpen) await log.open()
    const expected = new Map()
    const next = random(seed)
    const writes = []
    for (let i = 0; i < 200; i++) {
      // Some begin while others are committed, here or by a thread of the pool.
      if (next(4) === 0) await (next(2) === 0 ? turn() : microtasks())
      const key = 'abc'[next(3)]
      const kinds = {
        put: () => { expected.set(key, `${i};`); return log.put(key, `${i};`) },
        merge: () => { expected.set(key, `${expected.get(key) ?? ''}${i};`); return log.merge(key, `${i};`) },
        del: () => { expected.delete(key); return log.del(key) },
        // These do not end in this turn, and those behind them might overtake them.
        'synced put': () => { expected.set(key, `${i};`); return log.put(key, `${i};`, { sync: true }) },
        'large put': () => {
          const value = `${i};`.repeat(20000)
          expected.set(key, value)
          return log.put(key, value)
        },
        batch: () => {
          expected.set(key, `${i};`)
          return log.batch([{ type: 'del', key }, { type: 'put', key, value: `${i};` }])
        },
        clear: () => { expected.clear(); return log.clear() },
        'first of a range': () => {
          expected.delete([...expected.keys()].sort()[0])
          return log.clear({ limit: 1 })
        },
        ...isOpen && {
          'batch of the database': () => {
            expected.set(key, `${i};`)
            return db.batch([{ type: 'put', sublevel: log, key, value: `${i};` }])
          },
          'chained batch': () => {
            expected.set(key, `${i};`)
            return db.batch().put(key, `${i};`, { sublevel: log }).write()
          }
        }
      }
      const names = Object.keys(kinds)
      writes.push(kinds[i % 3 === 0 ? 'merge' : names[next(names.length)]]())
    }
    await Promise.all(writes)
    t.same(await log.iterator().all(), [...expected].sort(), `seed ${seed}`)
  }
  await db.close()
})

test('a batch for a keyspace that is being opened keeps its place', async t => {
  const db = await newDatabase()
  const users = db.keyspace('users')
  const batch = db.batch([{ type: 'put', sublevel: users, key: 'a', value: '1' }, { type: 'put', key: 'a', value: '1' }])
  await Promise.all([batch, db.put('a', '2'), db.clear({ limit: 1 }), db.put('b', '3')])
  t.same(await db.iterator().all(), [['b', '3']])
  t.is(await users.get('a'), '1')
  await db.close()
})

test('a copy does not wait for later writes', async t => {
  const db = await newDatabase()
  let isCopied = false
  const write = async key => {
    do await db.put(key, 'v')
    while (!isCopied)
  }
  // One of them always waits behind the other.
  const writers = [write('a'), write('b')]
  await db.checkpoint(newLocation())
  isCopied = true
  await Promise.all(writers)
  t.same(await db.keys().all(), ['a', 'b'])
  await db.close()
})
