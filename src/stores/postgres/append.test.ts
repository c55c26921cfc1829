// Appends on their own way: they do not touch the head's row, and history does not fork whoever writes at the same time.

import { afterAll, afterEach, describe, expect, inject, it } from 'vitest'
import { dropSchema, newSchemaName, query } from '../../../test/support/schema.ts'
import type { Commit, Run, Store } from '../../core/ports.ts'
import { appendOperation, originDigest, packRun } from '../../core/run.ts'
import { asOperation, asTimeline, asWorker, hash, utf8 } from '../../testing/conformance-kit.ts'
import { LastRuns } from './append.ts'
import { openPostgres } from './index.ts'

const shared = inject('postgresUrl')
const schema = newSchemaName()
const opened: Store[] = []

async function openStore(namespace: string): Promise<Store> {
  const store = await openPostgres(shared, { namespace, schema, hash, poolSize: 4 })
  opened.push(store)
  return store
}

afterEach(async () => {
  await Promise.all(opened.splice(0).map((store) => store.close()))
})
afterAll(() => dropSchema(shared, schema))

async function take(store: Store, id: string): Promise<void> {
  const taking = {
    worker: asWorker('w'),
    from: 'anyone' as const,
    create: { digest: originDigest(hash, asTimeline(id)) },
  }
  const guard = { timeline: asTimeline(id), epoch: 0 }
  expect(await store.commit([{ operation: asOperation(`take ${id}`), guard, take: taking }])).toMatchObject([
    { ok: true },
  ])
}

/** Stores have no part in the chain, so each run may stand on the origin. */
function appending(id: string, seq: number, count: number, text = ''): Commit & { readonly run: Run } {
  const drafts = Array.from({ length: count }, (_, i) => {
    return { type: 'noted', version: 1, time: 1, data: utf8(`${text} ${seq + i}`) }
  })
  const run = packRun(hash, { before: originDigest(hash, asTimeline(id)), first: seq + 1, epoch: 1 }, drafts)
  return { operation: appendOperation(run.digest), guard: { timeline: asTimeline(id), epoch: 1, seq }, run }
}

/** Only commits that are more than an append write this. */
async function headRow(id: string): Promise<unknown> {
  return (await query(shared, `SELECT seq::int FROM "${schema}".timeline WHERE id = '${id}'`))[0]!.seq
}

describe('appends', () => {
  it('leave the row of the head alone, one by one and in batches, whatever the length of their runs', async () => {
    const store = await openStore('hot')
    const ids = ['hot/c', 'hot/a', 'hot/b']
    for (const id of ids) await take(store, id)
    let seq = 0
    for (const count of [1, 3, 2, 1, 1]) {
      expect(await store.commit([appending('hot/c', seq, count)])).toMatchObject([{ ok: true, seq: seq + count }])
      const batch = ['hot/b', 'hot/a'].map((id) => appending(id, seq, count))
      expect(await store.commit(batch)).toMatchObject([
        { ok: true, seq: seq + count, wasApplied: false },
        { ok: true, seq: seq + count, wasApplied: false },
      ])
      seq += count
    }
    for (const id of ids) expect(await headRow(id)).toBe(0)
    const heads = await store.head(ids.map(asTimeline))
    for (const head of heads) {
      expect(head).toMatchObject({ seq: 8, epoch: 1 })
      expect(head!.operation).toBe(appendOperation(head!.digest))
    }
    expect(await store.inspect()).toEqual([])
  })

  it('follow a run of another store, of which they do not know where it begins', async () => {
    const [first, second] = [await openStore('two'), await openStore('two')]
    await take(first, 'two/a')
    await first.commit([appending('two/a', 0, 3)])
    expect(await second.commit([appending('two/a', 3, 2)])).toMatchObject([{ ok: true, seq: 5, wasApplied: false }])
    expect(await first.commit([appending('two/a', 5, 1)])).toMatchObject([{ ok: true, seq: 6, wasApplied: false }])
    const runs = await first.read(asTimeline('two/a'), 0, 1e6)
    expect(runs.map(({ first, count }) => [first, count])).toEqual([
      [1, 3],
      [4, 2],
      [6, 1],
    ])
  })

  it('of which one in a batch does not fit leave the others be', async () => {
    const store = await openStore('misfit')
    for (const id of ['m/a', 'm/b', 'm/c']) await take(store, id)
    const outcomes = await store.commit([appending('m/c', 0, 1), appending('m/b', 7, 1), appending('m/a', 0, 2)])
    expect(outcomes).toMatchObject([
      { ok: true, seq: 1, wasApplied: false },
      { ok: false, code: 'CONFLICT', head: { seq: 0 } },
      { ok: true, seq: 2, wasApplied: false },
    ])
  })

  it('G2: of many writers at one sequence one wins, whatever the length of its run', async () => {
    const stores = await Promise.all(Array.from({ length: 6 }, () => openStore('race')))
    await take(stores[0]!, 'race/a')
    await take(stores[0]!, 'race/b')
    for (let round = 0, seq = 0; round < 40; round++) {
      const batches = stores.map((_, i) => [appending('race/a', seq, 1 + (i % 3), `${i}`)])
      // Some come together with another timeline, which has one writer.
      batches[round % 6]!.push(appending('race/b', round, 1))
      const outcomes = await Promise.all(stores.map((store, i) => store.commit(batches[i]!)))
      const winners = outcomes.flatMap(([outcome], i) => (outcome!.ok ? [batches[i]![0]!] : []))
      expect(winners).toHaveLength(1)
      for (const [outcome] of outcomes) if (!outcome!.ok) expect(outcome!.code).toBe('CONFLICT')
      expect(outcomes[round % 6]![1]).toMatchObject({ ok: true })
      seq += winners[0]!.run.count
    }
    expect(await stores[0]!.inspect()).toEqual([])
  })

  it.each([1, 2])('to a server that came back with less are a CONFLICT, after runs of %i', async (count) => {
    const store = await openStore(`less ${count}`)
    const ids = ['less/a', 'less/b'].map((id) => `${id}${count}`)
    for (const id of ids) {
      await take(store, id)
      for (const seq of [0, 1, 2]) await store.commit([appending(id, seq * count, count)])
    }
    // As after the loss of its last transactions: this process goes on and remembers more than the server does.
    await query(shared, `DELETE FROM "${schema}".run WHERE first > ${2 * count}`)
    const late = ids.map((id) => appending(id, 3 * count, count))
    expect(await store.commit([late[0]!])).toMatchObject([{ ok: false, code: 'CONFLICT', head: { seq: 2 * count } }])
    expect(await store.commit(late)).toMatchObject([
      { ok: false, code: 'CONFLICT' },
      { ok: false, code: 'CONFLICT' },
    ])
  })

  it('that waited for a trim are not put back under the floor', async () => {
    const [owner, late] = [await openStore('late'), await openStore('late')]
    await take(owner, 'late/a')
    const runs = [appending('late/a', 0, 1), appending('late/a', 1, 1), appending('late/a', 2, 1)]
    for (const run of runs) await owner.commit([run])
    let again: unknown
    const trim = { seq: 2, digest: runs[1]!.run.digest, restsOn: [] }
    const guard = { timeline: asTimeline('late/a'), epoch: 1 }
    const ride = async () => {
      // The same append once more, from a connection that had been forgotten: it waits for this transaction.
      again = late.commit([{ ...runs[1]!, operation: asOperation('late') }])
      const waiting = `SELECT 1 FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE NOT granted AND query LIKE '%${schema}%append%'`
      while ((await query(shared, waiting)).length === 0) await new Promise((resolve) => setTimeout(resolve, 10))
    }
    expect(await owner.commit([{ operation: asOperation('trim'), guard, trim, ride }])).toMatchObject([{ ok: true }])
    expect(await again).toMatchObject([{ ok: false, code: 'CONFLICT' }])
    expect((await owner.read(asTimeline('late/a'), 0, 1e6)).map(({ first }) => first)).toEqual([3])
  })
})

describe('the memory of last runs', () => {
  const run = (first: number, count: number) => ({ ...appending('x', 0, 1).run, first, count })

  it('says where the run before begins, and guesses where it does not know', () => {
    const runs = new LastRuns(10)
    runs.note(asTimeline('a'), run(5, 3))
    expect(runs.before(asTimeline('a'), 7)).toBe(5)
    expect(runs.before(asTimeline('a'), 8)).toBe(8)
    runs.note(asTimeline('a'), run(8, 1))
    expect(runs.before(asTimeline('a'), 8)).toBe(8)
    expect(runs.before(asTimeline('b'), 7)).toBe(7)
  })

  it('is bounded, and forgets the oldest first', () => {
    const runs = new LastRuns(2)
    for (const id of ['a', 'b']) runs.note(asTimeline(id), run(1, 4))
    expect(runs.before(asTimeline('a'), 4)).toBe(1)
    runs.note(asTimeline('c'), run(1, 4))
    expect(['a', 'b', 'c'].map((id) => runs.before(asTimeline(id), 4))).toEqual([4, 1, 1])
  })
})
