// Folds that change a plain state in place. A fold that throws, a commit that is refused and a decision that loses its turn
// leave no trace in the state that a reader sees, in a checkpoint, or in later decisions.

import { expect, it } from 'vitest'
import { RepriseError, timeline } from '../../src/index.ts'
import { aggregate } from '../../src/layers/events/index.ts'
import { faultyStore } from '../../src/testing/index.ts'
import { onEveryStore } from '../support/worlds.ts'

interface Added {
  readonly type: 'added'
  readonly n: number
}

interface Sums {
  sum: number
  seen: number[]
}

const sums = timeline('sums', {
  initial: (): Sums => ({ sum: 0, seen: [] }),
  apply(state, { n }: Added) {
    state.sum += n
    state.seen.push(n)
    if (n < 0) throw new Error('negative')
  },
})

const pure = timeline('pure', {
  initial: (): Sums => ({ sum: 0, seen: [] }),
  apply({ sum, seen }, { n }: Added): Sums {
    if (n < 0) throw new Error('negative')
    return { sum: sum + n, seen: [...seen, n] }
  },
})

const added = (n: number): Added => ({ type: 'added', n })

const account = aggregate('account', {
  initial: (): Sums => ({ sum: 0, seen: [] }),
  decide: {
    add: (_state: Sums, { n }: { n: number }) => added(n),
    double: ({ sum }: Sums) => added(sum),
  },
  evolve: {
    added(state, { n }: Added) {
      state.sum += n
      state.seen.push(n)
      if (n < 0) throw new Error('negative')
    },
  },
})

onEveryStore('states changed in place', (world) => {
  it('a fold that changes its state and throws leaves no trace', async () => {
    const rp = await (await world()).engine()
    const handle = await rp.open(sums, 'x')
    await handle.append(added(1))
    await expect(handle.append(added(-5))).rejects.toMatchObject({ code: 'FOLD_FAILED' })
    expect(handle.state).toEqual({ sum: 1, seen: [1] })
    await handle.append(added(2))
    expect(handle.state).toEqual({ sum: 3, seen: [1, 2] })
  })

  it('concurrent appends beside one that throws are applied once', async () => {
    const w = await world()
    const rp = await w.engine()
    const handle = await rp.open(sums, 'x')
    const outcomes = await Promise.allSettled([1, 2, -5, 3, -6, 4].map((n) => handle.append(added(n))))
    expect(outcomes.map(({ status }) => status === 'fulfilled')).toEqual([true, true, false, true, false, true])
    expect(handle.state).toEqual({ sum: 10, seen: [1, 2, 3, 4] })
    await handle.checkpoint()
    await rp.close()
    expect((await (await w.engine()).open(sums, 'x')).state).toEqual({ sum: 10, seen: [1, 2, 3, 4] })
  })

  it.each(['pure', 'in place'])(
    'a fold that throws often is rebuilt only if it changes its state: %s',
    async (kind) => {
      const w = await world()
      let reads = 0
      const store = faultyStore(await w.store(), (method) => {
        if (method === 'read') reads += 1
        return 'ok'
      })
      const rp = await w.engine({ ports: { store } })
      const handle = await rp.open(kind === 'pure' ? pure : sums, 'x')
      await handle.append(added(1))
      reads = 0
      for (let i = 0; i < 10; i++) await expect(handle.append(added(-1))).rejects.toMatchObject({ code: 'FOLD_FAILED' })
      expect(handle.state).toEqual({ sum: 1, seen: [1] })
      expect(reads).toBe(kind === 'pure' ? 1 : 10)
    },
  )

  it('a refused commit leaves no trace', async () => {
    const w = await world()
    let isFull = false
    const store = failing(await w.store(), () => isFull)
    const rp = await w.engine({ ports: { store } })
    const handle = await rp.open(sums, 'x')
    await handle.append(added(1))
    isFull = true
    await expect(handle.append(added(7))).rejects.toMatchObject({ code: 'STORE_FULL' })
    expect(handle.state).toEqual({ sum: 1, seen: [1] })
    isFull = false
    await handle.append(added(2))
    expect(handle.state).toEqual({ sum: 3, seen: [1, 2] })
  })

  it('commands of an aggregate at once are applied once, and decided on a state of history', async () => {
    const rp = await (await world()).engine()
    const handle = await rp.open(account, 'x')
    const outcomes = await Promise.allSettled([1, 2, -5, 3].map((n) => handle.do('add', { n })))
    expect(outcomes.map(({ status }) => status === 'fulfilled')).toEqual([true, true, false, true])
    expect(handle.state).toEqual({ sum: 6, seen: [1, 2, 3] })
    // Decided on the sum before it: 6, then 12.
    await Promise.all([handle.do('double'), handle.do('double')])
    expect(handle.state.sum).toBe(24)
  })

  it('processes that write an aggregate in turns count each event once', async () => {
    const w = await world()
    const [a, b] = [await w.engine(), await w.engine()]
    const [left, right] = [await a.open(account, 'x'), await b.open(account, 'x')]
    for (let i = 0; i < 10; i++) await Promise.all([left.do('add', { n: 1 }), right.do('add', { n: 1 })])
    await Promise.all([left.refresh(), right.refresh()])
    expect([left.state.sum, right.state.sum]).toEqual([20, 20])
  })

  it('a checkpoint during a commit holds the state of its coordinate', async () => {
    const w = await world()
    const gate: Gate = { isShut: false, open: null }
    const store = gated(await w.store(), gate)
    const rp = await w.engine({ ports: { store } })
    const handle = await rp.open(sums, 'x')
    await handle.append(added(1))
    gate.isShut = true
    const appending = handle.append(added(2))
    while (!gate.open) await new Promise((resolve) => setImmediate(resolve))
    const making = handle.checkpoint()
    for (let i = 0; i < 20; i++) await new Promise((resolve) => setImmediate(resolve))
    gate.open()
    await Promise.all([appending, making])
    await rp.close()
    const reopened = await (await w.engine()).open(sums, 'x')
    expect(reopened.state).toEqual({ sum: 3, seen: [1, 2] })
  })

  it('a replica whose fold throws keeps the state of its coordinate', async () => {
    const w = await world()
    const rp = await w.engine()
    const writer = await rp.open(timeline('sums', { initial: () => 0, apply: (state, { n }: Added) => state + n }), 'x')
    await writer.append(added(1))
    const replica = await (await w.engine()).follow(sums, 'x', { isPassive: true } as never)
    await writer.append([added(2), added(-5)])
    for (let i = 0; i < 3; i++) await expect(replica.refresh()).rejects.toMatchObject({ code: 'FOLD_FAILED' })
    expect(replica.state).toEqual({ sum: 1, seen: [1] })
  })
})

type AnyStore = Parameters<typeof faultyStore>[0]

/** Refuses every batch with entries while `isFull`. */
function failing(store: AnyStore, isFull: () => boolean): AnyStore {
  return withCommit(store, (commits) => {
    if (isFull() && commits.some(({ run }) => run)) throw new RepriseError('STORE_FULL', 'the disk is full')
    return store.commit(commits)
  })
}

interface Gate {
  isShut: boolean
  /** Set once a batch waits. */
  open: (() => void) | null
}

/** Holds back batches with entries while the gate is shut. */
function gated(store: AnyStore, gate: Gate): AnyStore {
  return withCommit(store, async (commits) => {
    if (gate.isShut && commits.some(({ run }) => run)) {
      await new Promise<void>((resolve) => {
        gate.open = () => {
          gate.isShut = false
          resolve()
        }
      })
    }
    return await store.commit(commits)
  })
}

function withCommit(store: AnyStore, commit: AnyStore['commit']): AnyStore {
  return new Proxy(store, {
    get(target, name) {
      if (name === 'commit') return commit
      const found: unknown = Reflect.get(target, name)
      return typeof found === 'function' ? found.bind(target) : found
    },
  })
}
