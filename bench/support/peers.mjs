// Peers, if they are installed: cd bench/versus && npm install. Null where they are not; the bench then has no baseline.

import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'
import { temporaryFolder } from './stores.mjs'

const require = createRequire(new URL('../versus/package.json', import.meta.url))

async function load(name) {
  try {
    return await import(pathToFileURL(require.resolve(name)).href)
  } catch {
    return null
  }
}

/** Emmett's event store on the same database, used as its documentation shows. */
export async function emmett(kind) {
  const core = await load('@event-driven-io/emmett')
  const driver = await load(`@event-driven-io/emmett-${kind === 'postgres' ? 'postgresql' : 'sqlite'}`)
  if (!core || !driver) return null
  return {
    async append({ url, aggregates, rounds, eventsEach }) {
      const place = temporaryFolder()
      const store = await openEmmett(kind, driver, url, place)
      try {
        const append = (count) =>
          Promise.all(
            Array.from({ length: aggregates }, async (_, a) => {
              for (let n = 0; n < count; n++) {
                const events = Array.from({ length: eventsEach }, (_, i) => ({
                  type: 'deposited',
                  data: { amount: i, note: 'as agreed' },
                }))
                await store.appendToStream(`account-${place.folder}-${a}`, events)
              }
            }),
          )
        // The first append creates the schema: not part of the measurement.
        await append(1)
        const started = performance.now()
        await append(rounds)
        return (aggregates * rounds * eventsEach * 1000) / (performance.now() - started)
      } finally {
        await store.close?.()
        place.remove()
      }
    },
  }
}

async function openEmmett(kind, driver, url, place) {
  if (kind === 'postgres') return driver.getPostgreSQLEventStore(url)
  const { sqlite3EventStoreDriver } = (await load('@event-driven-io/emmett-sqlite/sqlite3')) ?? {}
  return driver.getSQLiteEventStore({
    ...(sqlite3EventStoreDriver && { driver: sqlite3EventStoreDriver }),
    fileName: place.path('emmett.db'),
    schema: { autoMigration: 'CreateOrUpdate' },
  })
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
