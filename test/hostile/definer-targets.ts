// The functions of each entry with valid arguments: definitions, sources, sinks, and the tools that take an engine.

import { redisBroker } from '../../src/adapters/redis/index.ts'
import * as reprise from '../../src/index.ts'
import * as agents from '../../src/layers/agent/index.ts'
import * as events from '../../src/layers/events/index.ts'
import * as jobs from '../../src/layers/job/index.ts'
import * as memos from '../../src/layers/memo/index.ts'
import * as migrate from '../../src/layers/migrate/index.ts'
import * as pipelines from '../../src/layers/pipeline/index.ts'
import * as saves from '../../src/layers/save/index.ts'
import * as tables from '../../src/layers/table/index.ts'
import * as uploads from '../../src/layers/upload/index.ts'
import * as workflows from '../../src/layers/workflow/index.ts'
import * as resources from '../../src/resources.ts'
import type { Calls, Target } from './verb-targets.ts'

const account = events.aggregate('account', {
  initial: () => ({ cents: 0 }),
  evolve: { paid: (state: { cents: number }) => state },
  decide: { pay: () => ({ type: 'paid' as const }) },
})
const greet = workflows.workflow('greet', async () => 1)
const bot = agents.agent('bot', { model: async () => ({ content: 'hello', requests: [] }) })
const consume = jobs.consumer('follower', { from: [account], each: () => 1 })
const flow = pipelines.pipeline('flow', (p) => {
  p.from('n', pipelines.valueSource([1])).to('out', pipelines.collectSink())
})
const sites = resources.resource('sites')
const reading = { from: [account], on: { paid: () => undefined } }

function of(module: object, calls: Calls): Target {
  return { open: () => module, calls }
}

export const definers: Readonly<Record<string, Target>> = {
  reprise: of(reprise, {
    explain: ['NOT_FOUND'],
    isGiveUp: [null],
    isReprise: [null, 'NOT_FOUND'],
    isRetryLater: [null],
    keyed: [[['a', 1]]],
    timeline: ['t', { initial: () => 0, apply: () => 0 }],
    open: ['memory:', {}],
  }),
  'reprise/workflow': of(workflows, {
    checkDefinitions: ['ENGINE', [greet], {}],
    exportHistory: ['ENGINE', 'counter/a'],
    loadHistory: ['PATH'],
    dag: ['d', { a: { run: () => 1 } }, {}],
    query: ['q'],
    queue: ['q', {}],
    saveHistory: ['ENGINE', 'counter/a', 'PATH'],
    schedule: ['s', { workflow: greet, cron: '* * * * *' }],
    signal: ['s'],
    update: ['u'],
    workflow: ['w', async () => 1, {}],
    workflows: ['ENGINE'],
  }),
  'reprise/job': of(jobs, {
    consumer: ['c', { from: [account], each: () => 1 }],
    consumerLag: ['ENGINE', consume],
    csv: ['PATH', {}],
    itemQueue: ['q'],
    discardLetters: ['ENGINE', 'job/papers', ['a'], 'key'],
    exportProgress: ['ENGINE', 'job/papers'],
    importProgress: ['ENGINE', 'papers', ['{}'], {}],
    job: ['j', { source: ['a'], each: () => 1 }],
    jsonLines: ['PATH', {}],
    keyValue: [() => 1],
    logSource: [pipelines.valueSource([1]), {}],
    queueSource: [redisBroker({ url: 'redis://127.0.0.1:9', stream: 's', group: 'g' }), {}],
    lines: ['PATH', {}],
    pages: [() => ({ items: [], next: undefined })],
    readLetters: ['ENGINE', 'job/papers'],
    redriveLetters: ['ENGINE', 'job/papers', ['a'], {}, 'key'],
    releaseConsumer: ['ENGINE', consume],
    stopJob: ['ENGINE', 'job/papers', 'because', 'key'],
    keyRange: [{ from: 1, to: 2, size: 1, read: () => [] }],
  }),
  'reprise/migrate': of(migrate, {
    migrations: ['m', { steps: [{ id: '001-a', sql: 'SELECT 1' }] }],
    splitSql: ['SELECT 1'],
    stepsFrom: ['FOLDER'],
  }),
  'reprise/events': of(events, {
    aggregate: ['a', { initial: () => 0, evolve: { a: () => 0 }, decide: { a: () => ({ type: 'a' }) } }],
    checkEvents: ['ENGINE', account],
    commandTo: [account, 'ann', 'pay', {}],
    partitionOf: ['a', 2],
    partitionedProjection: ['p', { ...reading, initial: () => 0, partitions: 2 }],
    personal: [1],
    processManager: ['p', reading],
    projection: ['p', { ...reading, initial: () => 0 }],
    sendCommand: ['ENGINE', events.commandTo(account, 'ann', 'pay'), {}],
    sqlProjection: ['p', reading],
    rewrite: ['ENGINE', account, 'ann', 'bob', () => null],
  }),
  'reprise/table': of(tables, { pagedTable: ['t', {}], stateStore: ['t', { partitions: 2 }], table: ['t', {}] }),
  'reprise/save': of(saves, { save: ['s', {}] }),
  'reprise/upload': of(uploads, { upload: ['u', {}] }),
  'reprise/memo': of(memos, {
    memo: ['m', { version: 1, run: () => 1 }],
    command: ['c', { run: ['true'], inputs: [], outputs: [] }],
  }),
  'reprise/resources': of(resources, {
    config: ['c', {}],
    controller: ['c', { watch: [sites], reconcile: () => undefined }],
    garbageCollector: [[], {}],
    informer: ['i', { of: sites }],
    jsonPatch: [{}, []],
    mergePatch: [{}, {}],
    resource: ['r', {}],
  }),
  'reprise/agent': of(agents, {
    agent: ['a', {}],
    anthropicModel: [{ model: 'm', apiKey: 'k' }],
    openAIModel: [{ model: 'm', apiKey: 'k' }],
    compareSessions: ['ENGINE', bot, 'a', 'b'],
    groupRecoveryLine: ['ENGINE', bot, ['a'], ['a']],
    mergeBranch: ['ENGINE', bot, 'a', 'b', {}],
    noLoops: [{}],
    withinBudget: [{ tokens: 5 }],
    readCut: ['ENGINE', bot, 'cut'],
    readTurn: ['ENGINE', bot, 'a', { turn: 1 }],
    replaySession: ['ENGINE', bot, 'a'],
    restoreCut: ['ENGINE', bot, 'cut', {}],
    sendDecision: ['ENGINE', 'agent/bot/a', { verdict: 'approve', by: 'ann' }, 'key'],
    tool: [{ kind: 'idempotent', run: () => 1 }],
  }),
  'reprise/pipeline': of(pipelines, {
    average: [() => 1],
    checkPipelines: ['ENGINE', [flow], {}],
    csvSource: ['PATH', {}],
    entrySource: [[account], {}],
    every: [2],
    fileSink: [{ directory: '/tmp/reprise-none', encode: () => '' }],
    generatedSource: [() => 1, {}],
    httpSink: [{ url: 'http://127.0.0.1:9/' }],
    httpSource: ['h', {}],
    iterableSource: [() => [1]],
    jsonLineSource: ['PATH', {}],
    keyValue: [() => 1],
    lineSource: ['PATH', {}],
    listState: [{}],
    mapState: [{}],
    max: [() => 1],
    min: [() => 1],
    pageSource: [() => ({ records: [], next: null }), {}],
    pipeline: ['p', () => undefined, {}],
    printSink: [() => ''],
    reduce: [(a: unknown) => a],
    reducingState: [(a: unknown) => a, {}],
    rowSink: [{ table: 't', row: () => ({}) }],
    sendSink: [async () => undefined, {}],
    session: ['1m'],
    days: ['Europe/Berlin'],
    sliding: ['1m', '10s', {}],
    sqlSink: [{ write: () => undefined }],
    sum: [() => 1],
    tableSink: [{ table: tables.table('t'), write: () => undefined }],
    timelineSink: [{ timeline: 't' }],
    tumbling: ['1m', {}],
    valueSource: [[1]],
    valueState: [{}],
    readPipelineState: ['ENGINE', 'pipeline/flow', 'op', 'key', {}],
    comparePipelineState: ['ENGINE', 'pipeline/flow', 'op', {}],
  }),
}
