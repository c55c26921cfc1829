// The public verbs with valid arguments, by the class or context that has them. The sweep in arguments.test.ts replaces each
// argument by values of a wrong shape.

import { join } from 'node:path'
import { feedStart, keyed, type Reprise, timeline } from '../../src/index.ts'
import { agent, tool } from '../../src/layers/agent/index.ts'
import { aggregate, processManager, projection } from '../../src/layers/events/index.ts'
import { job } from '../../src/layers/job/index.ts'
import { memo } from '../../src/layers/memo/index.ts'
import { migrations } from '../../src/layers/migrate/index.ts'
import { collectSink, generatedSource, pipeline } from '../../src/layers/pipeline/index.ts'
import { save } from '../../src/layers/save/index.ts'
import { pagedTable, stateStore, table } from '../../src/layers/table/index.ts'
import { signal, workflow, workflows } from '../../src/layers/workflow/index.ts'
import { config, controller, informer, resource } from '../../src/resources.ts'

/** Valid arguments of each verb; the sweep calls `on[verb](...args)`. */
export type Calls = Readonly<Record<string, readonly unknown[]>>

export interface Target {
  readonly calls: Calls
  /** SQL needs a database. Default: 'memory'. */
  readonly store?: 'sqlite'
  /** Opens the object that has the verbs; called once for each verb. */
  open(rp: Reprise, id: string, folder: string): unknown
}

export const counter = timeline('counter', {
  initial: () => 0,
  apply: (sum: number, entry: { type: 'added'; by: number }) => sum + entry.by,
})
const account = aggregate('account', {
  initial: () => ({ cents: 0 }),
  evolve: { paid: (state: { cents: number }, event: { cents: number }) => ({ cents: state.cents + event.cents }) },
  decide: {
    pay: (_: { cents: number }, input: { cents: number } | undefined) => ({
      type: 'paid' as const,
      cents: input?.cents ?? 0,
    }),
  },
})
const totals = projection('totals', { from: [account], initial: () => 0, on: { paid: (sum: number) => sum + 1 } })
const reminders = processManager('reminders', { from: [account], on: { paid: () => undefined } })
const papers = job('papers', { source: ['a'], each: () => 1 })
const steps = migrations('steps', { steps: [{ id: '001-one', run: () => undefined }] })
const stock = table<number>('stock', { indexes: { value: (value: number) => value } })
const pages = pagedTable<number>('pages')
const spread = stateStore<number>('spread', { partitions: 2 })
const saves = save<unknown>('saves', { loseAtMost: '1h' })
const sites = resource<{ n: number }>('sites')
const routes = config<unknown>('routes')
const greet = workflow('greet', async (ctx, name: string) => await ctx.step('greet', () => `Hello ${name}`))
const waiting = workflow('waiting', async (ctx) => {
  ctx.onQuery('q', () => 1)
  ctx.onUpdate('u', () => 1)
  return await ctx.signal(signal<number>('paid'))
})
const square = memo('square', { version: 1, run: async (n: number) => n * n })
const bot = agent('bot', {
  model: async () => ({ content: 'hello', requests: [] }),
  tools: { look: tool({ kind: 'idempotent', run: () => 1 }) },
})
const endless = pipeline('endless', (p) => {
  p.from(
    'n',
    generatedSource((n) => n),
  ).to('out', collectSink())
})

const atOne = { timeline: 'counter/a', seq: 1 }
const range = { from: 'a', to: 'b' }

const follower = { led: [{}], settled: [{}], deadLetters: [], redrive: [['a']], discard: [['a']], close: [] }

const tableCalls: Calls = {
  get: ['a'],
  has: ['a'],
  entries: [range],
  keys: [range],
  values: [range],
  by: ['value', 1],
  set: ['a', 1, {}],
  delete: ['a'],
  update: ['a', () => 1],
  transaction: [() => undefined],
  offset: ['source'],
  watch: ['a', () => undefined],
  checkpoint: [{}],
  sweep: [],
  close: [],
}

export const targets: Readonly<Record<string, Target>> = {
  Reprise: {
    open: (rp) => rp,
    calls: {
      open: [counter, 'b', {}],
      run: [greet, 'ann', {}],
      work: [[greet], {}],
      workUntil: [[greet], { budget: '1s', idle: 1 }],
      at: [counter, 'a', { seq: 1 }],
      fork: [atOne, 'counter/fork', {}],
      rollback: [{ to: atOne }],
      collect: [{}],
      savepoint: [atOne, {}],
      release: ['counter/a', 'x'],
      export: [atOne, 'PATH', {}],
      import: ['PATH', {}],
      move: ['counter/a', 'PATH', {}],
      moveBack: ['counter/a', {}],
      resumeChange: ['x', {}],
      settleEffect: ['counter/a', 'x', 'done', 'ann', 1],
      follow: [counter, 'a', {}],
      sql: ['SELECT 1', []],
      send: ['counter/a', 'note', 1, {}],
      declare: [{ scope: 'notes/' }],
      close: [{}],
    },
  },
  StoreTools: {
    open: (rp) => rp,
    calls: {
      backup: ['PATH', {}],
      restore: ['PATH', {}],
      ship: ['PATH', { once: true }],
      verify: [{}],
      drill: [{}],
      rekey: [{}],
      keys: [],
      hashed: ['text'],
      changes: [],
      abandonChange: ['x'],
      losses: [],
      acceptLoss: ['x', { by: 'ann', reason: 'x' }],
      collect: [{}],
      tiers: [{}],
      delete: ['counter/a', {}],
      erase: ['counter/a', {}],
      eraseEntries: ['counter/a', { entries: [1], reason: 'x' }],
      giveUp: ['counter/a', { by: 'ann', reason: 'x' }],
      effectsOf: ['counter/a'],
      planRollback: ['counter/a', { seq: 1 }],
      markCheckpoint: ['counter/a', 'x', { why: 'x', by: 'ann' }],
      unmarkCheckpoint: ['counter/a', 'x'],
      card: ['counter/a'],
      log: [{}],
      head: ['counter/a'],
      list: [{}],
      each: [{}],
      checkpoints: ['counter/a'],
      workers: [],
      feed: [feedStart, {}],
      facts: [],
      shards: [],
      addShard: ['sqlite:PATH', {}],
    },
  },
  TimelineHandle: {
    open: (rp, id) => rp.open(counter, id),
    calls: {
      append: [{ type: 'added', by: 1 }, {}],
      refresh: [],
      checkpoint: [{}],
      watch: [() => undefined],
      close: [],
    },
  },
  Effects: {
    open: async (rp, id) => (await rp.open(counter, id)).effects,
    calls: {
      list: [],
      get: ['x'],
      inDoubt: [],
      run: ['pay', () => 1, {}],
      settle: ['x', 'done', 'ann', 1],
      compensate: ['x', () => 1, {}],
    },
  },
  Events: { open: (rp) => rp.events, calls: { on: ['problem', () => undefined], has: ['problem'] } },
  Groups: {
    open: (rp) => rp.groups,
    calls: {
      capture: ['g', ['counter/a'], {}],
      cut: ['g'],
      cuts: [],
      release: ['g'],
      plan: [{ cut: 'g' }],
      restore: [{ cut: 'g' }, {}],
      resume: ['g', {}],
      abandon: ['g', 'because'],
      restores: [],
      expire: [],
      schedule: ['s', ['counter/a'], { each: '1h', keep: 2 }],
      schedules: [],
      endSchedule: ['s'],
    },
  },
  Keyed: {
    open: () => keyed([['a', 1]]),
    calls: {
      get: ['a'],
      has: ['a'],
      set: ['a', 1],
      delete: ['a'],
      clear: [],
      snapshot: [],
      entries: [range],
      keys: [range],
      values: [range],
    },
  },
  Replica: {
    open: (rp) => rp.follow(counter, 'a'),
    calls: { watch: [() => undefined], refresh: [], takeOver: [{}], close: [] },
  },
  WorkflowRun: {
    open: (rp, id) => rp.run(waiting, { id }),
    calls: {
      result: [{ timeout: 1 }],
      started: [{}],
      status: [],
      waitsFor: [],
      signal: ['paid', 1, {}],
      cancel: [{}],
      query: ['q', 1],
      update: ['u', 1, {}],
      terminate: [{}],
      retry: [{}],
      rollback: [{ to: 'x' }],
      undo: [{}],
      fork: ['x', {}],
      settle: ['x', { done: 1 }, {}],
      resume: ['ann'],
      restart: [1],
      rerun: ['step', {}],
      planRerun: ['step'],
      steps: [],
      state: [],
    },
  },
  WorkflowRuns: {
    open: (rp) => workflows(rp).of(waiting),
    calls: {
      get: ['a'],
      list: [{}],
      cancel: [{}, {}],
      terminate: [{}, {}],
      signal: [{}, 'paid', 1],
      retry: [{}],
      rollback: [{}, { to: 'x' }],
      fork: [{}, 'x', {}],
    },
  },
  Workflows: { open: (rp) => workflows(rp), calls: { list: [{}], of: [greet] } },
  JobRun: {
    open: (rp) => rp.run(papers),
    calls: {
      result: [{}],
      started: [{}],
      status: [],
      watch: [() => undefined],
      stop: [{}],
      deadLetters: [],
      redrive: [['a'], {}],
      discard: [['a']],
    },
  },
  MigrateRun: {
    open: (rp) => rp.run(steps),
    calls: { started: [{}], status: [], stop: [{}], result: [{}], watch: [() => undefined] },
  },
  AggregateHandle: {
    open: (rp, id) => rp.open(account, id),
    calls: {
      do: ['pay', { cents: 1 }, {}],
      correct: [1, { type: 'paid', cents: 1 }, 'a mistake', {}],
      refresh: [],
      at: [{ seq: 1 }],
      history: [{}],
      reveal: [null],
      shred: [],
      checkpoint: [{}],
      receive: [],
      close: [],
    },
  },
  ProjectionHandle: {
    open: (rp) => rp.open(totals),
    calls: {
      status: [],
      deadLetters: [],
      catchUp: [{}],
      resume: [],
      redrive: [[]],
      discard: [[]],
      checkpoint: [],
      rebuild: [{}],
      close: [],
    },
  },
  ProcessManager: {
    open: (rp) => rp.open(reminders),
    calls: { status: [], catchUp: [{}], resume: [], deadLetters: [], redrive: [[]], discard: [[]], close: [] },
  },
  TableHandle: { open: (rp, id) => rp.open(stock, id), calls: tableCalls },
  PagedTable: { open: (rp, id) => rp.open(pages, id), calls: { ...tableCalls, count: [range] } },
  PartitionedStore: {
    open: (rp) => rp.open(spread),
    calls: {
      tableOf: ['a'],
      get: ['a'],
      set: ['a', 1, {}],
      delete: ['a'],
      transaction: ['a', () => undefined],
      entries: [range],
      close: [],
    },
  },
  TableStandby: {
    open: (rp) => stock.standby(rp, 'standby'),
    calls: { get: ['a'], entries: [range], offset: ['source'], refresh: [], takeOver: [{}], close: [] },
  },
  SaveHandle: {
    open: (rp, id) => rp.open(saves, id),
    calls: {
      put: [1, {}],
      putStream: [new Blob(['x']).stream(), 1, {}],
      restore: ['x', {}],
      release: ['x'],
      autosave: [() => 1],
      close: [],
      list: [],
      latest: [],
      load: ['x'],
      compare: ['x', 'y'],
    },
  },
  Autosave: { open: async (rp, id) => (await rp.open(saves, id)).autosave(() => 1), calls: { stop: [] } },
  SaveReader: {
    open: (rp) => saves.read(rp),
    calls: { list: [], latest: [], load: ['x'], compare: ['x', 'y'] },
  },
  ResourceHandle: {
    open: (rp) => rp.open(sites),
    calls: {
      create: [{ name: 'a', spec: { n: 1 } }],
      update: [{ name: 'a', spec: { n: 1 }, revision: '1' }],
      change: ['a', () => ({ spec: { n: 2 } }), {}],
      patch: ['a', { merge: { spec: { n: 3 } } }, {}],
      apply: [{ name: 'a', spec: { n: 1 }, by: 'ann' }],
      report: [{ name: 'a', status: 1 }],
      delete: ['a', {}],
      get: ['a'],
      list: [{}],
      watch: [{}],
      checkpoint: [{}],
      close: [],
    },
  },
  Watch: { open: async (rp) => (await rp.open(sites)).watch(), calls: { close: [] } },
  ConfigHandle: {
    open: (rp) => rp.open(routes),
    calls: {
      set: [1, {}],
      rollout: [1, { stages: [1] }],
      latest: [],
      target: ['edge'],
      client: ['edge', {}],
      ack: ['edge', 'x'],
      nack: ['edge', 'x', 'why'],
      reached: [1, { timeout: 1 }],
      ended: [1, {}],
      status: [],
      clients: [],
      pause: [1],
      resume: [1],
      withdraw: [1],
      close: [],
    },
  },
  ClientStream: {
    open: async (rp) => await (await rp.open(routes)).client('edge'),
    calls: { next: [{ signal: AbortSignal.timeout(1) }], ack: ['x'], nack: ['x', 'why'], close: [], detach: [] },
  },
  InformerHandle: {
    open: (rp, id) => rp.open(informer(`i${id}`, { of: sites, indexes: { n: () => ['1'] }, handle: () => undefined })),
    calls: { ...follower, get: ['a'], list: ['a=b'], by: ['n', '1'] },
  },
  ControllerHandle: {
    open: (rp, id) => rp.open(controller(`c${id}`, { watch: [sites], reconcile: () => undefined })),
    calls: { ...follower, events: ['a'] },
  },
  MemoHandle: {
    open: (rp) => rp.open(square),
    calls: { call: [1], recall: [[1], {}], peek: [1], explain: [1], forget: [1], close: [] },
  },
  Session: {
    open: (rp, id) => rp.open(bot, id),
    calls: {
      turn: ['hi', {}],
      resume: [{}],
      use: ['look', {}, {}],
      edit: [() => null],
      note: ['text'],
      setPlan: [1],
      configure: [{}],
      interrupt: ['enough'],
      approve: ['ann', {}],
      refuse: ['ann', 'no'],
      decide: ['run', 'ann', {}],
      planRollback: [{ to: 0 }],
      rollback: [{ to: 0 }],
      fork: ['other', {}],
      send: ['other', 1],
      receive: [],
      captureCut: ['cut', ['x'], {}],
      captureWorkspace: [{ directory: '/tmp/reprise-none' }],
      restoreWorkspace: [{ directory: '/tmp/reprise-none' }],
      checkpoint: [{}],
      close: [],
    },
  },
  PipelineRun: {
    open: (rp, id) => rp.run(endless, { id } as never),
    calls: {
      result: [{ timeout: 1 }],
      started: [{}],
      status: [],
      checkpoint: [{}],
      savepoint: [{}],
      stop: [{}],
      cancel: [],
      deadLetters: [],
      redrive: [[1]],
      discard: [[1]],
    },
  },
}

/** A valid path in the place of the words PATH and FOLDER, and the engine in that of ENGINE. */
export function placed(value: unknown, rp: Reprise, folder: string, n: number): unknown {
  if (value === 'ENGINE') return rp
  if (value === 'FOLDER') return folder
  if (value === 'PATH') return join(folder, `file-${n}`)
  if (value === 'sqlite:PATH') return `sqlite:${join(folder, `store-${n}.db`)}`
  return value
}
