'use strict'

// A process or a thread may end at any moment.

const { spawn } = require('child_process')
const { once } = require('events')
const { Worker } = require('worker_threads')
const { HedgerowLevel } = require('..')
const { test, newLocation, newDatabase, fill, keyOf } = require('./common')

const prelude = `
  const { HedgerowLevel } = require(${JSON.stringify(require.resolve('..'))})
  const { fill, keyOf } = require(${JSON.stringify(require.resolve('./data'))})
  async function main (location) {
    const db = new HedgerowLevel(location, { memoryBudget: 16 << 20 })
    await fill(db, 0, 20000, 100)
`
const busy = `
    const running = [db.compactRange(keyOf(0), keyOf(20000)), db.iterator().all(), db.put('a', 'b')]
    for (let i = 0; i < 500; i++) running.push(db.get(keyOf(i)), db.iterator({ limit: 10 }).all())
`

// Runs a script with an open database. The result is its exit code or signal.
async function run (script, { signal } = {}) {
  const location = newLocation()
  const source = `${prelude}${script}} main(${JSON.stringify(location)})`
  const child = spawn(process.execPath, ['-e', source], { stdio: ['ignore', 'pipe', 'inherit'] })
  child.stdout.once('data', () => child.kill(signal))
  const [code, killedBy] = await once(child, 'exit')
  return { location, ending: code ?? killedBy }
}

test('a process ends with a database that is open', async t => {
  const { location, ending } = await run('')
  t.is(ending, 0)
  const db = new HedgerowLevel(location)
  t.is((await db.keys().all()).length, 20000)
  await db.close()
})

test('a process exits during calls', async t => {
  const { location, ending } = await run(`${busy} setImmediate(() => process.exit(7))`)
  t.is(ending, 7)
  const db = new HedgerowLevel(location)
  t.ok((await db.keys().all()).length >= 20000)
  await db.close()
})

test('an interrupt ends a process during calls', async t => {
  const { ending } = await run(`${busy} console.log('ready'); await Promise.all(running)`, { signal: 'SIGINT' })
  t.is(ending, 'SIGINT')
})

test('a handler of an interrupt runs during calls', async t => {
  const script = `process.on('SIGINT', () => process.exit(3)); ${busy}
    console.log('ready'); for (;;) await db.compactRange(keyOf(0), keyOf(20000))`
  const { ending } = await run(script, { signal: 'SIGINT' })
  t.is(ending, 3)
})

test('threads have databases of their own, and may end at any moment', async t => {
  const ends = Array.from({ length: 8 }, async (_, i) => {
    const source = `${prelude}${busy}
      require('worker_threads').parentPort.postMessage('ready')
      ${i % 2 === 0 ? 'await Promise.allSettled(running); await db.close()' : 'for (;;) await db.iterator().all()'}
    } main(${JSON.stringify(newLocation())})`
    const worker = new Worker(source, { eval: true })
    await once(worker, 'message')
    if (i % 2 === 1) return worker.terminate()
    const [code] = await once(worker, 'exit')
    return code
  })
  t.same(await Promise.all(ends), [0, 1, 0, 1, 0, 1, 0, 1])
})

test('threads share a database', async t => {
  const location = newLocation()
  const db = new HedgerowLevel(location, { multithreading: true })
  await db.put('main', '1')
  const source = `
    const { HedgerowLevel } = require(${JSON.stringify(require.resolve('..'))})
    const { parentPort, workerData } = require('worker_threads')
    async function main (location) {
      const db = new HedgerowLevel(location, { multithreading: true })
      parentPort.postMessage(await db.get('main'))
      await Promise.all(Array.from({ length: 1000 }, (_, i) => db.put(workerData.name + i, 'v')))
      if (workerData.closes) await db.close()
    }
    main(workerData.location)`
  const workers = [0, 1, 2, 3].map(i => {
    return new Worker(source, { eval: true, workerData: { location, name: `w${i}-`, closes: i < 2 } })
  })
  // Listened for at once: a thread may end before the last message of the others.
  const exits = workers.map(worker => once(worker, 'exit'))
  t.same(await Promise.all(workers.map(async worker => (await once(worker, 'message'))[0])), ['1', '1', '1', '1'])
  await Promise.all(exits)
  t.is((await db.keys().all()).length, 4001)
  const alone = new HedgerowLevel(location)
  t.is((await alone.open().catch(err => err.cause))?.code, 'LEVEL_LOCKED')
  await db.close()
  await alone.open()
  t.is((await alone.keys().all()).length, 4001)
  await alone.close()
})

test('a database that is collected is closed', async t => {
  const location = newLocation()
  await (async () => {
    const db = new HedgerowLevel(location)
    await db.put('a', 'b')
  })()
  let db
  for (let attempts = 0; db === undefined && attempts < 100; attempts++) {
    global.gc()
    await new Promise(resolve => setImmediate(resolve))
    const attempt = new HedgerowLevel(location)
    await attempt.open().then(() => { db = attempt }, () => {})
  }
  t.is(await db?.get('a'), 'b')
  await db?.close()
})

test('a handle of another thread names nothing', async t => {
  const db = await newDatabase()
  await fill(db, 0, 10)
  const { kHandle } = require('../lib/store')
  const source = `
    const { parentPort, workerData } = require('worker_threads')
    const binding = require(${JSON.stringify(require.resolve('../lib/binding'))})
    try { binding.snapshot(workerData) } catch (err) { parentPort.postMessage(err.code) }
  `
  const worker = new Worker(source, { eval: true, workerData: db[kHandle] })
  const exit = once(worker, 'exit')
  const [code] = await once(worker, 'message')
  t.is(code, 'LEVEL_DATABASE_NOT_OPEN')
  await exit
  await db.close()
})
