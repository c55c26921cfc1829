// Commits on the hot path: they leave the head's row unchanged where they can, have the effect of the general commit,
// and never fork history, whatever other processes write at the same time.

import fc from 'fast-check'
import { afterAll, afterEach, describe, expect, inject, it } from 'vitest'
import { until } from '../../../test/support/fixture.ts'
import { dropSchema, newSchemaName, query } from '../../../test/support/schema.ts'
import type { Digest } from '../../core/coordinate.ts'
import { appendOperation, originDigest, packEntries } from '../../core/history/entry-run.ts'
import type { Commit, EntryRun, Guard, Head, Store } from '../../core/store/ports.ts'
import { asMessage, asOperation, asTimeline, asWorker, hash, utf8, wholeFeed } from '../../testing/conformance/kit.ts'
import { openPostgres } from './index.ts'
import { LastRuns } from './write.ts'

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

/** Stores do not check the chain, so each run may follow the origin. `before` is the run that ends at `seq`. */
function appending(
  id: string,
  seq: number,
  count: number,
  text = '',
  before: Digest | null = null,
): Commit & { readonly guard: Guard; readonly run: EntryRun } {
  const drafts = Array.from({ length: count }, (_, i) => {
    return { type: 'noted', version: 1, time: 1, data: utf8(`${text} ${seq + i}`) }
  })
  const origin = originDigest(hash, asTimeline(id))
  const run = packEntries(hash, { before: origin, first: seq + 1, epoch: 1 }, drafts)
  const guard = { timeline: asTimeline(id), epoch: 1, seq, digest: before ?? origin }
  return { operation: appendOperation(run.digest), guard, run }
}

/** Only commits that are more than an append write this. */
async function headRow(id: string): Promise<unknown> {
  return (await query(shared, `SELECT seq::int FROM "${schema}".timeline WHERE id = '${id}'`))[0]!.seq
}

interface Draft {
  readonly name: string
  readonly kind: 'make' | 'set' | 'append'
  readonly count: number
  readonly worker: string
  /** Difference from the timeline's current sequence. */
  readonly seqOff: number
  readonly digestOff: boolean
  readonly epochOff: number
  /** The timeline gets mail first. */
  readonly hasMail: boolean
  readonly fields: Partial<Commit>
}

const names = ['a', 'b', '\u{1f600}', '\uffee']
const rarely = fc.constantFrom(0, 0, 0, 0, 0, 0, 1)
const drafts = fc.record<Draft>({
  name: fc.constantFrom(...names),
  kind: fc.constantFrom('make', 'set', 'append'),
  count: fc.integer({ min: 1, max: 3 }),
  worker: fc.constantFrom('w', 'w', 'w', 'gone'),
  seqOff: rarely,
  digestOff: fc.nat({ max: 19 }).map((n) => n === 0),
  epochOff: rarely,
  hasMail: fc.nat({ max: 3 }).map((n) => n === 0),
  fields: fc.record(
    {
      release: fc.constant(true),
      wakeup: fc.constantFrom(null, 5, 1.5e12),
      queue: fc.constantFrom(null, 'q', 'a\0b'),
      priority: fc.constantFrom(0, -1, 2.5),
      status: fc.constantFrom('', 'busy', 'x\\"y'),
      unlessMail: fc.constant(true),
    },
    { requiredKeys: [] },
  ),
})
const attributes = { workflow: 'three', 'n"\0': Number.NaN, gone: null }

describe('commits with a run', () => {
  it('come to the same on the short way as on the general one, whatever fits and whatever does not', async () => {
    const [short, general] = [await openStore('short'), await openStore('general')]
    for (const store of [short, general]) {
      const gone = { id: asWorker('gone'), name: '', host: '', process: '', leaseMs: 1000, info: {}, progress: 0 }
      await store.beat(gone)
      await store.retire([gone.id])
    }
    let round = 0
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.array(drafts, { minLength: 1, maxLength: 4 }), { minLength: 3, maxLength: 9 }),
        async (batches) => {
          round += 1
          const prefix = `w${round}/`
          const timelines = names.map((name) => asTimeline(prefix + name))
          const at = new Map<string, Pick<Head, 'epoch' | 'seq' | 'digest'>>()
          let number = 0
          const commitOf = ({ name, kind, count, worker, seqOff, epochOff, digestOff, fields }: Draft): Commit => {
            const id = prefix + name
            const digest = originDigest(hash, asTimeline(id))
            const head = kind === 'make' ? { epoch: 0, seq: 0, digest } : (at.get(id) ?? { epoch: 1, seq: 0, digest })
            const { run, operation } = appending(id, head.seq + seqOff, count, String(++number))
            const guard = {
              timeline: asTimeline(id),
              epoch: head.epoch + epochOff,
              seq: head.seq + seqOff,
              digest: digestOff ? hash(utf8('other')) : head.digest,
            }
            if (kind === 'append') return { operation, guard, run }
            const own = { operation: asOperation(`o${number}`), guard, run, ...fields }
            const create = { digest }
            return kind === 'set'
              ? own
              : { ...own, attributes, take: { worker: asWorker(worker), from: 'free', create } }
          }
          for (const batch of batches) {
            const commits = batch.map(commitOf)
            const send = batch.flatMap(({ name, hasMail }, n) => {
              const message = { id: asMessage(`m${number}/${n}`), kind: 'k', data: utf8('') }
              return hasMail ? [{ ...message, to: asTimeline(prefix + name) }] : []
            })
            const mail = { operation: asOperation(`mail ${number}`), guard: null, send }
            if (send.length > 0) for (const store of [short, general]) await store.commit([mail])
            for (const times of [1, 2]) {
              const outcomes = await short.commit(commits)
              const expected = await general.commit(commits.map((commit) => ({ ...commit, marks: [] })))
              expect(outcomes.map(timeless), `asked ${times} times`).toEqual(expected.map(timeless))
            }
            for (const head of await general.head(timelines)) if (head) at.set(head.timeline, head)
          }
          const heads = await short.head(timelines)
          expect(heads.map(timeless)).toEqual((await general.head(timelines)).map(timeless))
          for (const timeline of timelines) {
            expect(await short.read(timeline, 0, 1e6)).toEqual(await general.read(timeline, 0, 1e6))
          }
        },
      ),
      { numRuns: 40 },
    )
    expect(await short.upkeep.inspect()).toEqual([])
    const everything = async (store: Store) =>
      (await wholeFeed(store)).map(({ timeline, run }) => [timeline, run.first, run.count])
    expect(await everything(short)).toEqual(await everything(general))
  })

  it('find their heads by the index of ids, also where the plan is made for a small table', async () => {
    await openStore('small')
    const rows = `INSERT INTO "${schema}".timeline (ns, id, pos_base, created_at, updated_at)
      SELECT n.id, 'small/' || i, 0, 0, 0 FROM "${schema}".namespace n, generate_series(1, 200) i WHERE n.name = 'small'`
    await query(shared, rows)
    const steady = `${shared}${shared.includes('?') ? '&' : '?'}options=-c%20enable_seqscan=off%20-c%20enable_bitmapscan=off`
    for (const which of [`= 'small/7'`, `= ANY (ARRAY(SELECT 'small/' || i FROM generate_series(1, 9) i))`]) {
      const look = `SELECT tid FROM "${schema}".timeline WHERE ns = 1 AND id ${which} AND NOT is_stub FOR NO KEY UPDATE`
      const plan = await query(steady, `EXPLAIN ${look}`)
      expect(plan.map((line) => line['QUERY PLAN']).join('\n')).toContain('timeline_ns_id_key')
    }
  })

  it('that make a timeline and end it do not take the general way', async () => {
    const store = await openStore('ends')
    const create = { digest: originDigest(hash, asTimeline('e/a')) }
    const { run } = appending('e/a', 0, 1)
    const take = { worker: asWorker('w'), from: 'free' as const, create }
    const made = {
      operation: asOperation('m'),
      guard: { timeline: asTimeline('e/a'), epoch: 0, seq: 0, digest: create.digest },
      run,
      take,
      queue: 'q',
      status: 'running',
    }
    const last = appending('e/a', 1, 1, '', run.digest)
    const end = { ...last, operation: asOperation('e'), release: true, queue: null, wakeup: null, status: 'completed' }
    expect(await store.commit([made])).toMatchObject([{ ok: true, epoch: 1, seq: 1 }])
    expect(await store.commit([end])).toMatchObject([{ ok: true, epoch: 1, seq: 2 }])
    // The general commit would have written it.
    expect(await headRow('e/a')).toBe(0)
    const [head] = await store.head([asTimeline('e/a')])
    expect(head).toMatchObject({ seq: 2, owner: null, queue: null, status: 'completed', operation: 'e' })
  })
})

function timeless<T>(value: T): T {
  return JSON.parse(
    JSON.stringify(value, (key, each) => {
      if (key === 'createdAt' || key === 'updatedAt') return undefined
      return typeof each === 'number' && !Number.isFinite(each) ? String(each) : each
    }),
  )
}

describe('appends', () => {
  it('leave the row of the head alone, one by one and in batches, whatever the length of their runs', async () => {
    const store = await openStore('hot')
    const ids = ['hot/c', 'hot/a', 'hot/b']
    for (const id of ids) await take(store, id)
    let seq = 0
    const last = new Map<string, Digest>()
    const next = (id: string, count: number) => {
      const commit = appending(id, seq, count, '', last.get(id))
      last.set(id, commit.run.digest)
      return commit
    }
    for (const count of [1, 3, 2, 1, 1]) {
      expect(await store.commit([next('hot/c', count)])).toMatchObject([{ ok: true, seq: seq + count }])
      const batch = ['hot/b', 'hot/a'].map((id) => next(id, count))
      expect(await store.commit(batch)).toMatchObject([
        { ok: true, seq: seq + count, isDuplicate: false },
        { ok: true, seq: seq + count, isDuplicate: false },
      ])
      seq += count
    }
    for (const id of ids) expect(await headRow(id)).toBe(0)
    const heads = await store.head(ids.map(asTimeline))
    for (const head of heads) {
      expect(head).toMatchObject({ seq: 8, epoch: 1 })
      expect(head!.operation).toBe(appendOperation(head!.digest))
    }
    expect(await store.upkeep.inspect()).toEqual([])
  })

  it('follow a run of another store, of which they do not know where it begins', async () => {
    const [first, second] = [await openStore('two'), await openStore('two')]
    await take(first, 'two/a')
    const one = appending('two/a', 0, 3)
    const two = appending('two/a', 3, 2, '', one.run.digest)
    const three = appending('two/a', 5, 1, '', two.run.digest)
    await first.commit([one])
    expect(await second.commit([two])).toMatchObject([{ ok: true, seq: 5, isDuplicate: false }])
    expect(await first.commit([three])).toMatchObject([{ ok: true, seq: 6, isDuplicate: false }])
    const runs = await first.read(asTimeline('two/a'), 0, 1e6)
    expect(runs.map(({ first, count }) => [first, count])).toEqual([
      [1, 3],
      [4, 2],
      [6, 1],
    ])
  })

  it('with one unsuitable commit in a batch leave the others unaffected', async () => {
    const store = await openStore('misfit')
    for (const id of ['m/a', 'm/b', 'm/c']) await take(store, id)
    const outcomes = await store.commit([appending('m/c', 0, 1), appending('m/b', 7, 1), appending('m/a', 0, 2)])
    expect(outcomes).toMatchObject([
      { ok: true, seq: 1, isDuplicate: false },
      { ok: false, code: 'CONFLICT', head: { seq: 0 } },
      { ok: true, seq: 2, isDuplicate: false },
    ])
  })

  it('G2: of many writers at one sequence one wins, whatever the length of its run', async () => {
    const stores = await Promise.all(Array.from({ length: 6 }, () => openStore('race')))
    await take(stores[0]!, 'race/a')
    await take(stores[0]!, 'race/b')
    let last: Digest | null = null
    let lastBeside: Digest | null = null
    for (let round = 0, seq = 0; round < 40; round++) {
      const batches = stores.map((_, i) => [appending('race/a', seq, 1 + (i % 3), `${i}`, last)])
      // Some are in one batch with another timeline, which has one writer.
      const beside = appending('race/b', round, 1, '', lastBeside)
      batches[round % 6]!.push(beside)
      const outcomes = await Promise.all(stores.map((store, i) => store.commit(batches[i]!)))
      const winners = outcomes.flatMap(([outcome], i) => (outcome!.ok ? [batches[i]![0]!] : []))
      expect(winners).toHaveLength(1)
      for (const [outcome] of outcomes) if (!outcome!.ok) expect(outcome!.code).toBe('CONFLICT')
      expect(outcomes[round % 6]![1]).toMatchObject({ ok: true })
      seq += winners[0]!.run.count
      last = winners[0]!.run.digest
      lastBeside = beside.run.digest
    }
    expect(await stores[0]!.upkeep.inspect()).toEqual([])
  })

  it.each([1, 2])('to a server that came back with less are a CONFLICT, after runs of %i', async (count) => {
    const store = await openStore(`less ${count}`)
    const ids = ['less/a', 'less/b'].map((id) => `${id}${count}`)
    const last = new Map<string, Digest>()
    for (const id of ids) {
      await take(store, id)
      for (const seq of [0, 1, 2]) {
        const commit = appending(id, seq * count, count, '', last.get(id))
        expect(await store.commit([commit])).toMatchObject([{ ok: true }])
        last.set(id, commit.run.digest)
      }
    }
    // As after the loss of its last transactions: this process continues and remembers more than the server has.
    await query(shared, `DELETE FROM "${schema}".run WHERE first > ${2 * count}`)
    const late = ids.map((id) => appending(id, 3 * count, count, '', last.get(id)))
    expect(await store.commit([late[0]!])).toMatchObject([{ ok: false, code: 'CONFLICT', head: { seq: 2 * count } }])
    expect(await store.commit(late)).toMatchObject([
      { ok: false, code: 'CONFLICT' },
      { ok: false, code: 'CONFLICT' },
    ])
  })

  it('that waited for a trim are not put back under the floor', async () => {
    const [owner, late] = [await openStore('late'), await openStore('late')]
    await take(owner, 'late/a')
    const one = appending('late/a', 0, 1)
    const two = appending('late/a', 1, 1, '', one.run.digest)
    const runs = [one, two, appending('late/a', 2, 1, '', two.run.digest)]
    for (const run of runs) await owner.commit([run])
    let again: unknown
    const trim = { seq: 2, digest: runs[1]!.run.digest, restsOn: [] }
    const guard = { timeline: asTimeline('late/a'), epoch: 1 }
    const userSql = async () => {
      // The same append once more, from a connection that had been forgotten: it waits for this transaction.
      again = late.commit([{ ...runs[1]!, operation: asOperation('late') }])
      const waiting = `SELECT 1 FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE NOT granted AND query LIKE '%${schema}%append%'`
      await until(async () => (await query(shared, waiting)).length !== 0)
    }
    expect(await owner.commit([{ operation: asOperation('trim'), guard, trim, userSql }])).toMatchObject([{ ok: true }])
    expect(await again).toMatchObject([{ ok: false, code: 'CONFLICT' }])
    expect((await owner.read(asTimeline('late/a'), 0, 1e6)).map(({ first }) => first)).toEqual([3])
  })
})

describe('the memory of last runs', () => {
  const run = (first: number, count: number) => ({ ...appending('x', 0, 1).run, first, count })

  it('returns the start of the previous run, and guesses where it does not know', () => {
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
