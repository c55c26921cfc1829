// Re-running one step and only what depends on it.

import { expect, it } from 'vitest'
import { signal, type WorkflowContext, workflow } from '../../src/layers/workflow/index.ts'
import { crashEverywhere, type WorkflowKit } from '../../src/testing/index.ts'
import fc from '../support/properties.ts'
import { kitWith } from './kits.ts'

/** Counts the calls of each step, and records the keys that it got. */
class Calls {
  readonly counts = new Map<string, number>()
  readonly keys = new Map<string, string[]>()
  readonly undone: string[] = []

  of(name: string) {
    return ({ key }: { readonly key: string }) => {
      const n = (this.counts.get(name) ?? 0) + 1
      this.counts.set(name, n)
      this.keys.set(name, [...(this.keys.get(name) ?? []), key])
      return `${name}${n}`
    }
  }

  undo(name: string) {
    return { compensate: () => void this.undone.push(name) }
  }

  get all() {
    return Object.fromEntries(this.counts)
  }
}

/** The code of a refusal, or of a run's end. */
const codeOf = (promise: Promise<unknown>) =>
  promise.then(
    () => 'none',
    (error: Error & { code?: string }) => error.code ?? error.message,
  )

const rerun = (kit: WorkflowKit, run: Parameters<WorkflowKit['result']>[0], step: string, key = 'k') =>
  kit.survive((rp) => kit.handle(run, rp).rerun(step, { key }))

it('C1: run.rerun repeats a step and what depends on it, under new keys, and keeps the rest', async () => {
  const kit = kitWith()
  const calls = new Calls()
  const etl = workflow('etl', async (ctx) => {
    const rows = await ctx.step('extract', calls.of('extract'))
    const clean = await ctx.step('clean', calls.of('clean'), { after: ['extract'] })
    const rates = await ctx.step('rates', calls.of('rates'), { after: [] })
    const report = await ctx.step('report', calls.of('report'), { after: ['clean', 'rates'] })
    const mail = await ctx.step('mail', calls.of('mail'), { after: ['rates'] })
    return [rows, clean, rates, report, mail]
  })
  const run = await kit.run(etl, { id: '1' })
  expect(await kit.result(run)).toEqual(['extract1', 'clean1', 'rates1', 'report1', 'mail1'])
  expect(await run.planRerun('clean')).toMatchObject({ repeats: ['clean', 'report'], keeps: ['rates', 'mail'] })
  expect(await rerun(kit, run, 'clean')).toMatchObject({ repeats: ['clean', 'report'], keeps: ['rates', 'mail'] })
  expect(await kit.result(run)).toEqual(['extract1', 'clean2', 'rates1', 'report2', 'mail1'])
  expect(calls.all).toEqual({ extract: 1, clean: 2, rates: 1, report: 2, mail: 1 })
  expect(new Set([...calls.keys.values()].flat()).size).toBe(7)
  // A repeated request has no effect.
  expect(await rerun(kit, run, 'clean')).toMatchObject({ repeats: [] })
  expect(await kit.result(run)).toEqual(['extract1', 'clean2', 'rates1', 'report2', 'mail1'])
  await rerun(kit, run, 'rates', 'again')
  expect(await kit.result(run)).toEqual(['extract1', 'clean2', 'rates2', 'report3', 'mail2'])
  const graph = await run.steps()
  expect(graph.map(({ step, after }) => [step, after])).toContainEqual(['report', ['clean', 'rates']])
  expect(graph.find(({ step }) => step === 'extract')?.repeats.toSorted()).toEqual(['clean', 'extract', 'report'])
})

it('C1: without a declaration a step depends on what its code could have observed', async () => {
  const kit = kitWith()
  const calls = new Calls()
  const flow = workflow('flow', async (ctx) => {
    const a = await ctx.step('a', calls.of('a'))
    const [left, right] = await ctx.parallel([
      async (branch) => [await branch.step('l1', calls.of('l1')), await branch.step('l2', calls.of('l2'))],
      async (branch) => [await branch.step('r1', calls.of('r1')), await branch.step('r2', calls.of('r2'))],
    ])
    const both = await Promise.all([ctx.step('x', calls.of('x')), ctx.step('y', calls.of('y'))])
    return [a, left, right, both, await ctx.step('z', calls.of('z'))]
  })
  const run = await kit.run(flow, { id: '1' })
  await kit.result(run)
  await rerun(kit, run, '~all.0/l1')
  await kit.result(run)
  expect(calls.all).toEqual({ a: 1, l1: 2, l2: 2, r1: 1, r2: 1, x: 2, y: 2, z: 2 })
  // The two steps of Promise.all were issued at the same moment: neither observed the other.
  await rerun(kit, run, 'x', 'second')
  expect(await kit.result(run)).toEqual(['a1', ['l12', 'l22'], ['r11', 'r21'], ['x3', 'y2'], 'z3'])
  expect(calls.all).toMatchObject({ x: 3, y: 2, z: 3 })
})

it('C1: the winner of a kept race stays, and so does the signal that a kept branch took', async () => {
  const kit = kitWith()
  const calls = new Calls()
  const go = signal<string>('go')
  const flow = workflow('flow', async (ctx) =>
    ctx.parallel({
      own: async (branch) => [await branch.step('s', calls.of('s')), await branch.step('t', calls.of('t'))],
      race: async (branch) => {
        const first = await branch.race({
          slow: async (one) => {
            await one.sleep('2s')
            return await one.step('slow', calls.of('slow'))
          },
          fast: async (one) => {
            await one.sleep('1s')
            return await one.step('fast', calls.of('fast'))
          },
        })
        const got = await branch.signal(go)
        return [first.winner, got, await branch.step('last', calls.of('last'))]
      },
    }),
  )
  const run = await kit.run(flow, { id: '1' })
  await kit.survive((rp) => kit.handle(run, rp).signal(go, 'x', { key: '1' }))
  const first = await kit.result(run)
  expect(first.race).toEqual(['fast', 'x', 'last1'])
  await rerun(kit, run, '~all.own/s')
  expect(await kit.result(run)).toEqual({ own: ['s2', 't2'], race: ['fast', 'x', 'last1'] })
  expect(calls.all).toMatchObject({ s: 2, t: 2, fast: 1, last: 1 })
})

it('C1: a repeated wait takes a new signal', async () => {
  const kit = kitWith()
  const calls = new Calls()
  const flow = workflow('flow', async (ctx) => {
    const asked = await ctx.step('ask', calls.of('ask'))
    return [asked, await ctx.signal('answer'), await ctx.step('act', calls.of('act'))]
  })
  const run = await kit.run(flow, { id: '1' })
  await kit.survive((rp) => kit.handle(run, rp).signal('answer', 'yes', { key: '1' }))
  expect(await kit.result(run)).toEqual(['ask1', 'yes', 'act1'])
  await rerun(kit, run, 'ask')
  await kit.settle()
  await kit.survive((rp) => kit.handle(run, rp).signal('answer', 'no', { key: '2' }))
  expect(await kit.result(run)).toEqual(['ask2', 'no', 'act2'])
})

it('C1: repeated steps are undone first, in reverse; a run that then fails undoes the kept ones too', async () => {
  const kit = kitWith()
  const calls = new Calls()
  let isBroken = false
  const flow = workflow('flow', async (ctx) => {
    await ctx.step('a', calls.of('a'), calls.undo('a'))
    await ctx.step('b', calls.of('b'), { after: ['a'], ...calls.undo('b') })
    await ctx.step('c', calls.of('c'), { after: [], ...calls.undo('c') })
    const d = (step: { readonly key: string }) => {
      if (isBroken) throw new Error('broken')
      return calls.of('d')(step)
    }
    await ctx.step('d', d, { after: ['b'], retry: { attempts: 1 }, ...calls.undo('d') })
    await ctx.step('f', calls.of('f'), { after: [], ...calls.undo('f') })
  })
  const run = await kit.run(flow, { id: '1' })
  await kit.result(run)
  isBroken = true
  await rerun(kit, run, 'b')
  expect(await codeOf(kit.result(run))).toBe('broken')
  // The repeated steps d and b; after the failure the new b, c and a in reverse, and f, which the code did not reach again.
  expect(calls.undone.slice(0, 2)).toEqual(['d', 'b'])
  expect(calls.undone.slice(2).toSorted()).toEqual(['a', 'b', 'c', 'f'])
  expect(calls.all).toEqual({ a: 1, b: 2, c: 1, d: 1, f: 1 })
  const { undone, rerun: left } = await run.state()
  expect(Object.keys(undone).toSorted()).toEqual(['a', 'b', 'c', 'f'])
  expect(Object.keys(left!.kept)).toEqual(['f'])
})

it('C1: a child is repeated as another run, and a kept child keeps its result', async () => {
  const kit = kitWith()
  const calls = new Calls()
  const child = workflow('child', async (ctx, of: string) => await ctx.step('work', calls.of(of)))
  const flow = workflow('flow', async (ctx) =>
    ctx.parallel([
      async (branch) => [await branch.step('s', calls.of('s')), await branch.child(child, 'p')],
      async (branch) => await branch.child(child, 'q'),
    ]),
  )
  const run = await kit.run(flow, { id: '1' })
  await kit.result(run)
  expect(await codeOf(kit.survive((rp) => kit.handle(run, rp).rerun('~all.0/s')))).toBe('CONSUMED')
  await kit.survive((rp) => kit.handle(run, rp).rerun('~all.0/s', { consumed: 'force', key: '1' }))
  expect(await kit.result(run)).toEqual([['s2', 'p2'], 'q1'])
  expect(calls.all).toEqual({ s: 2, p: 2, q: 1 })
})

it('C1: a fork re-runs a step of its original, and undoes only its own', async () => {
  const kit = kitWith()
  const calls = new Calls()
  const flow = workflow('flow', async (ctx) => {
    await ctx.step('a', calls.of('a'), calls.undo('a'))
    await ctx.step('b', calls.of('b'), { after: [], ...calls.undo('b') })
    await ctx.step('c', calls.of('c'), { after: ['a'], ...calls.undo('c') })
    return 'done'
  })
  const run = await kit.run(flow, { id: '1' })
  await kit.result(run)
  const fork = await kit.survive((rp) => kit.handle(run, rp).fork('c', { id: 'fork' }))
  await kit.result(fork)
  expect(calls.all).toEqual({ a: 1, b: 1, c: 2 })
  await rerun(kit, fork, 'a')
  expect(await kit.result(fork)).toBe('done')
  expect(calls.all).toEqual({ a: 2, b: 1, c: 3 })
  expect(calls.undone).toEqual(['c'])
  await kit.survive((rp) => kit.handle(fork, rp).undo())
  expect(calls.undone.toSorted()).toEqual(['a', 'c', 'c'])
})

it('C1: a re-run that cannot be sound is refused with RERUN_UNSOUND', async () => {
  const kit = kitWith()
  const looped = workflow('looped', async (ctx) => {
    await ctx.step('first', () => 1)
    return await ctx.loop(0, async (n, each) => {
      await each.step('body', () => n)
      return n === 2 ? each.stop(n) : n + 1
    })
  })
  const loop = await kit.run(looped, { id: '1' })
  await kit.result(loop)
  expect(await codeOf(loop.rerun('first'))).toBe('RERUN_UNSOUND')
  expect(await codeOf(loop.rerun('nothing'))).toBe('NOT_FOUND')
  expect((await loop.rerun('~loop.2/body')).repeats).toEqual(['~loop.2/body'])
  const updated = workflow('updated', async (ctx) => {
    let n = 0
    ctx.onUpdate('add', () => ++n)
    await ctx.step('first', () => 1)
    await ctx.signal('end')
    return n
  })
  const run = await kit.run(updated, { id: '1' })
  await kit.settle()
  await kit.survive((rp) => kit.handle(run, rp).update('add', null, { key: 'u' }))
  expect(await codeOf(kit.survive((rp) => kit.handle(run, rp).rerun('first')))).toBe('RERUN_UNSOUND')
  await kit.survive((rp) => kit.handle(run, rp).cancel({ key: 'c' }))
  await codeOf(kit.result(run))
  expect(await codeOf(run.rerun('first'))).toBe('RERUN_UNSOUND')
  const wrong = workflow('wrong', (ctx) => ctx.step('a', () => 1, { after: ['b'] }))
  expect(await codeOf(kit.result(await kit.run(wrong, { id: '1' })))).toBe('INVALID_ARGUMENT')
})

/** A graph: node i depends on some of the nodes before it. */
interface Graph {
  readonly after: readonly (readonly number[])[]
  readonly isDeclared: boolean
  readonly undoes: readonly boolean[]
}

const graphs = fc.integer({ min: 2, max: 7 }).chain((count) =>
  fc.record({
    after: fc.tuple(
      ...Array.from({ length: count }, (_, i) => (i === 0 ? fc.constant([]) : fc.subarray([...Array(i).keys()]))),
    ),
    isDeclared: fc.boolean(),
    undoes: fc.array(fc.boolean(), { minLength: count, maxLength: count }),
  }),
)

/** Each node begins once its dependencies are done; its result contains theirs. */
function graphWorkflow({ after, isDeclared, undoes }: Graph, calls: Calls, kit: () => WorkflowKit) {
  return workflow('graph', async (ctx: WorkflowContext) => {
    const nodes: Promise<string>[] = []
    for (const [i, from] of after.entries()) {
      const name = `n${i}`
      const begin = async (results: readonly string[]) =>
        await ctx.step(name, async (step) => await kit().effect(() => `${calls.of(name)(step)}(${results.join()})`), {
          input: results,
          ...(isDeclared && { after: from.map((each) => `n${each}`) }),
          ...(undoes[i] && calls.undo(name)),
        })
      nodes.push(Promise.all(from.map((each) => nodes[each]!)).then(begin))
    }
    return await Promise.all(nodes)
  })
}

/** The model: the nodes that depend on the given one are repeated, the others keep their values. */
class GraphModel {
  readonly versions: number[]
  readonly #after: Graph['after']

  constructor({ after }: Graph) {
    this.#after = after
    this.versions = after.map(() => 1)
  }

  rerun(node: number): Set<number> {
    const repeated = new Set([node])
    for (const [i, from] of this.#after.entries()) if (from.some((each) => repeated.has(each))) repeated.add(i)
    for (const each of repeated) this.versions[each]! += 1
    return repeated
  }

  get values(): string[] {
    const values: string[] = []
    for (const [i, from] of this.#after.entries())
      values.push(`n${i}${this.versions[i]}(${from.map((each) => values[each]).join()})`)
    return values
  }
}

it('C1: random graphs and random re-runs do what the model does', async () => {
  const reruns = fc.array(fc.nat(6), { minLength: 1, maxLength: 3 })
  await fc.assert(
    fc.asyncProperty(graphs, reruns, async (graph, nodes) => {
      const calls = new Calls()
      const kit = kitWith()
      const run = await kit.run(
        graphWorkflow(graph as Graph, calls, () => kit),
        { id: '1' },
      )
      const model = new GraphModel(graph as Graph)
      expect(await kit.result(run)).toEqual(model.values)
      for (const [n, given] of nodes.entries()) {
        const node = given % graph.after.length
        const plan = await rerun(kit, run, `n${node}`, `${n}`)
        const result = await kit.result(run)
        if (graph.isDeclared) {
          const repeated = model.rerun(node)
          expect(plan.repeats.toSorted()).toEqual([...repeated].map((each) => `n${each}`).toSorted())
          expect(result).toEqual(model.values)
          expect(Object.values(calls.all)).toEqual(expect.arrayContaining(model.versions))
        }
        // Recorded data flow may repeat more than the graph needs, and never less.
        else for (const each of model.rerun(node)) expect(plan.repeats).toContain(`n${each}`)
        for (const [name, keys] of calls.keys) expect(new Set(keys).size, name).toBe(keys.length)
      }
    }),
    { numRuns: 60 },
  )
}, 60_000)

it('C1: a process that dies anywhere in a re-run repeats only calls in flight, and ends the same way', async () => {
  const graph: Graph = { after: [[], [0], [], [1, 2], [2]], isDeclared: true, undoes: [true, true, true, true, false] }
  const sweep = await crashEverywhere(async (kit) => {
    const calls = new Calls()
    const run = await kit.run(
      graphWorkflow(graph, calls, () => kit),
      { id: '1' },
    )
    await kit.result(run)
    await rerun(kit, run, 'n1')
    const result = await kit.result(run)
    // By key: calls in flight at the crash are repeated under the same key.
    const keys = Object.fromEntries([...calls.keys].map(([name, all]) => [name, new Set(all).size]))
    const undone = [...new Set(calls.undone)]
    return { shapes: result.map((value) => value.replaceAll(/(n\d)\d+/g, '$1')), keys, undone }
  })
  expect(sweep.undisturbed.keys).toEqual({ n0: 1, n1: 2, n2: 1, n3: 2, n4: 1 })
  expect(sweep.undisturbed.undone).toEqual(['n3', 'n1'])
  expect(sweep.crashes.length).toBeGreaterThan(30)
  for (const { at, outcome } of sweep.crashes) expect(outcome, JSON.stringify(at)).toEqual(sweep.undisturbed)
}, 60_000)
