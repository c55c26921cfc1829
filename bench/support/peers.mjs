// Peers, if they are installed: npm install in bench/versus, and in bench/versus/emmett-sqlite for Emmett on SQLite. Null if not
// installed; the bench then has no baseline.

import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'
import { temporaryFolder } from './stores.mjs'

const requires = ['../versus/package.json', '../versus/emmett-sqlite/package.json'].map((path) =>
  createRequire(new URL(path, import.meta.url)),
)

export async function load(name, from = requires[0]) {
  try {
    return await import(pathToFileURL(from.resolve(name)).href)
  } catch {
    return null
  }
}

/** Emmett's event store on the same database, used as its documentation shows. */
export async function emmett(kind) {
  const driver =
    kind === 'postgres'
      ? await load('@event-driven-io/emmett-postgresql')
      : await load('@event-driven-io/emmett-sqlite', requires[1])
  if (!driver) return null
  return {
    async append({ url, aggregates, warmup, rounds, eventsEach }) {
      const place = temporaryFolder()
      const store = openEmmett(kind, driver, url, place)
      let retries = 0
      const appendTo = async (stream, events) => {
        for (;;) {
          try {
            return await store.appendToStream(stream, events)
          } catch (error) {
            // On SQLite, Emmett's COMMIT is refused now and then ("cannot commit transaction - SQL statements in progress"),
            // also with one connection and one append at a time; Emmett rolls back, and the caller tries again.
            if (error?.code !== 'SQLITE_BUSY' || retries > aggregates * rounds) throw error
            retries += 1
          }
        }
      }
      const one = async (aggregate, count) => {
        for (let n = 0; n < count; n++) {
          const events = Array.from({ length: eventsEach }, (_, i) => ({
            type: 'deposited',
            data: { amount: i, note: 'as agreed' },
          }))
          await appendTo(`account-${place.folder}-${aggregate}`, events)
        }
      }
      const append = async (count) => {
        const all = Array.from({ length: aggregates }, (_, a) => a)
        if (kind === 'postgres') return await Promise.all(all.map((a) => one(a, count)))
        // On SQLite, concurrent appends on one connection share a transaction; on two connections they fail with SQLITE_BUSY.
        for (const a of all) await one(a, count)
      }
      // Emmett prints the errors that it throws; stdout is reserved for the result.
      const { log } = console
      console.log = () => undefined
      try {
        // The first append creates the schema, and both sides are measured warm.
        await append(warmup)
        const cpu = process.cpuUsage()
        const started = performance.now()
        await append(rounds)
        const elapsedMs = performance.now() - started
        return { elapsedMs, cpu: process.cpuUsage(cpu), retries }
      } finally {
        console.log = log
        await store.close?.()
        // Emmett's pool sends a message to the server afterwards, and fails if the server has ended by then.
        await new Promise((resolve) => setTimeout(resolve, 300))
        place.remove()
      }
    },
  }
}

function openEmmett(kind, driver, url, place) {
  if (kind === 'postgres') return driver.getPostgreSQLEventStore(url)
  const fileName = place.path('emmett.db')
  // With one connection for all appends. By default it opens one for each append, which is several times slower.
  const connectionOptions = { singleton: true, connection: driver.sqliteConnection({ fileName }) }
  return driver.getSQLiteEventStore({ fileName, schema: { autoMigration: 'CreateOrUpdate' }, connectionOptions })
}

/** LevelDB, with every batch synced. */
export async function level(path) {
  const found = await load('classic-level')
  if (!found) return null
  const db = new found.ClassicLevel(path, { valueEncoding: 'json' })
  await db.open()
  return {
    async fill(count, atOnce, keyOf, rowOf) {
      const started = performance.now()
      for (let from = 0; from < count; from += atOnce) {
        const batch = Array.from({ length: Math.min(atOnce, count - from) }, (_, i) => ({
          type: 'put',
          key: keyOf(from + i),
          value: rowOf(from + i),
        }))
        await db.batch(batch, { sync: true })
      }
      return performance.now() - started
    },
    async reads(count, keyOf) {
      const started = performance.now()
      for (let n = 0; n < count; n++) await db.get(keyOf(n))
      return (count * 1000) / (performance.now() - started)
    },
    close: () => db.close(),
  }
}

/** LMDB as its documentation shows: a write resolves when it is committed; `flushed` is when it is on disk. */
export async function lmdb(path) {
  const found = await load('lmdb')
  if (!found) return null
  const db = found.open({ path, encoding: 'json' })
  return {
    async fill(count, atOnce, keyOf, rowOf) {
      const started = performance.now()
      for (let from = 0; from < count; from += atOnce) {
        for (let i = 0; i < Math.min(atOnce, count - from); i++) void db.put(keyOf(from + i), rowOf(from + i))
        await db.flushed
      }
      return performance.now() - started
    },
    async reads(count, keyOf) {
      const started = performance.now()
      for (let n = 0; n < count; n++) db.get(keyOf(n))
      return (count * 1000) / (performance.now() - started)
    },
    close: () => db.close(),
  }
}

/** A handler of @tus/server with its file store. */
export async function tusServer(directory, path) {
  const [server, files] = [await load('@tus/server'), await load('@tus/file-store')]
  if (!server || !files) return null
  const made = new server.Server({ path, datastore: new files.FileStore({ directory }), relativeLocation: true })
  return (incoming, response) => made.handle(incoming, response)
}
