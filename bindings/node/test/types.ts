// Compiled with strict checks, not run: the declarations fit how users of Level write.

import { AbstractLevel } from 'abstract-level'
import { HedgerowLevel, Keyspace, type OpenOptions } from '..'

interface User { born: number }

async function check (): Promise<void> {
  const options: OpenOptions = { memoryBudget: 64 << 20, design: 'filter = bloom:10', cacheSize: 1 << 20 }
  const db = new HedgerowLevel<string, User>('x', { valueEncoding: 'json', ...options })
  const level: AbstractLevel<string | Buffer | Uint8Array, string, User> = db
  await level.open()

  const user: User | undefined = await db.get('ada')
  const cached: User | undefined = db.getSync('ada')
  const many: Array<User | undefined> = await db.getMany(['ada'])
  const found: boolean[] = await db.hasMany(['ada'])
  const raw: Buffer | undefined = await db.get<string, Buffer>('ada', { valueEncoding: 'buffer' })
  await db.put('ada', { born: 1815 }, { sync: true, expiresAt: new Date() })
  // @ts-expect-error: another type of value
  await db.put('ada', 'text')
  // @ts-expect-error: no such option
  await db.put('ada', { born: 1 }, { expires: 1 })

  for await (const [key, value] of db.iterator({ gte: 'a', highWaterMarkBytes: 1 << 16 })) {
    const born: number = value.born + key.length
    console.log(born)
  }
  const keys: string[] = await db.keys({ reverse: true }).all()
  const values: User[] = await db.values().all()

  const counts: Keyspace<string, Buffer> = db.keyspace('counts', {
    mergeOperator: 'add_i64',
    valueEncoding: 'buffer'
  })
  await counts.merge('n', Buffer.alloc(8))
  await db.batch([
    { type: 'put', key: 'bob', value: { born: 1900 }, expiresAt: 1 },
    { type: 'del', key: 'ada' }
  ], { sync: true })
  await db.batch().put('bob', { born: 1900 }).del('ada').write()

  const snapshot = db.snapshot()
  await db.clear({ lt: 'b', snapshot, signal: new AbortController().signal })
  await snapshot.close()
  const size: number = await db.approximateSize('a', 'b')
  await db.compactRange('a', 'b', { signal: new AbortController().signal })
  const id: number = await db.backup('backups')
  await db.close()
  await HedgerowLevel.restore('backups', 'y', { id })
  await HedgerowLevel.repair('y')
  await HedgerowLevel.destroy('y')
  console.log(user, cached, many, found, raw, keys, values, size)
}

void check
