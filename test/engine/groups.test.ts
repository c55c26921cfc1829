// Groups of any models: an agent, a workflow and a table in one cut; restored to it and to the recovery line of their own
// checkpoints; a cut that does not come to its end; a restore that is interrupted after each of its steps.

import { afterEach, expect, it, vi } from 'vitest'
import { timelineId } from '../../src/core/coordinate.ts'
import { RepriseError } from '../../src/core/errors.ts'
import type { Clock, Commit, Outcome, Store } from '../../src/core/store/ports.ts'
import { systemClock } from '../../src/engine/base/platform.ts'
import { modelsOf } from '../../src/engine/model/model.ts'
import { holdOf } from '../../src/engine/storage/restore-hold.ts'
import { cutFold, restoreFold } from '../../src/engine/tools/timeline-groups/records.ts'
import { type Reprise, timeline } from '../../src/index.ts'
import { agent, type Session, tool } from '../../src/layers/agent/index.ts'
import { table } from '../../src/layers/table/index.ts'
import { workflow } from '../../src/layers/workflow/index.ts'
import { faultyStore } from '../../src/testing/faulty-store.ts'
import { hostOf } from '../support/host.ts'
import { onEveryStore, type World } from '../support/worlds.ts'

/** A run leaves memory some time after it has nothing to do: on a busy machine that takes more than the default second. */
const eventually = <T>(check: () => T | Promise<T>) => vi.waitFor(check, { timeout: 60_000 })

const undone: string[] = []
const guide = agent('guide', {
  model: ({ messages }) =>
    messages.at(-1)!.role === 'tool' ? { content: 'ok' } : { content: '', requests: [{ tool: 'book', args: {} }] },
  tools: {
    book: tool({
      kind: 'compensatable',
      run: (_args: object, { key }) => ({ key }),
      compensate: (_args, { key }) => undone.push(`book ${key}`),
    }),
  },
  checkpoint: {},
})

const steps: string[] = []
const checkout = workflow('checkout', async (ctx, order: { id: string }) => {
  await ctx.step('reserve', () => steps.push(`reserve ${order.id}`), { compensate: () => undone.push('reserve') })
  const first = await ctx.signal<string>('go')
  await ctx.step('charge', () => steps.push(`charge ${first}`), { compensate: () => undone.push('charge') })
  const second = await ctx.signal<string>('go')
  return `${first} ${second}`
})

const stock = table<{ count: number }>('stock')
const members = ['agent/guide/ann', 'workflow/checkout/42', 'table/stock']

interface Scene {
  readonly rp: Reprise
  readonly ann: Session<null>
  signal(value: string): Promise<void>
  count(): Promise<number | undefined>
}

/** Each has done something, and nothing is in progress. */
async function begin(world: World, ports = {}): Promise<Scene> {
  const rp = await world.engine({ ports })
  rp.work([checkout])
  const ann = await rp.open(guide, 'ann')
  await ann.turn('hello')
  const run = await rp.run(checkout, { id: '42' }, { id: '42' })
  await eventually(async () => expect((await rp.head('workflow/checkout/42'))?.status).toBe('waiting'))
  const rows = await rp.open(stock)
  await rows.set('apples', { count: 10 })
  await rows.close()
  return {
    rp,
    ann,
    signal: async (value) => {
      await run.signal('go', value)
    },
    async count() {
      const now = await rp.open(stock)
      const row = now.get('apples')
      await now.close()
      return row?.count
    },
  }
}

async function goOn({ rp, ann, signal }: Scene): Promise<void> {
  await ann.turn('and on')
  await signal('first')
  await eventually(async () => {
    const head = await rp.head('workflow/checkout/42')
    expect(head?.status).toBe('waiting')
    expect(steps.at(-1)).toBe('charge first')
  })
  const rows = await rp.open(stock)
  await rows.set('apples', { count: 3 })
  await rows.close()
}

afterEach(() => {
  undone.length = 0
  steps.length = 0
})

onEveryStore('A3.5 a group of an agent, a workflow and a table', (world) => {
  it('goes back to one cut, together, each as its own model does', async () => {
    const scene = await begin(await world())
    const { rp, ann } = scene
    const turns = ann.state.turn
    const cut = await rp.groups.capture('quiet', members)
    expect(cut).toMatchObject({ status: 'completed', inFlight: 0 })
    await goOn(scene)
    const plan = await rp.groups.plan({ cut: 'quiet' })
    expect(plan.members.every(({ from, to }) => to < from)).toBe(true)
    expect(plan.members[0]!.effects.compensate).toHaveLength(1)
    expect(undone).toEqual([])
    const { members: went } = await rp.groups.restore({ cut: 'quiet' })
    expect(went.map(({ isMoved }) => isMoved)).toEqual([true, true, true])
    expect(await scene.count()).toBe(10)
    const again = await rp.open(guide, 'ann')
    expect(again.state.turn).toBe(turns)
    await eventually(() => expect(undone.map((one) => one.split(' ')[0]).sort()).toEqual(['book', 'charge']))
    // The workflow waits for its signal once more, and goes another way.
    await scene.signal('other')
    await eventually(() => expect(steps.at(-1)).toBe('charge other'))
    for (const member of members) expect(holdOf((await rp.head(member))!)).toBeNull()
    expect((await rp.verify()).faults).toEqual([])
    // The places of the cut can be had again.
    await rp.groups.restore({ cut: 'quiet' }, { takeover: true })
    expect(await scene.count()).toBe(10)
    await rp.groups.release('quiet')
    for (const member of members) {
      expect((await rp.checkpoints(member)).filter(({ isPinned }) => isPinned)).toEqual([])
    }
  })

  it('delivers a signal again that was in flight in the cut, and was read after it', async () => {
    const w = await world()
    const scene = await begin(w)
    const { rp } = scene
    await rp.close()
    const quiet = await w.engine()
    // No process works on it: the signal stays in flight.
    await quiet.send('workflow/checkout/42', 'signal', { name: 'go', value: 'early' })
    for (const each of [guide, checkout, stock]) declare(quiet, each)
    expect((await quiet.groups.capture('with-mail', members)).inFlight).toBe(1)
    quiet.work([checkout])
    await eventually(() => expect(steps.at(-1)).toBe('charge early'))
    await eventually(async () => expect((await quiet.head('workflow/checkout/42'))?.status).toBe('waiting'))
    await quiet.groups.restore({ cut: 'with-mail' })
    await eventually(() => expect(steps).toEqual(['reserve 42', 'charge early', 'charge early']))
    expect(undone).toEqual(['charge'])
  })

  it('is not opened by anybody while it is being restored', async () => {
    const w = await world()
    const scene = await begin(w)
    await scene.rp.groups.capture('c', members)
    await goOn(scene)
    await scene.rp.close()
    // The process dies when the second member is about to go back.
    const dying = await engineThatDies(w, 'branch', 2)
    await expect(dying.groups.restore({ cut: 'c' })).rejects.toThrow()
    const rp = await nextEngine(w)
    await expect(rp.open(stock)).rejects.toMatchObject({ code: 'OWNED' })
    await expect(rp.groups.capture('other', members)).rejects.toMatchObject({ code: 'CONFLICT' })
    const [interrupted] = await rp.groups.restores()
    expect(interrupted).toMatchObject({ status: 'restoring' })
    const left = await rp.groups.abandon(interrupted!.id)
    expect(left.length).toBeLessThan(3)
    const rows = await rp.open(stock)
    expect(rows.get('apples')).toEqual({ count: 3 })
  })

  it('killed at its first commit leaves nothing, and remains of an earlier version are ended and reported', async () => {
    const w = await world()
    const scene = await begin(w)
    await scene.rp.groups.capture('c', members)
    await scene.rp.close({ grace: 0 })
    for (const stop of [1, 2]) {
      const dying = await engineThatDies(w, 'any', stop)
      await expect(dying.groups.restore({ cut: 'c' })).rejects.toThrow()
      await expect(dying.groups.capture(`d${stop}`, members)).rejects.toThrow()
    }
    const rp = await nextEngine(w)
    expect((await rp.groups.restores()).map(({ status }) => status)).not.toContain('new')
    // As an earlier version made them, and was killed: the record, and nothing in it.
    await (await hostOf(rp).openTimeline(timelineId('group/restore/old'), restoreFold)).close()
    await (await hostOf(rp).openTimeline(timelineId('group/cut/old'), cutFold)).close()
    expect((await rp.groups.cuts()).map(({ name }) => name)).toContain('c')
    const old = (await rp.groups.restores()).find(({ id }) => id === 'old')
    expect(old).toMatchObject({ status: 'abandoned', because: expect.stringContaining('repeat the command') })
    await expect(rp.groups.resume('old')).rejects.toMatchObject({ code: 'CONFLICT' })
    for (const { id, status } of await rp.groups.restores()) if (status === 'restoring') await rp.groups.resume(id)
    await rp.groups.capture('old', members)
    await rp.groups.restore({ cut: 'old' })
  })

  it('is restored by any process that resumes it, wherever the restore was interrupted', async () => {
    // Every commit in memory; some of them where each is slower.
    for (let stop = 1; ; ) {
      const w = await world()
      stop += w.kind === 'memory' ? 1 : 9
      const scene = await begin(w)
      await scene.rp.groups.capture('c', members)
      await goOn(scene)
      await scene.rp.close({ grace: 0 })
      const dying = await engineThatDies(w, 'any', stop)
      const result = await dying.groups.restore({ cut: 'c' }).catch((error: unknown) => error)
      const rp = await nextEngine(w)
      const [open] = (await rp.groups.restores()).filter(({ status }) => status === 'restoring')
      const finished = open && (await rp.groups.resume(open.id))
      // Interrupted before anything was recorded, or while it released the unchanged members: nothing was done, and the call is
      // repeated.
      if (!finished && result instanceof Error) await rp.groups.restore({ cut: 'c' })
      rp.work([checkout])
      const rows = await rp.open(stock)
      expect(rows.get('apples')).toEqual({ count: 10 })
      await eventually(() => expect(undone.filter((one) => one === 'charge')).toEqual(['charge']))
      const ann = await rp.open(guide, 'ann')
      expect(ann.state.turn).toBe(1)
      for (const member of members) expect(holdOf((await rp.head(member))!)).toBeNull()
      await rp.close()
      undone.length = 0
      steps.length = 0
      if (!(result instanceof Error)) break
    }
  })
})

const counter = timeline('counter', {
  initial: () => ({ total: 0 }),
  apply: (state: { total: number }, entry: { type: 'added'; by: number }) => ({ total: state.total + entry.by }),
})

const hoursMs = 5 * 3_600_000

onEveryStore('A3.5 a cut', (world) => {
  it('that a member never completes ends after its limit, with an event, and nothing of it is kept', async () => {
    const w = await world()
    const store = await w.store()
    // The test controls when the limit is reached: nothing depends on the speed of the other member.
    let reachLimit = () => {}
    const clock: Clock = {
      ...systemClock,
      after(delayMs, call, isAwaited) {
        if (delayMs < hoursMs / 2) return systemClock.after(delayMs, call, isAwaited)
        reachLimit = call
        return () => {}
      },
    }
    // One member is taken over again and again, so that its savepoint is always refused.
    const stuck: Store = {
      ...bound(store),
      commit: async (commits) => {
        const isStuck = ({ guard, publish }: Commit) => guard?.timeline === 'counter/b' && publish !== undefined
        const others = commits.filter((commit) => !isStuck(commit))
        const outcomes = others.length > 0 ? [...(await store.commit(others))] : []
        // The other member is done by now: they are saved one after the other.
        if (others.length < commits.length) {
          reachLimit()
          await new Promise((resolve) => setImmediate(resolve))
        }
        const refused: Outcome = { ok: false, code: 'FENCED', reason: 'it was taken over', head: null }
        return commits.map((commit) => (isStuck(commit) ? refused : outcomes.shift()!))
      },
    }
    const rp = await w.engine({ ports: { store: stuck, clock } })
    const seen: unknown[] = []
    rp.events.on('cut-abandoned', (event) => seen.push(event))
    for (const id of ['a', 'b']) {
      const open = await rp.open(counter, id)
      await open.append({ type: 'added', by: 1 })
      await open.close()
    }
    const capture = rp.groups.capture('never', ['counter/a', 'counter/b'], { timeout: hoursMs })
    await expect(capture).rejects.toMatchObject({
      code: 'TIMEOUT',
      data: { missing: ['counter/b'] },
    })
    expect(seen).toMatchObject([{ cut: 'never', missing: ['counter/b'] }])
    expect((await rp.checkpoints('counter/a')).filter(({ isPinned }) => isPinned)).toEqual([])
    expect(await rp.groups.cut('never')).toMatchObject({
      status: 'abandoned',
      missing: ['counter/b'],
    })
    await expect(rp.groups.restore({ cut: 'never' })).rejects.toMatchObject({ code: 'CONFLICT' })
  })

  it('whose process died is ended by the next one that looks, and its name is free again', async () => {
    const w = await world()
    const first = await w.engine()
    const open = await first.open(counter, 'a')
    await open.append({ type: 'added', by: 1 })
    await first.close()
    // Killed when its savepoint was published, and not written down.
    const dying = await engineThatDies(w, 'publish', 1, 'after')
    await expect(dying.groups.capture('lost', ['counter/a'], { timeout: '5s' })).rejects.toThrow()
    const rp = await nextEngine(w)
    expect((await rp.checkpoints('counter/a')).filter(({ isPinned }) => isPinned)).toHaveLength(1)
    const seen: unknown[] = []
    rp.events.on('cut-abandoned', (event) => seen.push(event))
    const statuses = async () => (await rp.groups.cuts()).map(({ status }) => status)
    await expect.poll(statuses).toEqual(['abandoned'])
    expect(seen).toMatchObject([{ cut: 'lost' }])
    expect((await rp.checkpoints('counter/a')).filter(({ isPinned }) => isPinned)).toEqual([])
    expect(await rp.groups.capture('lost', ['counter/a'])).toMatchObject({ status: 'completed' })
  })
})

onEveryStore('A3.5 the recovery line of sessions that checkpoint on their own', (world) => {
  it('is restored: every received message was sent, and a message across the line is delivered again, once', async () => {
    const w = await world()
    const rp = await w.engine()
    const [p, q] = [await rp.open(guide, 'p'), await rp.open(guide, 'q')]
    await q.checkpoint()
    await p.send('q', 'one')
    await p.checkpoint()
    await q.checkpoint()
    await q.receive()
    await p.send('q', 'two')
    await q.receive()
    await q.send('p', 'answer')
    await q.checkpoint()
    const target = { members: ['agent/guide/p', 'agent/guide/q'], failed: ['agent/guide/p'] }
    const plan = await rp.groups.plan(target)
    expect(plan.cascade.map(({ process }) => process)).toEqual(['agent/guide/p', 'agent/guide/q'])
    expect(plan.again.map(({ value }) => (value as { content: string }).content)).toEqual(['one'])
    expect(plan.drop).toHaveLength(1)
    await rp.groups.restore(target)
    const [p2, q2] = [await rp.open(guide, 'p'), await rp.open(guide, 'q')]
    expect(await p2.receive()).toEqual([])
    expect((await q2.receive()).map(({ content }) => content)).toEqual(['one'])
    expect(q2.messages.map(({ content }) => content)).toEqual(['one'])
    // The same message, delivered twice by two restores, still counts as one that p sent.
    const line = await rp.groups.plan({ ...target, failed: ['agent/guide/q'] })
    expect(line.again.map(({ value }) => (value as { content: string }).content)).toEqual(['one'])
  })
})

function declare(rp: Reprise, definition: unknown): void {
  for (const model of modelsOf(definition)) rp.declare(model)
}

const isGone = ({ process }: { readonly process: string }) => process === 'dying'

/** An engine that finds out at once that the dying one is dead. */
async function nextEngine(w: World): Promise<Reprise> {
  const rp = await w.engine({ ports: { identity: { host: 'here', process: 'next' }, isGone } })
  for (const each of [guide, checkout, stock, counter]) declare(rp, each)
  return rp
}

/** An engine whose commits fail for good from the n-th of that kind on: as far as the store knows, its process died. */
async function engineThatDies(
  w: World,
  kind: 'branch' | 'publish' | 'any',
  count: number,
  when: 'before' | 'after' = 'before',
): Promise<Reprise> {
  let seen = 0
  const store = await w.store()
  const dying: Store = {
    ...bound(store),
    async commit(commits) {
      const isCounted = commits.some((commit) => kind === 'any' || commit[kind] !== undefined)
      if (seen >= count) throw new RepriseError('BUG', 'killed')
      if (isCounted) seen += 1
      if (seen >= count && when === 'before') throw new RepriseError('BUG', 'killed')
      return await store.commit(commits)
    },
  }
  const rp = await w.engine({
    patience: '50ms',
    ports: { store: dying, identity: { host: 'here', process: 'dying' } },
  })
  for (const each of [guide, checkout, stock, counter]) declare(rp, each)
  return rp
}

function bound(store: Store): Store {
  return faultyStore(store, () => 'ok')
}

onEveryStore('a timeline that leaves memory while it is captured', (world) => {
  it('is captured aside, at whichever moment it leaves', async () => {
    const rp = await (await world()).engine()
    const host = hostOf(rp)
    for (let turns = 0; turns < 30; turns++) {
      const id = timelineId(`counted/${turns}`)
      const handle = await rp.open(counted, String(turns))
      await handle.append({ type: 'added' })
      const open = (await host.opened(id))!
      const made = host.savepoint(handle.coordinate, {})
      for (let i = 0; i < turns; i++) await Promise.resolve()
      open.break(new RepriseError('CLOSED', 'it left memory'))
      expect((await made).coordinate, `after ${turns} turns`).toMatchObject({ timeline: id, seq: 1 })
    }
  })
})

const counted = timeline('counted', {
  initial: () => ({ count: 0 }),
  apply: (state, _entry: { type: 'added' }) => ({ count: state.count + 1 }),
})
