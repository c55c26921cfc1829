// Tables, aggregates and saves against plain models (a Map, an array), under crashes and takeovers, on every store.
// More runs: REPRISE_ENTITY_RUNS=20 npx vitest run test/entities/models.test.ts

import fc from 'fast-check'
import { expect, it } from 'vitest'
import { RepriseError } from '../../src/core/errors.ts'
import type { Store } from '../../src/core/ports.ts'
import type { Reprise } from '../../src/engine/reprise.ts'
import { aggregate, projection } from '../../src/layers/events/index.ts'
import { save } from '../../src/layers/save/index.ts'
import { pagedTable, table } from '../../src/layers/table/index.ts'
import { onEveryStore, type World } from '../support/worlds.ts'

const more = Number(process.env.REPRISE_ENTITY_RUNS ?? 1)
const runsOf: Record<string, number> = { memory: 40 * more, sqlite: 8 * more, postgres: 3 * more }

const rows = table<number>('rows', { checkpoint: { every: 7 }, indexes: { parity: (n) => (n % 2 ? 'odd' : 'even') } })
/** So small that pages, layers and the cache turn over all the time. */
const paged = pagedTable<number>('paged', {
  ...{ cacheBytes: 300, changedRows: 4 },
  indexes: { parity: (n) => (n % 2 ? 'odd' : 'even') },
})
const log = aggregate('log', {
  initial: () => [] as readonly number[],
  evolve: { noted: (s, e: { n: number }) => [...s, e.n] },
  decide: {
    note: (_s, c: { ns: readonly number[] }) => c.ns.map((n) => ({ type: 'noted' as const, n })),
  },
  checkpoint: { every: 5 },
})
const notes = projection('notes', {
  from: [log],
  initial: () => new Map<string, readonly number[]>(),
  // In place, so that an event that counted twice, or half, would show.
  on: { noted: (m, e, at) => void m.set(at.id, [...(m.get(at.id) ?? []), e.n]) },
  checkpoint: { every: 3 },
})
const saves = save<readonly number[]>('saves', { keep: 2 })

const key = fc.integer({ min: 0, max: 12 }).map((n) => `k${n}`)
const number = fc.integer({ min: 0, max: 1000 })
const write = fc.record({ key, value: fc.option(number, { nil: undefined }) })
const interruption = fc.constantFrom('crash', 'restart', 'takeover', 'checkpoint', 'reopen')

type Step<T> = { readonly kind: 'write'; readonly what: T } | { readonly kind: 'interrupt'; readonly how: string }

const stepsOf = <T>(what: fc.Arbitrary<T>) =>
  fc.array(
    fc.oneof(
      { weight: 4, arbitrary: what.map((each): Step<T> => ({ kind: 'write', what: each })) },
      { weight: 1, arbitrary: interruption.map((how): Step<T> => ({ kind: 'interrupt', how })) },
    ),
    { minLength: 1, maxLength: 30 },
  )

interface Subject<T> {
  /** Opens it in this engine, taking it over. */
  open(engine: Reprise): Promise<void>
  write(what: T): Promise<unknown>
  checkpoint(): Promise<unknown>
  close(): Promise<unknown>
  read(): unknown | Promise<unknown>
}

/** An engine whose process can die: from then on its store answers nothing, and nothing it still tries has any effect. */
async function mortal(world: World): Promise<{ engine: Reprise; die(): void }> {
  const store = await world.store()
  let isDead = false
  const dead = () => Promise.reject(new RepriseError('CLOSED', 'this process is dead'))
  const wrap = <T extends object>(target: T): T =>
    new Proxy(target, {
      get(held, name) {
        const member: unknown = Reflect.get(held, name, held)
        if (name === 'blobs') return wrap(member as object)
        if (typeof member !== 'function' || name === 'close' || name === 'listen') {
          return typeof member === 'function' ? member.bind(held) : member
        }
        return (...args: unknown[]) => (isDead ? dead() : member.apply(held, args))
      },
    })
  const engine = await world.engine({ ports: { store: wrap(store) as Store } })
  return {
    engine,
    die() {
      isDead = true
      engine.kernel.worker.abandon()
    },
  }
}

/** Runs the steps; after each interruption what is read is the model, or the model with the write that was in flight. */
async function play<T, Model>(
  world: World,
  subject: Subject<T>,
  steps: readonly Step<T>[],
  initial: Model,
  apply: (model: Model, what: T) => Model,
  view: (model: Model) => unknown,
): Promise<void> {
  let { engine, die } = await mortal(world)
  await subject.open(engine)
  let model = initial
  for (let i = 0; i < steps.length; i++) {
    const step = steps[i]!
    if (step.kind === 'write') {
      await subject.write(step.what)
      model = apply(model, step.what)
    } else if (step.how === 'checkpoint') await subject.checkpoint()
    else if (step.how === 'reopen') {
      await subject.close()
      await subject.open(engine)
    } else if (step.how === 'restart') {
      await engine.close()
      ;({ engine, die } = await mortal(world))
      await subject.open(engine)
    } else if (step.how === 'takeover') {
      ;({ engine, die } = await mortal(world))
      await subject.open(engine)
    } else {
      // A crash with the next write in flight: nobody hears its answer.
      const next = steps[i + 1]
      const inFlight = next?.kind === 'write' ? next.what : undefined
      if (inFlight !== undefined) {
        subject.write(inFlight).catch(() => undefined)
        i += 1
      }
      // At once, or after the write was handed to the store.
      if (i % 2) await new Promise((resolve) => setImmediate(resolve))
      die()
      ;({ engine, die } = await mortal(world))
      await subject.open(engine)
      const found = JSON.stringify(await subject.read())
      if (inFlight !== undefined && found === JSON.stringify(view(apply(model, inFlight))))
        model = apply(model, inFlight)
    }
    expect(await subject.read()).toEqual(view(model))
  }
}

onEveryStore('models', (world) => {
  it('G1 G3: a table is a Map, whatever crashes or takes over in between', async () => {
    const first = await world()
    let turn = 0
    await fc.assert(
      fc.asyncProperty(stepsOf(fc.array(write, { minLength: 1, maxLength: 4 })), async (steps) => {
        const id = `t${turn++}`
        let t: Awaited<ReturnType<typeof openRows>>
        const openRows = (rp: Reprise) => rp.open(rows, id, { takeover: true })
        const subject: Subject<readonly { key: string; value: number | undefined }[]> = {
          open: async (rp) => {
            t = await openRows(rp)
          },
          write: (writes) =>
            t.transaction((tx) => {
              for (const { key: at, value } of writes) value === undefined ? tx.delete(at) : tx.set(at, value)
            }),
          checkpoint: () => t.checkpoint(),
          close: () => t.close(),
          read: () => ({ rows: [...t.entries()], odd: [...t.by('parity', 'odd')].map(([at]) => at) }),
        }
        await play(first, subject, steps, new Map<string, number>(), applyWrites, viewOf)
      }),
      { numRuns: runsOf[first.kind]!, endOnFailure: true },
    )
  })

  it('G1 G3: a table larger than its cache is a Map too, read page by page', async () => {
    const first = await world()
    let turn = 0
    await fc.assert(
      fc.asyncProperty(stepsOf(fc.array(write, { minLength: 1, maxLength: 4 })), async (steps) => {
        const id = `p${turn++}`
        let t: Awaited<ReturnType<typeof openPaged>>
        const openPaged = (rp: Reprise) => rp.open(paged, id, { takeover: true })
        const collect = async (found: AsyncIterable<[string, number]>) => {
          const all: [string, number][] = []
          for await (const entry of found) all.push(entry)
          return all
        }
        const subject: Subject<readonly { key: string; value: number | undefined }[]> = {
          open: async (rp) => {
            t = await openPaged(rp)
          },
          write: (writes) =>
            t.transaction((tx) => {
              for (const { key: at, value } of writes) value === undefined ? tx.delete(at) : tx.set(at, value)
            }),
          checkpoint: () => t.checkpoint(),
          close: () => t.close(),
          read: async () => {
            const rows = await collect(t.entries())
            for (const [at, value] of rows) expect(await t.get(at)).toBe(value)
            return { rows, odd: (await collect(t.by('parity', 'odd'))).map(([at]) => at) }
          },
        }
        await play(first, subject, steps, new Map<string, number>(), applyWrites, viewOf)
      }),
      { numRuns: runsOf[first.kind]!, endOnFailure: true },
    )
  })

  it('G1 G4: an aggregate is an array, each command id is done once, whatever crashes or takes over in between', async () => {
    const first = await world()
    let turn = 0
    await fc.assert(
      fc.asyncProperty(stepsOf(fc.array(number, { minLength: 1, maxLength: 3 })), async (steps) => {
        const id = `a${turn++}`
        let a: Awaited<ReturnType<typeof openLog>>
        let commands = 0
        const openLog = (rp: Reprise) => rp.open(log, id)
        const subject: Subject<readonly number[]> = {
          open: async (rp) => {
            a = await openLog(rp)
          },
          write: async (ns) => {
            const options = { id: `c${commands++}` }
            await Promise.all([a.do('note', { ns }, options), a.do('note', { ns }, options)])
          },
          checkpoint: () => a.checkpoint(),
          close: () => a.close(),
          read: () => a.state,
        }
        await play(
          first,
          subject,
          steps,
          [] as readonly number[],
          (model, ns) => [...model, ...ns],
          (model) => model,
        )
      }),
      { numRuns: runsOf[first.kind]!, endOnFailure: true },
    )
  })

  it('G1 G6: a projection is what a plain loop over all events gives, whatever crashes or takes over in between', async () => {
    const first = await world()
    let turn = 0
    await fc.assert(
      fc.asyncProperty(stepsOf(fc.array(number, { minLength: 1, maxLength: 3 })), async (steps) => {
        const id = `n${turn++}`
        let a: { do(name: 'note', input: { ns: readonly number[] }): Promise<unknown>; close(): Promise<void> }
        let p: Awaited<ReturnType<typeof openNotes>>
        const openNotes = (rp: Reprise) => rp.open(notes)
        const subject: Subject<readonly number[]> = {
          open: async (rp) => {
            a = await rp.open(log, id)
            p = await openNotes(rp)
          },
          write: (ns) => a.do('note', { ns }),
          checkpoint: () => p.checkpoint(),
          close: async () => {
            await a.close()
            await p.close()
          },
          read: async () => (await p.catchUp()).get(id) ?? [],
        }
        await play(
          first,
          subject,
          steps,
          [] as readonly number[],
          (model, ns) => [...model, ...ns],
          (model) => model,
        )
      }),
      { numRuns: Math.ceil(runsOf[first.kind]! / 2), endOnFailure: true },
    )
  })

  it('A1.2: the latest save is the last one put, whatever crashes or takes over in between', async () => {
    const first = await world()
    let turn = 0
    await fc.assert(
      fc.asyncProperty(stepsOf(fc.array(number, { maxLength: 3 })), async (steps) => {
        const id = `s${turn++}`
        let s: Awaited<ReturnType<typeof openSaves>>
        let latest: unknown = null
        const openSaves = (rp: Reprise) => rp.open(saves, id, { takeover: true })
        const look = async () => {
          latest = await s.latest().then(
            ({ value }) => value,
            () => null,
          )
        }
        const subject: Subject<readonly number[]> = {
          open: async (rp) => {
            s = await openSaves(rp)
            await look()
          },
          write: async (value) => {
            await s.put(value)
            await look()
          },
          checkpoint: look,
          close: () => s.close(),
          read: () => latest,
        }
        await play(
          first,
          subject,
          steps,
          null as readonly number[] | null,
          (_model, value) => value,
          (model) => model,
        )
      }),
      { numRuns: runsOf[first.kind]!, endOnFailure: true },
    )
  })
})

function applyWrites(model: Map<string, number>, writes: readonly { key: string; value: number | undefined }[]) {
  const next = new Map(model)
  for (const { key: at, value } of writes) value === undefined ? next.delete(at) : next.set(at, value)
  return next
}

function viewOf(model: ReadonlyMap<string, number>) {
  const sorted = [...model].sort(([a], [b]) => (a < b ? -1 : 1))
  return { rows: sorted, odd: sorted.filter(([, n]) => n % 2).map(([at]) => at) }
}
