// Shards on PostgreSQL: the conformance suite over two schemas of a real server, of which some tests run by default
// (REPRISE_TEST_SHARDS=all for every one), and how many connections a process has.

import { afterAll, describe, expect, inject, it } from 'vitest'
import { dropSchema, newSchemaName, query } from '../../../test/support/schema.ts'
import { shardsUrl } from '../../engine/storage/open-store.ts'
import { open } from '../../index.ts'
import { hash } from '../../testing/conformance/kit.ts'
import { conformance } from '../../testing/conformance/suite.ts'
import { openPostgres } from '../postgres/index.ts'
import { openSharded } from './index.ts'

const url = inject('postgresUrl')
const schemas = [newSchemaName(), newSchemaName()]
let worlds = 0

afterAll(async () => {
  for (const schema of schemas) await dropSchema(url, schema)
})

const isThorough = process.env.REPRISE_TEST_SHARDS === 'all'
let titles = 0
const some = (title: string, body: () => Promise<void>) => {
  titles += 1
  if (isThorough || titles % 8 === 1) it(title, body)
}
const group = (name: string, body: () => void) =>
  describe(name, () => {
    titles = 0
    body()
  })

conformance(
  { describe: group, it: some },
  {
    name: 'sharded postgres',
    capabilities: { sql: true, presence: true, isSharded: true },
    seeds: [],
    async create() {
      worlds += 1
      const world = worlds
      const opened: { close(): Promise<void> }[] = []
      return {
        async open(namespace = 'default', options = {}) {
          const sources = schemas.map((schema) => {
            const names = { namespace: `${world}/${namespace}`, schema }
            return { name: schema, open: () => openPostgres(url, { ...names, hash, poolSize: 3, ...options }) }
          })
          const store = await openSharded(sources, options)
          opened.push(store)
          return store
        },
        async destroy() {
          for (const store of opened) await store.close()
        },
      }
    },
  },
)

describe('connections of a process', () => {
  it('are at most one pool per shard, and one to listen on each', async () => {
    const own = [newSchemaName(), newSchemaName(), newSchemaName()]
    // A name of our own distinguishes them from those of other tests.
    const address = (schema: string) => {
      const parsed = new URL(url)
      parsed.searchParams.set('application_name', own[0]!)
      parsed.searchParams.set('schema', schema)
      return parsed.href
    }
    const counting = `SELECT count(*)::int AS count FROM pg_stat_activity WHERE application_name = '${own[0]}'`
    const rp = await open(shardsUrl(own.map(address)), { housekeeping: false })
    try {
      let most = 0
      const isOver = { is: false }
      const watching = (async () => {
        while (!isOver.is) {
          const [row] = await query(url, counting)
          most = Math.max(most, Number(row!.count))
        }
      })()
      await Promise.all(Array.from({ length: 300 }, (_, i) => rp.send(`inbox/${i}`, 'note', { i }, { key: `k${i}` })))
      await Promise.all(Array.from({ length: 300 }, (_, i) => rp.head(`inbox/${i}`)))
      isOver.is = true
      await watching
      expect(most).toBeGreaterThan(own.length)
      expect(most).toBeLessThanOrEqual(own.length * (8 + 1))
    } finally {
      await rp.close()
      for (const schema of own) await dropSchema(url, schema)
    }
  })
})

describe('a set of shards on PostgreSQL', () => {
  it('refuses an empty schema in the place of a shard, also for read-only access', async () => {
    const names = [newSchemaName(), newSchemaName(), newSchemaName()]
    const at = (name: string) => `${url}?schema=${name}`
    const [first, second, empty] = names as [string, string, string]
    try {
      await (await open({ shards: [at(first), at(second)], housekeeping: false })).close()
      const missing = expect.stringMatching(
        /shard [01] of [-0-9a-f]+ is missing, and .* is empty or another database: use/,
      )
      for (const shards of [
        [at(first), at(empty)],
        [at(empty), at(second)],
      ]) {
        const differs = { code: 'SHARDS_DIFFER', message: missing }
        await expect(open({ shards, readOnly: true })).rejects.toMatchObject(differs)
        await expect(open({ shards })).rejects.toMatchObject(differs)
      }
    } finally {
      for (const name of names) await dropSchema(url, name)
    }
  })
})
