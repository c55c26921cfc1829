// An object of workerd with SQLite that reports what its database permits: docs/guides/durable-objects.md depends on the answers.

import { DurableObject } from 'cloudflare:workers'

const statements = [
  'BEGIN IMMEDIATE',
  'SAVEPOINT a',
  'PRAGMA journal_mode',
  'PRAGMA synchronous',
  'PRAGMA secure_delete = ON',
  'PRAGMA integrity_check',
  'PRAGMA quick_check',
  "ATTACH ':memory:' AS x",
]

export class Probe extends DurableObject {
  async fetch() {
    const { storage } = this.ctx
    const { sql } = storage
    const permitted = {}
    const attempt = (name, work) => {
      try {
        work()
        permitted[name] = true
      } catch {
        permitted[name] = false
      }
    }
    const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms))
    const count = () => sql.exec('SELECT count(*) AS n FROM t').one().n
    /** A transaction that is rolled back after `meanwhile` ran beside it. */
    const rolledBack = async (meanwhile) => {
      let seen
      const work = async () => {
        sql.exec('INSERT INTO t (v) VALUES (1)')
        setTimeout(() => {
          seen = meanwhile()
        }, 1)
        while (seen === undefined) await pause(1)
        throw new Error('roll back')
      }
      await storage.transaction(work).catch(() => undefined)
      return { seen, left: count() }
    }
    sql.exec('CREATE TABLE t (k INTEGER PRIMARY KEY, v)')
    for (const each of statements) attempt(each, () => sql.exec(each).toArray())
    attempt('a row of 3 MB', () => sql.exec('INSERT INTO t (v) VALUES (?)', new Uint8Array(3_000_000)))
    attempt('101 values', () => sql.exec(`SELECT ${Array(101).fill('?')}`, ...Array(101).fill(1)))
    const read = await rolledBack(count)
    const write = await rolledBack(() => sql.exec('INSERT INTO t (v) VALUES (2) RETURNING v').one().v)
    return Response.json({ permitted, read, write })
  }
}

export default { fetch: (request, env) => env.PROBE.get(env.PROBE.idFromName('one')).fetch(request) }
