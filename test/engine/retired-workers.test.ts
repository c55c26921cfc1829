// Rows of retired workers: the newest are kept and the next retirement deletes the rest, so that the check for dead workers
// reads few rows.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, inject, it } from 'vitest'
import { retiredWorkers } from '../../src/core/limits.ts'
import type { Store } from '../../src/core/store/ports.ts'
import { createEngine } from '../../src/store.ts'
import { openMemory } from '../../src/stores/memory/index.ts'
import { openPostgres } from '../../src/stores/postgres/index.ts'
import { openSqlite } from '../../src/stores/sqlite/index.ts'
import { asWorker, hash } from '../../src/testing/conformance/kit.ts'
import { hostOf } from '../support/host.ts'
import { dropSchema, newSchemaName, query } from '../support/schema.ts'

const { kept, keptMs } = retiredWorkers
const row = { name: 'w', host: 'elsewhere', process: '1', leaseMs: 1000, info: {}, progress: 0 }

async function retireMany(store: Store, name: string, count: number): Promise<void> {
  const ids = Array.from({ length: count }, (_, n) => asWorker(`${name}${String(n).padStart(4, '0')}`))
  for (const id of ids) await store.beat({ ...row, id })
  await store.retire(ids)
}

/** `pass` advances the time of the existing rows. */
type World = (body: (store: Store, pass: (ms: number) => Promise<void>) => Promise<void>) => Promise<void>

const worlds: Record<string, World> = {
  async memory(body) {
    let offset = 0
    const store = openMemory({ namespace: 'n', hash, clock: () => Date.now() + offset })
    await body(store, async (ms) => {
      offset += ms
    })
    await store.close()
  },
  async sqlite(body) {
    const folder = mkdtempSync(join(tmpdir(), 'reprise-retired-'))
    let offset = 0
    const clock = () => Date.now() + offset
    const store = await openSqlite(join(folder, 'a.db'), { namespace: 'n', hash, clock })
    await body(store, async (ms) => {
      offset += ms
    })
    await store.close()
    rmSync(folder, { recursive: true })
  },
  async postgres(body) {
    const url = inject('postgresUrl')
    const schema = newSchemaName()
    const store = await openPostgres(url, { namespace: 'n', schema, hash })
    await body(store, async (ms) => {
      const text = `UPDATE "${schema}".worker SET retired_at = retired_at - ${ms}, beat_at = beat_at - ${ms}`
      await query(url, text)
    })
    await store.close()
    await dropSchema(url, schema)
  },
}

for (const [name, world] of Object.entries(worlds)) {
  describe(`retired workers on ${name}`, () => {
    it('are all kept for some minutes, and then only the newest', () =>
      world(async (store, pass) => {
        await retireMany(store, 'old', kept)
        await pass(1000)
        await retireMany(store, 'new', 20)
        expect(await store.workers()).toHaveLength(kept + 20)
        await pass(keptMs + 1000)
        await store.beat({ ...row, id: asWorker('alive'), leaseMs: 1e9 })
        await retireMany(store, 'last', 1)
        const ids = (await store.workers()).map(({ id }) => id)
        // All of the old ones were retired at once: they are removed together, once fewer than all are among the newest.
        expect(ids.filter((id) => id.startsWith('new'))).toHaveLength(20)
        expect(ids).toContain('alive')
        expect(ids).toContain('last0000')
        expect(ids.length).toBeLessThanOrEqual(kept + 22)
        await pass(1000)
        await retireMany(store, 'more', kept)
        await pass(keptMs + 1000)
        await retireMany(store, 'end', 1)
        const left = (await store.workers()).map(({ id }) => id)
        expect(left.filter((id) => id.startsWith('old') || id.startsWith('new'))).toEqual([])
        expect(left).toContain('alive')
        expect(await store.beat({ ...row, id: asWorker('end0000') })).toMatchObject({ ok: false })
      }))

    it('include a worker without a heartbeat for a day', () =>
      world(async (store, pass) => {
        await store.beat({ ...row, id: asWorker('silent') })
        await pass(23 * 3_600_000)
        const engine = createEngine({ store, hash } as never)
        const { worker, deadWorkers } = hostOf(engine).kernel
        await worker.register()
        expect(await deadWorkers.retireGone()).toEqual([])
        await pass(2 * 3_600_000)
        await worker.beatNow()
        expect(await deadWorkers.retireGone()).toEqual(['silent'])
        const rows = await store.workers()
        expect(rows.find(({ id }) => id === 'silent')).toMatchObject({ isRetired: true })
        expect(rows.find(({ id }) => id === worker.id)).toMatchObject({ isRetired: false })
        await engine.close()
      }))
  })
}
