// A store that is unreachable for longer than the patience of every caller, and then returns: the timeline of a pipeline is
// free again in the very process that lost it, and every record takes effect once. Nothing blocks while its process lives.

import { expect, it } from 'vitest'
import type { Commit, Store } from '../../src/core/store/ports.ts'
import { type Reprise, RepriseError } from '../../src/index.ts'
import { generatedSource, pipeline, rowSink } from '../../src/layers/pipeline/index.ts'
import { until } from '../support/fixture.ts'
import { newSchemaName } from '../support/schema.ts'
import { onEveryStore, type World } from '../support/worlds.ts'

const [partitions, records] = [3, 60]

interface Outage {
  /** The commits that get no answer. */
  hides: (commit: Commit) => boolean
  hidden: number
}

function failing(store: Store, outage: Outage): Store {
  const commit: Store['commit'] = async (commits) => {
    const answer = await store.commit(commits)
    if (!commits.some(outage.hides)) return answer
    outage.hidden += 1
    throw new RepriseError('STORE_UNREACHABLE', 'nobody heard the answer')
  }
  return new Proxy(store, {
    get(target, name) {
      if (name === 'commit') return commit
      const found: unknown = Reflect.get(target, name)
      return typeof found === 'function' ? found.bind(target) : found
    },
  })
}

async function opened(w: World, outage: Outage) {
  const store = failing(await w.store(), outage)
  return await w.engine({ ports: { store }, patience: '50ms' })
}

function draw(table: string) {
  return pipeline(
    'ticks',
    (p) => {
      p.from(
        'ticks',
        generatedSource((n, part) => ({ n, part }), { count: records, partitions }),
        { keyed: true },
      ).to(
        'seen',
        rowSink<{ n: number; part: number }>({
          table,
          row: ({ n, part }) => ({ n, part }),
          setup: `CREATE TABLE IF NOT EXISTS ${table} (n INTEGER, part INTEGER)`,
        }),
      )
    },
    { checkpoint: { every: 10 } },
  )
}

async function found(rp: Reprise, table: string): Promise<number> {
  const seen = await rp.sql(`SELECT DISTINCT n, part FROM ${table}`)
  const all = await rp.sql(`SELECT n FROM ${table}`)
  expect(all.length).toBe(seen.length)
  await rp.sql(`DROP TABLE ${table}`).catch(() => undefined)
  return all.length
}

onEveryStore(
  'a store that was away for too long',
  (world) => {
    it('tasks of a shared pipeline continue in the same process, also if their release failed at first', async () => {
      const w = await world()
      const table = `ticks_${newSchemaName()}`
      const outage: Outage = {
        hides: ({ publish, release }) => (publish ?? []).length > 0 || release === true,
        hidden: 0,
      }
      const rp = await opened(w, outage)
      rp.work([draw(table)])
      await until(() => outage.hidden >= 12)
      outage.hides = () => false
      const isDone = async () => {
        const heads = await rp.list({ prefix: 'pipeline/ticks' })
        return heads.filter(({ status }) => status === 'completed').length === partitions
      }
      await until(isDone)
      expect(await found(rp, table)).toBe(partitions * records)
    }, 60_000)

    it('a run ends with an unknown outcome, and the next one in the same process continues', async () => {
      const w = await world()
      const table = `ticks_${newSchemaName()}`
      const outage: Outage = { hides: ({ publish }) => (publish ?? []).length > 0, hidden: 0 }
      const rp = await opened(w, outage)
      await expect(rp.run(draw(table)).result()).rejects.toMatchObject({ code: 'OUTCOME_UNKNOWN' })
      outage.hides = () => false
      expect(await rp.run(draw(table)).result()).toMatchObject({
        status: 'completed',
        records: partitions * records,
      })
      expect(await found(rp, table)).toBe(partitions * records)
    }, 60_000)
  },
  ['sqlite', 'postgres'],
)
