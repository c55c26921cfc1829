// G16: stores of earlier versions are opened for good. Each is copied, read completely, written and verified. A store of a
// newer version is refused before anything is written.

import { hostOf } from '../support/host.ts'
import { createHash } from 'node:crypto'
import { copyFileSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, describe, expect, inject, it } from 'vitest'
import type { ManifestId, OperationId, TimelineId } from '../../src/core/coordinate.ts'
import type { EntryRun } from '../../src/core/store/ports.ts'
import { sha256 } from '../../src/engine/base/platform.ts'
import * as core from '../../src/index.ts'
import * as agents from '../../src/layers/agent/index.ts'
import * as events from '../../src/layers/events/index.ts'
import * as jobs from '../../src/layers/job/index.ts'
import * as pipelines from '../../src/layers/pipeline/index.ts'
import * as saves from '../../src/layers/save/index.ts'
import * as tables from '../../src/layers/table/index.ts'
import * as workflows from '../../src/layers/workflow/index.ts'
import { loadDriver } from '../../src/stores/sqlite/file/driver.ts'
import { dropSchema, newSchemaName, query } from '../support/schema.ts'
import { type Answers, ask, define, goOn } from './world.mjs'

const m = { ...core, ...agents, ...events, ...jobs, ...saves, ...tables, ...workflows }
const folder = fileURLToPath(new URL('.', import.meta.url))
const kept = readdirSync(folder).filter((name) => /^store-\d+$/.test(name))
const shared = inject('postgresUrl')

const ends: (() => Promise<unknown> | unknown)[] = []
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end()
})

const file = (name: string, part: string) => join(folder, name, part)
const json = (path: string) => JSON.parse(readFileSync(path, 'utf8')) as Answers
/** All stores answer alike, but for the digests of their heads. */
const answersOf = (name: string, kind: 'sqlite' | 'postgres'): Answers => ({
  ...json(join(folder, 'answers.json')),
  heads: (json(file(name, 'heads.json'))[kind] as [string, number, string, number][]).map(([id, seq, status, floor]) => {
    // The stores contain 'finished', which is read as the current name of the status.
    return [id, seq, id === 'job/letters' && status === 'finished' ? 'completed' : status, floor]
  }),
})

function scratch(): string {
  const made = mkdtempSync(join(tmpdir(), 'reprise-golden-'))
  ends.push(() => rmSync(made, { recursive: true, force: true }))
  return made
}

function copyOf(name: string): string {
  const path = join(scratch(), 'store.db')
  copyFileSync(file(name, 'store.db'), path)
  return path
}

function emptyUrl(): URL {
  const schema = newSchemaName()
  ends.push(() => dropSchema(shared, schema))
  const url = new URL(shared)
  url.searchParams.set('schema', schema)
  return url
}

async function restored(name: string): Promise<{ url: string; schema: string }> {
  const { href, searchParams } = emptyUrl()
  const schema = searchParams.get('schema')!
  await query(shared, readFileSync(file(name, 'postgres.sql'), 'utf8').replaceAll('golden_store', schema))
  return { url: href, schema }
}

async function engine(url: string): Promise<core.Reprise> {
  const rp = await core.open(url, { housekeeping: false })
  ends.push(() => rp.close())
  return rp
}

const later = {
  notes: 1000,
  account: 1325,
  rows: { n: 1 },
  paged: { n: 1 },
  shards: { i: 1000 },
  weights: 5,
  trip: ['Oslo hotel', 'Oslo flight later'],
  turn: 3,
}

async function check(url: string, answers: Answers): Promise<void> {
  const first = await engine(url)
  const d = define(m)
  expect(await ask(first, d)).toEqual(answers)
  expect(await goOn(first, d)).toMatchObject(later)
  await first.close()
  const rp = await engine(url)
  expect((await rp.verify()).faults).toEqual([])
  expect(((await ask(rp, define(m))).totals as { count: number }).count).toBeGreaterThanOrEqual(50)
  const drilled = await rp.drill()
  expect(drilled.results.filter((one) => !one.ok)).toEqual([])
}

/** The idempotency key of the step `flight` in the run `waiting`. These stores were recorded before keys were digests. */
const keyInFlight = 'workflow/trip/waiting:flight'

describe.each(kept)('G16 %s', (name) => {
  it('opens from SQLite, gives the same answers, and continues', async () => {
    await check(`sqlite:${copyOf(name)}`, answersOf(name, 'sqlite'))
  })

  it('opens from a dump of PostgreSQL, gives the same answers, and continues', async () => {
    await check((await restored(name)).url, answersOf(name, 'postgres'))
  })

  it.each(['sqlite', 'postgres'])('keeps the keys of a run that was in flight (%s)', async (kind) => {
    const rp = await engine(kind === 'sqlite' ? `sqlite:${copyOf(name)}` : (await restored(name)).url)
    const keys: string[] = []
    const trip = workflows.workflow('trip', async (ctx, input: { to: string }) => {
      await ctx.step('hotel', () => `${input.to} hotel`, { compensate: () => undefined })
      await ctx.signal('decision')
      await ctx.step('flight', ({ key }) => void keys.push(key))
    })
    await rp.run(trip, { to: 'Oslo' }, { id: 'waiting' }).signal('decision', 'later')
    await rp.run(trip, { to: 'Oslo' }, { id: 'waiting' }).result()
    await rp.run(trip, { to: 'Rome' }, { id: 'after' }).signal('decision', 'later')
    await rp.run(trip, { to: 'Rome' }, { id: 'after' }).result()
    expect(keys).toEqual([keyInFlight, expect.stringMatching(/^flight-[0-9a-f]{32}$/)])
  })

  it.each(['sqlite', 'postgres'])('keeps the key of an item that a job had given up (%s)', async (kind) => {
    const rp = await engine(kind === 'sqlite' ? `sqlite:${copyOf(name)}` : (await restored(name)).url)
    const keys: string[] = []
    const letters = jobs.job('letters', {
      source: [{ id: 'l7' }],
      key: (item) => item.id,
      each: (_item, ctx) => void keys.push(ctx.idempotencyKey),
    })
    await jobs.redriveLetters(rp, 'job/letters', ['l7'])
    await (await rp.run(letters)).result()
    const former = createHash('sha256').update(JSON.stringify(['job/letters', 'l7', '']))
    expect(keys).toEqual([former.digest('hex').slice(0, 32)])
  })

  it('is read without being written to', async () => {
    const path = copyOf(name)
    const before = hashOf(path)
    const rp = await core.open(`sqlite:${path}`, { readOnly: true })
    ends.push(() => rp.close())
    const state = await rp.at(define(m).notes!, 'a', { seq: 40 })
    expect(state.state).toEqual(answersOf(name, 'sqlite')['notes at 40'])
    await rp.close()
    expect(hashOf(path)).toBe(before)
  })

  it('restores its backup, and imports its export', async () => {
    const path = join(scratch(), 'new.db')
    const rp = await engine(`sqlite:${path}`)
    await rp.restore(file(name, 'all.rpb'))
    // Projections read the feed of the new store anew.
    const { heads: _, totals: __, ...answers } = answersOf(name, 'sqlite')
    expect(await ask(rp, define(m))).toMatchObject(answers)
    await rp.import(file(name, 'rows.rp'), { as: 'table/imported' })
    const rows = await rp.open(tables.table('imported'))
    expect(JSON.parse(JSON.stringify([...rows.entries()]))).toEqual(answers.rows)
  })
})

function hashOf(path: string): string {
  return createHash('sha256').update(readFileSync(path)).digest('hex')
}

/** Every file beside it counts as well: a log that was written is a write. */
function contentOf(path: string): string[] {
  const at = join(path, '..')
  return readdirSync(at)
    .filter((name) => !name.endsWith('-shm') && statSync(join(at, name)).size > 0)
    .map((name) => `${name} ${hashOf(join(at, name))}`)
}

describe('G16 a store of a newer version', () => {
  it('is refused before any write where the schema is newer (SQLite)', async () => {
    const path = copyOf('store-1')
    const driver = await loadDriver()
    const raw = driver.open(path, { isReadOnly: false })
    raw.exec(`REPLACE INTO reprise_meta (key, value) VALUES ('schema_version', 1000), ('schema_copy', 1000); PRAGMA wal_checkpoint(TRUNCATE)`)
    raw.close()
    const before = contentOf(path)
    for (const readOnly of [false, true]) {
      await expect(core.open(`sqlite:${path}`, { housekeeping: false, readOnly })).rejects.toMatchObject({
        code: 'INCOMPATIBLE_VERSION',
      })
    }
    expect(contentOf(path)).toEqual(before)
  })

  it('is refused before any write where the schema is newer (PostgreSQL)', async () => {
    const { url, schema } = await restored('store-1')
    await query(shared, `UPDATE "${schema}".meta SET version = 1000`)
    const state = `SELECT (SELECT count(*) FROM pg_proc WHERE pronamespace = '"${schema}"'::regnamespace) AS functions,
      (SELECT md5(string_agg(x::text, ',' ORDER BY x::text)) FROM "${schema}".timeline x) AS timelines,
      (SELECT md5(string_agg(x::text, ',' ORDER BY x::text)) FROM "${schema}".worker x) AS workers`
    const before = await query(shared, state)
    await expect(core.open(url, { housekeeping: false })).rejects.toMatchObject({ code: 'INCOMPATIBLE_VERSION' })
    expect(await query(shared, state)).toEqual(before)
  })

  it('is refused where a run has a newer format, and history stays as it is', async () => {
    const rp = await engine('memory:')
    const notes = define(m).notes!
    const note = (await rp.open(notes, 'a')) as unknown as { append(entry: object): Promise<void>; close(): Promise<void> }
    await note.append({ type: 'noted', n: 1 })
    await note.close()
    const head = (await rp.head('notes/a'))!
    const bytes = new Uint8Array([200, 1, 2, 3])
    const digest = sha256(new Uint8Array([...head.digest, ...bytes]))
    const run: EntryRun = { first: 2, count: 1, digest, bytes }
    const outcome = await hostOf(rp).kernel.committer.submit({
      operation: 'newer' as OperationId,
      guard: { timeline: head.timeline, epoch: head.epoch, seq: 1, digest: head.digest },
      run,
    })
    expect(outcome.ok).toBe(true)
    await expect(rp.open(notes, 'a')).rejects.toMatchObject({ code: 'INCOMPATIBLE_VERSION' })
    expect(await rp.head('notes/a')).toMatchObject({ seq: 2, digest, owner: null, floor: 0 })
    expect(await hostOf(rp).kernel.store.read('notes/a' as TimelineId, 1, 1000)).toMatchObject([{ bytes }])
  })

  it('leaves a checkpoint of a newer format alone: neither used, nor called damaged, nor dropped', async () => {
    const rp = await engine('memory:')
    const notes = define(m).notes!
    const note = (await rp.open(notes, 'a')) as unknown as { append(entry: object): Promise<void>; close(): Promise<void> }
    for (let n = 1; n <= 25; n++) await note.append({ type: 'noted', n })
    await note.close()
    const [newest] = await rp.checkpoints('notes/a')
    const body = Uint8Array.from(newest!.body)
    body[0] = 200
    const record = { ...newest!, id: 'newer' as ManifestId, body, bodyDigest: sha256(body), baseId: null }
    const head = (await rp.head('notes/a'))!
    await hostOf(rp).kernel.committer.submit({
      operation: 'newer' as OperationId,
      guard: { timeline: head.timeline, epoch: head.epoch },
      publish: [record],
    })
    expect((await rp.at(notes, 'a', { seq: 25 })).state).toEqual({ last: 25, sum: 325 })
    const again = (await rp.open(notes, 'a')) as unknown as { state: unknown; close(): Promise<void> }
    expect(again.state).toEqual({ last: 25, sum: 325 })
    await again.close()
    expect((await rp.checkpoints('notes/a')).find(({ id }) => id === 'newer')).toMatchObject({ invalid: null })
  })
})

describe('G16 pipeline-1', () => {
  // The backup was made by the last version that numbered the records of a call: it had called for four, and one was answered.
  it.each(['sqlite', 'postgres'])('keeps the keys of calls that were in flight (%s)', async (kind) => {
    const rp = await engine(kind === 'sqlite' ? `sqlite:${join(scratch(), 'store.db')}` : emptyUrl().href)
    await rp.restore(file('pipeline-1', 'all.rpb'))
    const orders = Array.from({ length: 5 }, (_, id) => ({ id }))
    const source: pipelines.Source<{ id: number }> = {
      partitions: async () => ['p0'],
      open: async (from) => {
        let next = Number(from?.get('p0') ?? 0)
        const read = () => ({ partition: 'p0', values: [orders[next]!], position: ++next })
        return {
          partitions: () => ['p0'],
          read: async () => (next < orders.length ? read() : null),
          close: async () => undefined,
        }
      },
    }
    const keys: [number, string][] = []
    const shelf = pipelines.collectSink<{ id: number }>()
    const notices = pipelines.pipeline('notices', (p) => {
      p.from('orders', source)
        .call('notify', async (order, { key }) => {
          keys.push([order.id, key])
          return order
        })
        .to('shelf', shelf)
    })
    await (await rp.run(notices)).result()
    expect(keys).toEqual([
      [1, 'pipeline/notices/notify/2'],
      [2, 'pipeline/notices/notify/3'],
      [3, 'pipeline/notices/notify/4'],
      [4, expect.stringMatching(/^notify-[0-9a-f]{32}$/)],
    ])
  })
})
