// Callers without a compiler: text, a number or nothing where a function belongs. Every definer and every verb refuses it with
// INVALID_ARGUMENT before anything is written, and never with a TypeError of its own.

import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { isReprise, open, type Reprise, timeline } from '../../src/index.ts'
import { agent, evaluateSession, noLoops, tool, withinBudget } from '../../src/layers/agent/index.ts'
import {
  aggregate,
  checked,
  partitionedProjection,
  processManager,
  projection,
  rewrite,
  sqlProjection,
  tableProjection,
} from '../../src/layers/events/index.ts'
import { exec } from '../../src/layers/exec/index.ts'
import { consumer, type ItemContext, job, keyRange, pages } from '../../src/layers/job/index.ts'
import { command, memo } from '../../src/layers/memo/index.ts'
import { migrations } from '../../src/layers/migrate/index.ts'
import {
  average,
  count,
  fileSink,
  generatedSource,
  httpSink,
  iterableSource,
  keyValue,
  max,
  min,
  type PipelineBuilder,
  pageSource,
  pipeline,
  printSink,
  reduce,
  reducingState,
  rowSink,
  sendSink,
  sqlSink,
  sum,
  tableSink,
  timelineSink,
  tumbling,
  valueSource,
} from '../../src/layers/pipeline/index.ts'
import { save } from '../../src/layers/save/index.ts'
import { pagedTable, stateStore, table } from '../../src/layers/table/index.ts'
import { upload } from '../../src/layers/upload/index.ts'
import { schedule, type WorkflowContext, workflow } from '../../src/layers/workflow/index.ts'
import { controller, garbageCollector, informer, resource } from '../../src/resources.ts'

/** Pipelines are drawn when they run. */
const flow = async (build: (p: PipelineBuilder) => unknown) => {
  const rp = await open('memory:', { housekeeping: false })
  try {
    return await rp
      .run(
        pipeline('flow', (p) => void build(p)),
        {},
      )
      .result()
  } finally {
    await rp.close()
  }
}

/** Gives a value as a program without types would. */
// biome-ignore lint/suspicious/noExplicitAny: the point of this file
type Any = any
type Places = Readonly<Record<string, (given: Any) => unknown>>

const texts = ['text', 7, {}] as const
const nothing = [null, undefined] as const

const account = aggregate('account', {
  initial: () => ({ count: 0 }),
  evolve: { added: ({ count }: { count: number }) => ({ count: count + 1 }) },
  decide: { add: () => ({ type: 'added' as const }) },
})
const counter = timeline('counter', { initial: () => 0, apply: (state: number, _: { type: 'added' }) => state + 1 })
const rowsOf = table<number>('rows')
const evolve = { added: (state: Any) => state }
const decide = { add: () => ({ type: 'added' as const }) }
const initial = () => ({ count: 0 })
const from = [account] as const
const on = { added: (state: Any) => state }
const each = async () => undefined
const cell = resource('cell')
const model = async () => ({ content: 'hello' })
const run = async () => undefined
const ones = (p: PipelineBuilder, name = 'in') => p.from(name, valueSource([1]), { time: () => 1 })
const keyed = (p: PipelineBuilder, name?: string) => ones(p, name).keyBy((n) => n)

const required: Places = {
  'timeline: initial': (f) => timeline('t', { initial: f, apply: (s: number) => s }),
  'timeline: apply': (f) => timeline('t', { initial: () => 0, apply: f }),
  workflow: (f) => workflow('w', f),
  'aggregate: initial': (f) => aggregate('a', { initial: f, evolve, decide } as Any),
  'aggregate: an evolve': (f) => aggregate('a', { initial, evolve: { added: f }, decide } as Any),
  'aggregate: a decide': (f) => aggregate('a', { initial, evolve, decide: { add: f } } as Any),
  'checked()': (f) => checked({ '~standard': { validate: () => ({ value: 1 }) } } as Any, f),
  'processManager: a reaction': (f) => processManager('p', { from, on: { added: f } } as Any),
  'projection: initial': (f) => projection('p', { from, initial: f, on } as Any),
  'projection: a handler': (f) => projection('p', { from, initial, on: { added: f } } as Any),
  'partitionedProjection: initial': (f) => partitionedProjection('p', { from, initial: f, on, partitions: 2 } as Any),
  'sqlProjection: a handler': (f) => sqlProjection('p', { from, on: { added: f } } as Any),
  'tableProjection: a handler': (f) => tableProjection('p', { from, into: rowsOf, on: { added: f } } as Any),
  'job: each': (f) => job('j', { source: [1], each: f }),
  'job: eachBatch': (f) => job('j', { source: [1], batch: 2, eachBatch: f } as Any),
  'consumer: each': (f) => consumer('c', { from: [counter], each: f } as Any),
  'pages()': (f) => pages(f),
  'keyRange: after': (f) => keyRange({ after: f, key: (n: Any) => n }),
  'keyRange: key': (f) => keyRange({ after: async () => [], key: f }),
  'memo: run': (f) => memo('m', { version: 1, run: f }),
  'migrations: run of a step': (f) => migrations('m', { steps: [{ id: '001-one', run: f }] }),
  'controller: reconcile': (f) => controller('c', { watch: [cell], reconcile: f }),
  'tool: run': (f) => tool({ kind: 'read-only', run: f }),
  'tool: compensate of a compensatable one': (f) => tool({ kind: 'compensatable', run, compensate: f }),
  'agent: run of a tool': (f) => agent('a', { model, tools: { one: { kind: 'read-only', run: f } } } as Any),
  pipeline: (f) => pipeline('p', f),
  'map()': (f) => flow((p) => ones(p).map(f)),
  'filter()': (f) => flow((p) => ones(p).filter(f)),
  'flatMap()': (f) => flow((p) => ones(p).flatMap(f)),
  'keyBy()': (f) => flow((p) => ones(p).keyBy(f)),
  'call()': (f) => flow((p) => ones(p).call('c', f)),
  'broadcast()': (f) => flow((p) => ones(p).broadcast('b', p.from('more', valueSource([1])), count(), f)),
  'joinTable(): the key': (f) => flow((p) => ones(p).joinTable(rowsOf, f, () => 1)),
  'joinTable(): the join': (f) => flow((p) => ones(p).joinTable(rowsOf, () => 'k', f)),
  'process(): onRecord': (f) => flow((p) => keyed(p).process('p', { onRecord: f } as Any)),
  'joinWindow()': (f) => flow((p) => keyed(p).joinWindow('j', keyed(p, 'more'), tumbling('1s'), f)),
  'joinInterval()': (f) => flow((p) => keyed(p).joinInterval('j', keyed(p, 'more'), { from: -1, to: 1 }, f)),
  'joinLatest()': (f) => flow((p) => keyed(p).joinLatest('j', keyed(p, 'more'), f)),
  'sum()': sum,
  'min()': min,
  'max()': max,
  'average()': average,
  'reduce()': reduce,
  'reducingState()': (f) => reducingState(f),
  'rowSink(): row': (f) => rowSink({ table: 't', row: f }),
  'sqlSink(): write': (f) => sqlSink({ write: f }),
  'sendSink()': (f) => sendSink(f),
  'tableSink(): write': (f) => tableSink({ table: rowsOf, write: f } as Any),
  'timelineSink(): id': (f) => timelineSink({ timeline: counter, id: f, entry: () => ({ type: 'added' }) } as Any),
  'timelineSink(): entry': (f) => timelineSink({ timeline: counter, id: () => 'a', entry: f } as Any),
  'keyValue()': (f) => keyValue(f),
  'pageSource()': (f) => pageSource(f),
  'generatedSource()': (f) => generatedSource(f),
  'iterableSource()': (f) => iterableSource(f),
}

const optional: Places = {
  'timeline: valid': (f) => timeline('t', { initial: () => 0, apply: (s: number) => s, valid: f }),
  'timeline: erased': (f) => timeline('t', { initial: () => 0, apply: (s: number) => s, erased: f }),
  'timeline: an upcaster': (f) =>
    timeline('t', { initial: () => 0, apply: (s: number) => s, upcasters: { added: { 1: f } } } as Any),
  'workflow: if of retry': (f) => workflow('w', run, { retry: { if: f } } as Any),
  'aggregate: valid': (f) => aggregate('a', { initial, evolve, decide, valid: f } as Any),
  'aggregate: erased': (f) => aggregate('a', { initial, evolve, decide, erased: f } as Any),
  'aggregate: inline': (f) => aggregate('a', { initial, evolve, decide, inline: f } as Any),
  'processManager: onRefused': (f) => processManager('p', { from, on, onRefused: f } as Any),
  'projection: valid': (f) => projection('p', { from, initial, on, valid: f } as Any),
  'sqlProjection: setup': (f) => sqlProjection('p', { from, on, setup: f } as Any),
  'sqlProjection: teardown': (f) => sqlProjection('p', { from, on, teardown: f } as Any),
  'job: key': (f) => job('j', { source: [1], each, key: f } as Any),
  'job: if of retry': (f) => job('j', { source: [1], each, retry: { if: f } } as Any),
  'memo: key': (f) => memo('m', { version: 1, run: () => 1, key: f }),
  'memo: inputs': (f) => memo('m', { version: 1, run: () => 1, inputs: f }),
  'save: valid': (f) => save('s', { valid: f }),
  'table: valid': (f) => table('t', { valid: f }),
  'table: an index': (f) => table('t', { indexes: { by: f } } as Any),
  'pagedTable: a migration': (f) => pagedTable('t', { version: 2, migrations: { 1: f } } as Any),
  'stateStore: valid': (f) => stateStore('s', { partitions: 2, valid: f }),
  'upload: onComplete': (f) => upload('u', { onComplete: f }),
  'upload: accept': (f) => upload('u', { accept: f }),
  'informer: handle': (f) => informer('i', { of: cell, handle: f } as Any),
  'garbageCollector: onProblem': (f) => garbageCollector([{ kind: 'cell' }], { onProblem: f }),
  'tool: compensate': (f) => tool({ kind: 'idempotent', run, compensate: f }),
  'tool: probe': (f) => tool({ kind: 'idempotent', run, probe: f } as Any),
  'agent: model': (f) => agent('a', { model: f }),
  'agent: initial': (f) => agent('a', { model, initial: f } as Any),
  'agent: valid': (f) => agent('a', { model, valid: f } as Any),
  'noLoops: change': (f) => noLoops({ change: f } as Any),
  'withinBudget: change': (f) => withinBudget({ turnCost: 1, change: f } as Any),
  'from(): time': (f) => flow((p) => p.from('in', valueSource([1]), { time: f })),
  'from(): decode': (f) => flow((p) => p.from('in', valueSource([1]), { decode: f } as Any)),
  'process(): onTimer': (f) => flow((p) => keyed(p).process('p', { onRecord: () => undefined, onTimer: f } as Any)),
  'process(): onClock': (f) => flow((p) => keyed(p).process('p', { onRecord: () => undefined, onClock: f } as Any)),
  'printSink()': printSink,
  'fileSink(): line': (f) => fileSink({ folder: '/tmp/none', line: f } as Any),
  'httpSink(): body': (f) => httpSink({ url: 'http://127.0.0.1:1/', body: f } as Any),
  'rowSink(): deletes': (f) => rowSink({ table: 't', key: ['id'], row: () => ({}), deletes: f }),
  'sqlSink(): setup': (f) => sqlSink({ write: async () => undefined, setup: f === 'text' ? [f] : f } as Any),
}

/** Definers that need options, without any. */
const bare: readonly ((name: string) => unknown)[] = [
  ...[timeline, workflow, aggregate, projection, partitionedProjection, sqlProjection, tableProjection, processManager],
  ...[job, consumer, memo, migrations, pipeline, controller, informer, stateStore, keyRange, tool, rowSink, sqlSink],
  ...[tableSink, timelineSink, httpSink, fileSink, schedule, exec, command, checked, withinBudget],
] as Any

/** Verbs of workflows, called in a run: the run returns the code that it caught. */
const inRuns: Readonly<Record<string, (ctx: WorkflowContext, given: Any) => unknown>> = {
  'ctx.step': (ctx, f) => ctx.step('x', f),
  'ctx.transaction': (ctx, f) => ctx.transaction('x', f),
  'ctx.loop': (ctx, f) => ctx.loop(0, f),
  'ctx.onQuery': (ctx, f) => ctx.onQuery('x' as Any, f),
  'ctx.onUpdate': (ctx, f) => ctx.onUpdate('x' as Any, f),
  'ctx.parallel: a branch': (ctx, f) => ctx.parallel({ one: f }),
  'ctx.parallel: a branch of a list': (ctx, f) => ctx.parallel([f]),
  'ctx.race: a branch': (ctx, f) => ctx.race({ one: f, two: run }),
}
const inRunsOptional: typeof inRuns = {
  'ctx.step: compensate': (ctx, f) => ctx.step('x', () => 1, { compensate: f } as Any),
  'ctx.step: inDoubt': (ctx, f) => ctx.step('x', () => 1, { inDoubt: f } as Any),
  'ctx.onUpdate: validate': (ctx, f) => ctx.onUpdate('x' as Any, () => 1, { validate: f } as Any),
}

/** Verbs of handles. */
const verbs: Readonly<Record<string, (rp: Reprise, given: Any) => unknown>> = {
  'rp.events.on': (rp, f) => rp.events.on('problem', f),
  'timeline.watch': async (rp, f) => (await rp.open(counter, 'a')).watch(f),
  'timeline.effects.run': async (rp, f) => await (await rp.open(counter, 'a')).effects.run('x', f),
  'timeline.effects.compensate': async (rp, f) => await (await rp.open(counter, 'a')).effects.compensate('x', f),
  'table.update': async (rp, f) => await (await rp.open(rowsOf)).update('k', f),
  'table.transaction': async (rp, f) => await (await rp.open(rowsOf)).transaction(f),
  'table.watch': async (rp, f) => (await rp.open(rowsOf)).watch('k', f),
  'pagedTable.update': async (rp, f) => await (await rp.open(pagedTable<number>('paged'))).update('k', f),
  'pagedTable.transaction': async (rp, f) => await (await rp.open(pagedTable<number>('paged'))).transaction(f),
  'pagedTable.watch': async (rp, f) => (await rp.open(pagedTable<number>('paged'))).watch('k', f),
  'stateStore.transaction': async (rp, f) => {
    await using parts = await rp.open(stateStore<number>('parts', { partitions: 2 }))
    return await parts.transaction('k', f)
  },
  'resource.change': async (rp, f) => {
    const handle = await rp.open(cell)
    await handle.create({ name: 'one', spec: {} }).catch(() => undefined)
    return await handle.change('one', f)
  },
  'session.edit': async (rp, f) => {
    await using session = await rp.open(agent('a', { model }), 's')
    return await session.edit(f)
  },
  'evaluateSession: model': async (rp, f) => await evaluateSession(rp, agent('a', { model }), 's', { model: f } as Any),
  'jobRun.watch': async (rp, f) => (await rp.run(job('watched', { source: [1], each })).started()).watch(f),
  'migrateRun.watch': async (rp, f) =>
    (await rp.run(migrations('watched', { steps: [{ id: '001-one', run }] }), undefined).started()).watch(f),
  rewrite: (rp, f) => rewrite(rp, account, 'a', 'b', f, 'why'),
}

const shown = (given: unknown) => (typeof given === 'string' ? `'${given}'` : (JSON.stringify(given) ?? 'nothing'))
const cases = (names: readonly string[], given: readonly unknown[]) =>
  names.flatMap((name) => given.map((value) => [name, shown(value), value] as const))

async function refusalOf(work: () => unknown): Promise<unknown> {
  try {
    await work()
    return 'accepted'
  } catch (error) {
    return isReprise(error) ? error.code : error
  }
}

describe('where a function belongs', () => {
  let rp: Reprise
  beforeAll(async () => {
    rp = await open('memory:', { housekeeping: false })
    await (await rp.open(counter, 'a')).append({ type: 'added' })
  })
  afterAll(async () => await rp.close())

  it.each([...cases(Object.keys(required), [...texts, ...nothing]), ...cases(Object.keys(optional), texts)])(
    '%s refuses %s',
    async (name, _, given) => {
      expect(await refusalOf(() => (required[name] ?? optional[name]!)(given))).toBe('INVALID_ARGUMENT')
    },
  )

  it.each(bare.map((define) => [define.name, define] as const))('%s refuses a name alone', async (_, define) => {
    expect(await refusalOf(() => define('alone'))).toBe('INVALID_ARGUMENT')
  })

  it.each([...cases(Object.keys(inRuns), [...texts, ...nothing]), ...cases(Object.keys(inRunsOptional), texts)])(
    '%s refuses %s',
    async (name, shownAs, given) => {
      const verb = inRuns[name] ?? inRunsOptional[name]!
      const one = workflow(`in-${name}-${shownAs}`.replace(/[^a-z-]/gi, '-'), async (ctx) => {
        try {
          await verb(ctx, given)
          return 'accepted'
        } catch (error) {
          return isReprise(error) ? error.code : String(error)
        }
      })
      expect(await rp.run(one).result()).toBe('INVALID_ARGUMENT')
    },
  )

  it('ctx.race refuses an empty race, which would never end', async () => {
    const one = workflow('no-branches', async (ctx) => [
      await refusalOf(() => ctx.race({})),
      await refusalOf(() => ctx.race([])),
    ])
    expect(await rp.run(one).result()).toEqual(['INVALID_ARGUMENT', 'INVALID_ARGUMENT'])
  })

  it.each(cases(Object.keys(verbs), [...texts, ...nothing]))('%s refuses %s', async (name, _, given) => {
    expect(await refusalOf(() => verbs[name]!(rp, given))).toBe('INVALID_ARGUMENT')
  })
})

// `ItemContext` is the type of the context of a job's function: its verbs are called from within a job.
describe('verbs of a job', () => {
  const verbsOfItems: Readonly<Record<string, (ctx: ItemContext, given: Any) => unknown>> = {
    effect: (ctx, f) => ctx.effect('x', f),
    commit: (ctx, f) => ctx.commit(f),
  }
  it.each(cases(Object.keys(verbsOfItems), [...texts, ...nothing]))('ctx.%s refuses %s', async (name, _, given) => {
    const rp = await open('memory:', { housekeeping: false })
    let code: unknown = null
    const one = job('items', {
      source: [1],
      each: async (_item: number, ctx: ItemContext) => {
        code = await refusalOf(() => verbsOfItems[name]!(ctx, given))
      },
    })
    await rp.run(one).result()
    await rp.close()
    expect(code).toBe('INVALID_ARGUMENT')
  })
})
