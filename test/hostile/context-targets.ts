// The verbs of contexts, called inside of the function that receives the context.

import type { Reprise, Sql } from '../../src/index.ts'
import { job } from '../../src/layers/job/index.ts'
import { memo } from '../../src/layers/memo/index.ts'
import { migrations } from '../../src/layers/migrate/index.ts'
import {
  collectSink,
  count,
  every,
  listState,
  mapState,
  type PipelineBuilder,
  pipeline,
  tumbling,
  valueSource,
  valueState,
} from '../../src/layers/pipeline/index.ts'
import { pagedTable, table } from '../../src/layers/table/index.ts'
import { signal, workflow } from '../../src/layers/workflow/index.ts'
import { controller, resource } from '../../src/resources.ts'
import type { Calls, Target } from './verb-targets.ts'

const greet = workflow('greet', async () => 1)
const square = memo('square', { version: 1, run: async (n: number) => n * n })
const sites = resource<{ n: number }>('sites')

/** Runs `use` where the context is available. */
type Within = (rp: Reprise, id: string, use: (context: object) => unknown) => Promise<unknown>

/** An object whose verbs are called in the context. The error of the verb counts, not that of the run around it. */
function inside(calls: Calls, within: Within): Target {
  return {
    calls,
    open: (rp, id) => {
      const verb =
        (name: string) =>
        async (...given: unknown[]) => {
          let failure: { readonly error: unknown } | null = null
          const use = async (context: object) => {
            try {
              return await Reflect.apply(Reflect.get(context, name) as () => unknown, context, given)
            } catch (error) {
              failure = { error }
              return undefined
            }
          }
          await within(rp, id, use).catch((error) => {
            failure ??= { error }
          })
          if (failure) throw (failure as { readonly error: unknown }).error
        }
      return Object.fromEntries(Object.keys(calls).map((name) => [name, verb(name)]))
    },
  }
}

const inWorkflow: Within = async (rp, id, use) =>
  await rp
    .run(
      workflow(`probe${id}`, async (ctx) => void (await use(ctx))),
      { id },
    )
    .result()

const inItem: Within = async (rp, id, use) =>
  await rp.run(job(`probe${id}`, { source: ['a'], each: async (_, ctx) => void (await use(ctx)) })).result()

const inBatch: Within = async (rp, id, use) =>
  await rp.run(job(`probe${id}`, { source: ['a'], eachBatch: async (_, ctx) => void (await use(ctx)) })).result()

const inStep: Within = async (rp, id, use) =>
  await rp
    .run(migrations(`probe${id}`, { steps: [{ id: '001-a', run: async (ctx) => void (await use(ctx)) }] }))
    .result()

const inReconcile: Within = async (rp, id, use) => {
  await rp.open(sites).create({ name: 'a', spec: { n: 1 } })
  const reconcile = async (ctx: object) => void (await use(ctx))
  await rp.open(controller(`probe${id}`, { watch: [sites], reconcile })).settled()
}

const inTransaction: Within = async (rp, _, use) =>
  await rp.open(table('t')).transaction(async (tx) => void (await use(tx)))

const inPaged: Within = async (rp, _, use) =>
  await rp.open(pagedTable('t')).transaction(async (tx) => void (await use(tx)))

/** The error of a statement is that of the database; the commit around it fails with a code. */
const sql: Target = {
  store: 'sqlite',
  calls: { run: ['SELECT 1'], all: ['SELECT ?', 1], get: ['SELECT ?', 1], rows: ['SELECT ?', 1] },
  open: (rp, id) => {
    const verb = (name: 'run' | 'all' | 'get' | 'rows') => {
      return async (...given: never[]) => {
        const call = async (db: Sql) => void (await Reflect.apply(db[name], db, given))
        const code = workflow(`probe${id}`, async (ctx) => await ctx.transaction('t', call))
        await rp.run(code, { id }).result()
      }
    }
    return { run: verb('run'), all: verb('all'), get: verb('get'), rows: verb('rows') }
  },
}

/** `pick`: the part of the context whose verbs are called; errors of a record are dead letters, so that they are caught here. */
function inProcess(pick: (ctx: { readonly state: Record<string, object> }) => object): Within {
  return async (rp, id, use) => {
    let done: unknown
    const state = { one: valueState<number>(), many: mapState<number>(), all: listState<number>() }
    const built = pipeline(`probe${id}`, (p) => {
      p.from('n', valueSource([1]))
        .keyBy(String)
        .process('p', {
          state,
          onRecord: (_, ctx) => {
            done = use(pick(ctx as never))
          },
        })
        .to('out', collectSink())
    })
    await rp.run(built, {}).result()
    await done
  }
}

/** A verb of a stream, called while the pipeline is built. */
function inBuild(calls: Calls, streamOf: (p: PipelineBuilder) => object): Target {
  return {
    calls,
    open: (rp, id) => {
      const verb =
        (name: string) =>
        async (...given: unknown[]) => {
          const built = pipeline(`probe${id}`, (p) => {
            const stream = streamOf(p)
            const other = p.from('other', valueSource([1])).keyBy(String)
            const args = given.map((each) => (each === 'STREAM' ? other : each))
            Reflect.apply(Reflect.get(stream, name) as () => unknown, stream, args)
          })
          await rp.run(built, {}).started()
        }
      return Object.fromEntries(Object.keys(calls).map((name) => [name, verb(name)]))
    },
  }
}

const numbers = (p: PipelineBuilder) => p.from('n', valueSource([1]), { time: () => 1 })
const byKey = (p: PipelineBuilder) => numbers(p).keyBy(String)
const stock = table<number>('stock')

const streams: Readonly<Record<string, Target>> = {
  PipelineBuilder: inBuild({ from: ['n', valueSource([1]), {}] }, (p) => p),
  Stream: inBuild(
    {
      map: [() => 1],
      filter: [() => true],
      flatMap: [() => [1]],
      keyBy: [String, () => 1],
      union: ['STREAM'],
      rebalance: [],
      broadcast: ['b', 'STREAM', count(), () => 1],
      joinTable: [stock, String, () => 1, {}],
      call: ['c', async () => 1, {}],
      to: ['out', collectSink()],
    },
    numbers,
  ),
  KeyedStream: inBuild(
    {
      aggregate: ['a', count()],
      window: ['w', tumbling('1m'), {}],
      process: ['p', { onRecord: () => undefined }],
      dedupe: ['d', { within: '1m' }],
      processBoth: ['p', 'STREAM', { onLeft: () => undefined, onRight: () => undefined }],
      joinWindow: ['j', 'STREAM', tumbling('1m'), () => 1, {}],
      joinInterval: ['j', 'STREAM', { before: '1m', after: '1m' }, () => 1, {}],
      joinLatest: ['j', 'STREAM', () => 1, {}],
      joinChanges: ['j', 'STREAM', () => 1, {}],
    },
    byKey,
  ),
  WindowedStream: inBuild({ aggregate: [count()] }, (p) => byKey(p).window('w', tumbling('1m'))),
  CountedStream: inBuild({ aggregate: [count()] }, (p) => byKey(p).window('w', every(2))),
  ProcessedStream: inBuild({ side: ['s'] }, (p) => byKey(p).process('p', { onRecord: () => undefined })),
}

export const contexts: Readonly<Record<string, Target>> = {
  WorkflowContext: inside(
    {
      step: ['s', () => 1, {}],
      memo: [square, 1],
      transaction: ['t', () => 1, {}],
      sleep: [1],
      sleepUntil: [1],
      signal: [signal<number>('paid'), { timeout: 1 }],
      child: [greet, undefined, {}],
      start: [greet, undefined, {}],
      parallel: [[async () => 1]],
      race: [[async () => 1], {}],
      patch: ['p'],
      loop: [0, () => 1],
      now: [],
      random: [],
      uuid: [],
      onQuery: ['q', () => 1],
      onUpdate: ['u', () => 1, {}],
      heartbeat: [1],
      attributes: [{ a: 1 }],
    },
    inWorkflow,
  ),
  ItemContext: inside({ effect: ['pay', () => 1, {}], memo: [square, 1], commit: [() => undefined] }, inItem),
  BatchContext: inside({ fail: ['a', new Error('x')], memo: [square, 1], commit: [() => undefined] }, inBatch),
  StepContext: inside({ save: [1], commit: [() => undefined] }, inStep),
  ReconcileContext: inside(
    { report: [{ status: 1 }], effect: ['pay', () => 1, {}], event: ['Reason', 'message', 'Normal'], of: [sites] },
    inReconcile,
  ),
  Transaction: inside(
    { get: ['a'], has: ['a'], entries: [{}], set: ['a', 1, {}], delete: ['a'], offset: ['s'], advance: ['s', 1] },
    inTransaction,
  ),
  PagedTransaction: inside(
    { get: ['a'], has: ['a'], entries: [{}], set: ['a', 1, {}], delete: ['a'], offset: ['s'], advance: ['s', 1] },
    inPaged,
  ),
  Sql: sql,
  ProcessContext: inside(
    {
      emit: [1],
      side: ['s', 1],
      setTimer: [1],
      deleteTimer: [1],
      setClockTimer: [1],
      deleteClockTimer: [1],
      now: [],
    },
    inProcess((ctx) => ctx),
  ),
  ValueState: inside(
    { get: [], set: [1], clear: [] },
    inProcess(({ state }) => state.one!),
  ),
  MapState: inside(
    { get: ['a'], has: ['a'], set: ['a', 1], delete: ['a'], entries: [], clear: [] },
    inProcess(({ state }) => state.many!),
  ),
  ...streams,
  ListState: inside(
    { get: [], add: [1], set: [[1]], clear: [] },
    inProcess(({ state }) => state.all!),
  ),
}
