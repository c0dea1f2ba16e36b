'use strict'

// The event loop is never blocked, and what memory answers is answered at once: in the same turn of
// the loop.

const { test, newDatabase, newLocation, fill, keyOf, random } = require('./common')

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
    const writes = Array.from({ length: 200 }, (_, i) => {
      const key = 'abc'[next(3)]
      const kinds = {
        put: () => { expected.set(key, `${i};`); return log.put(key, `${i};`) },
        merge: () => { expected.set(key, `${expected.get(key) ?? ''}${i};`); return log.merge(key, `${i};`) },
        del: () => { expected.delete(key); return log.del(key) },
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
      return kinds[i % 3 === 0 ? 'merge' : names[next(names.length)]]()
    })
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
