// A name that no option has is refused wherever options are given, with the nearest one that there is: a policy that is passed
// over in silence is found out when it is needed.

import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { record } from '../../src/adapters/ai-sdk/index.ts'
import { kafkaSink, kafkaSource } from '../../src/adapters/kafka/index.ts'
import { natsSink, natsSource } from '../../src/adapters/nats/index.ts'
import { postgresCdcSource } from '../../src/adapters/postgres-cdc/index.ts'
import { nearestName } from '../../src/core/options.ts'
import { open, type Reprise, timeline } from '../../src/index.ts'
import { agent, anthropicModel, openAIModel } from '../../src/layers/agent/index.ts'
import { aggregate, processManager, projection, sqlProjection, tableProjection } from '../../src/layers/events/index.ts'
import { consumer, csv, job, jsonLines, lines } from '../../src/layers/job/index.ts'
import * as memos from '../../src/layers/memo/index.ts'
import { migrations } from '../../src/layers/migrate/index.ts'
import * as pipelines from '../../src/layers/pipeline/index.ts'
import * as resources from '../../src/layers/resource/index.ts'
import { save } from '../../src/layers/save/index.ts'
import { pagedTable, stateStore, table } from '../../src/layers/table/index.ts'
import { queue, schedule, workflow } from '../../src/layers/workflow/index.ts'
import { serve } from '../../src/server/index.ts'
import { WorkflowKit } from '../../src/testing/index.ts'

const count = { initial: () => 0, apply: (n: number) => n + 1 }
const account = {
  initial: () => 0,
  evolve: { added: (n: number) => n + 1 },
  decide: { add: () => ({ type: 'added' }) },
}
const counter = timeline('counter', count)
const accounts = aggregate('account', account as never)
const night = { source: ['a'], key: (item: string) => item, each: () => undefined }
const echo = workflow('echo', async (_, n: number) => n)
const totals = { from: [accounts], initial: () => 0, on: {} }

/** By definition or call: the misspelt option, and the intended one. */
type Misspelt = Readonly<Record<string, readonly [make: (wrong: object) => unknown, wrong: object, meant: string]>>

const drawing = (draw: (stream: pipelines.Stream<number>) => unknown) =>
  pipelines.pipeline('p', (p) => void draw(p.from('in', pipelines.valueSource([1]), { time: (n) => n })))
const byKey = (stream: pipelines.Stream<number>) => stream.keyBy((n) => n)
const brokers = ['localhost:9092']
const sites = (rp: Reprise) => rp.open(resources.resource('sites'))

/** Pipelines, memos, servers, brokers: all that came later. */
const connected: Misspelt = {
  pipeline: [(x) => pipelines.pipeline('p', () => undefined, x), { deadLetterMax: 5 }, 'deadLettersMax'],
  'checkpoint of a pipeline': [
    (x) => pipelines.pipeline('p', () => undefined, { checkpoint: x }),
    { evry: '1s' },
    'every',
  ],
  'lines of a pipeline': [(x) => pipelines.lineSource('f', x), { folow: true }, 'follow'],
  'jsonLines of a pipeline': [(x) => pipelines.jsonLineSource('f', x), { folow: true }, 'follow'],
  'csv of a pipeline': [(x) => pipelines.csvSource('f', x), { seperator: ';' }, 'separator'],
  entries: [(x) => pipelines.entrySource([counter], x), { folow: true }, 'follow'],
  paged: [(x) => pipelines.pageSource(async () => ({ items: [], next: null }), x), { timeot: 5 }, 'timeout'],
  'retry of pages': [
    (x) => pipelines.pageSource(async () => ({ items: [], next: null }), { retry: x }),
    { atempts: 5 },
    'attempts',
  ],
  httpSource: [(x) => pipelines.httpSource('s', x), { byteMax: 5 }, 'bytesMax'],
  httpSink: [(x) => pipelines.httpSink({ url: 'http://localhost', ...x }), { timeot: 5 }, 'timeout'],
  'retry of an httpSink': [
    (x) => pipelines.httpSink({ url: 'http://localhost', retry: x }),
    { atempts: 5 },
    'attempts',
  ],
  send: [(x) => pipelines.sendSink(async () => 1, x), { concurency: 5 }, 'concurrency'],
  'rate of send': [(x) => pipelines.sendSink(async () => 1, { rate: x as never }), { mx: 5 }, 'max'],
  files: [(x) => pipelines.fileSink({ folder: 'f', ...x }), { extention: '.txt' }, 'extension'],
  tableSink: [
    (x) => pipelines.tableSink({ table: table('t'), write: () => undefined, ...x } as never),
    { tabel: 1 },
    'table',
  ],
  timelineSink: [
    (x) => pipelines.timelineSink({ timeline: counter, id: () => 'a', entry: () => ({ type: 'x' }), ...x } as never),
    { entri: 1 },
    'entry',
  ],
  resource: [(x) => resources.resource('r', x), { shema: 1 }, 'schema'],
  'retain of a resource': [(x) => resources.resource('r', { retain: x }), { dayly: 5 }, 'daily'],
  informer: [(x) => resources.informer('i', { of: resources.resource('r'), ...x }), { indexs: {} }, 'indexes'],
  'retry of an informer': [
    (x) => resources.informer('i', { of: resources.resource('r'), retry: x }),
    { atempts: 5 },
    'attempts',
  ],
  controller: [
    (x) => resources.controller('c', { watch: [resources.resource('r')], reconcile: () => undefined, ...x }),
    { concurency: 5 },
    'concurrency',
  ],
  'watch of a controller': [
    (x) =>
      resources.controller('c', {
        watch: [{ of: resources.resource('r'), ...x }],
        reconcile: () => undefined,
      } as never),
    { concern: 1 },
    'concerns',
  ],
  garbageCollector: [(x) => resources.garbageCollector([{ kind: 'a' }], x), { onproblem: 1 }, 'onProblem'],
  memo: [(x) => memos.memo('m', { version: 1, run: () => 1, ...x }), { cachBytes: 5 }, 'cacheBytes'],
  'retry of a memo': [(x) => memos.memo('m', { version: 1, run: () => 1, retry: x }), { atempts: 5 }, 'attempts'],
  'keep of a memo': [(x) => memos.memo('m', { version: 1, run: () => 1, keep: x }), { unusd: '1d' }, 'unused'],
  command: [(x) => memos.command('c', { cmd: 'true', inputs: [], ...x }), { outptus: [] }, 'outputs'],
  kafka: [(x) => kafkaSource({ brokers, topic: 't', ...x }), { discovr: '1s' }, 'discover'],
  kafkaSink: [(x) => kafkaSink({ brokers, topic: 't', ...x }), { expird: 'skip' }, 'expired'],
  nats: [(x) => natsSource({ servers: 's', stream: 's', ...x }), { strat: 'oldest' }, 'start'],
  natsSink: [(x) => natsSink({ servers: 's', stream: 's', message: 'm', ...x }), { atomc: false }, 'atomic'],
  postgresCdc: [(x) => postgresCdcSource({ url: 'u', ...x }), { snapshoot: false }, 'snapshot'],
  recorder: [(x) => record('r', x), { similarCall: 'new' }, 'similarCalls'],
}

const definitions: Misspelt = {
  timeline: [(x) => timeline('t', { ...count, ...x }), { chekpoint: {} }, 'checkpoint'],
  'checkpoint of a timeline': [(x) => timeline('t', { ...count, checkpoint: x }), { evry: 5 }, 'every'],
  'retain of a timeline': [(x) => timeline('t', { ...count, retain: x }), { checkpoint: 5 }, 'checkpoints'],
  'history that is kept': [(x) => timeline('t', { ...count, retain: { history: x as never } }), { fr: '1d' }, 'for'],
  aggregate: [(x) => aggregate('a', { ...account, ...x } as never), { retian: {} }, 'retain'],
  'checkpoint of an aggregate': [(x) => aggregate('a', { ...account, checkpoint: x } as never), { evry: 5 }, 'every'],
  table: [(x) => table('t', x), { tll: '1s' }, 'ttl'],
  'checkpoint of a table': [(x) => table('t', { checkpoint: x }), { evry: 5 }, 'every'],
  pagedTable: [(x) => pagedTable('t', x), { cachBytes: 5 }, 'cacheBytes'],
  'retain of a paged table': [(x) => pagedTable('t', { retain: x }), { dayly: 5 }, 'daily'],
  stateStore: [(x) => stateStore('s', { partitions: 1, ...x }), { partition: 2 }, 'partitions'],
  'checkpoint of a state store': [(x) => stateStore('s', { partitions: 1, checkpoint: x }), { evry: 5 }, 'every'],
  save: [(x) => save('s', x), { keeps: 5 }, 'keep'],
  job: [(x) => job('j', { ...night, ...x }), { concurency: 5 }, 'concurrency'],
  'checkpoint of a job': [(x) => job('j', { ...night, checkpoint: x }), { evry: 5 }, 'every'],
  'retain of a job': [(x) => job('j', { ...night, retain: x }), { hourli: 5 }, 'hourly'],
  'retry of a job': [(x) => job('j', { ...night, retry: x }), { atempts: 5 }, 'attempts'],
  'batch of a job': [
    (x) => job('j', { ...night, each: undefined, eachBatch: () => undefined, batch: x }),
    { siz: 5 },
    'size',
  ],
  consumer: [(x) => consumer('c', { from: [accounts], each: () => undefined, ...x }), { folow: true }, 'follow'],
  'checkpoint of a consumer': [
    (x) => consumer('c', { from: [accounts], each: () => undefined, checkpoint: x }),
    { evry: 5 },
    'every',
  ],
  workflow: [(x) => workflow('w', async () => 1, x), { timeot: '1s' }, 'timeout'],
  'checkpoint of a workflow': [(x) => workflow('w', async () => 1, { checkpoint: x }), { evry: 5 }, 'every'],
  'retain of a workflow': [(x) => workflow('w', async () => 1, { retain: x }), { chckpoints: 5 }, 'checkpoints'],
  'durability of a workflow': [
    (x) => workflow('w', async () => 1, { durability: x as never }),
    { windows: 5 },
    'window',
  ],
  queue: [(x) => queue('q', x), { concurency: 5 }, 'concurrency'],
  schedule: [(x) => schedule('s', { workflow: echo, input: 1, every: '1h', ...x }), { timezon: 'UTC' }, 'timezone'],
  projection: [(x) => projection('p', { ...totals, ...x } as never), { chekpoint: {} }, 'checkpoint'],
  'checkpoint of a projection': [(x) => projection('p', { ...totals, checkpoint: x } as never), { evry: 5 }, 'every'],
  sqlProjection: [(x) => sqlProjection('p', { from: [accounts], on: {}, ...x } as never), { setpu: 1 }, 'setup'],
  tableProjection: [
    (x) => tableProjection('p', { from: [accounts], into: table('x'), on: {}, ...x } as never),
    { poisn: 1 },
    'poison',
  ],
  processManager: [
    (x) => processManager('p', { from: [accounts], on: {}, ...x } as never),
    { onRefuse: 1 },
    'onRefused',
  ],
  agent: [(x) => agent('a', x), { stepMax: 5 }, 'stepsMax'],
  'checkpoint of an agent': [(x) => agent('a', { checkpoint: x }), { evry: 5 }, 'every'],
  openAIModel: [(x) => openAIModel({ model: 'm', ...x }), { apikey: 'k' }, 'apiKey'],
  anthropicModel: [(x) => anthropicModel({ model: 'm', ...x }), { maxToken: 5 }, 'maxTokens'],
  migrations: [(x) => migrations('m', { steps: [], ...x }), { retri: {} }, 'retry'],
  lines: [(x) => lines('f', x), { gzp: true }, 'gzip'],
  jsonLines: [(x) => jsonLines('f', x), { malforme: 'skip' }, 'malformed'],
  csv: [(x) => csv('f', x), { seperator: ';' }, 'separator'],
  ...connected,
  WorkflowKit: [(x) => new WorkflowKit(x), { startsAt: 5 }, 'startAt'],
}

const refused = (meant: string) =>
  expect.objectContaining({
    code: 'INVALID_ARGUMENT',
    message: expect.stringContaining(`did you mean ${meant}?`),
    data: expect.objectContaining({ use: meant }),
  })

describe('a misspelt option of a definition', () => {
  it.each(Object.entries(definitions))('%s', (_, [make, wrong, meant]) => {
    let thrown: unknown = null
    try {
      make(wrong)
    } catch (error) {
      thrown = error
    }
    expect(thrown).toEqual(refused(meant))
  })
})

describe('a misspelt option of a call', () => {
  let rp: Reprise
  beforeAll(async () => {
    rp = await open('memory:', { housekeeping: false, log: false })
  })
  afterAll(() => rp.close())

  const ran = (draw: Parameters<typeof drawing>[0]) => rp.run(drawing(draw)).result()
  const calls: Misspelt = {
    open: [(x) => rp.open(counter, 'a', x), { takover: true }, 'takeover'],
    'run of a job': [(x) => rp.run(job('j', night), x), { signl: 1 }, 'signal'],
    'run of a workflow': [(x) => rp.run(echo, 1, x), { ifExist: 'new' }, 'ifExists'],
    'run of migrations': [(x) => rp.run(migrations('m', { steps: [] }), x), { dryrun: true }, 'dryRun'],
    rollback: [(x) => rp.rollback({ to: { timeline: 'counter/a', seq: 0 }, ...x }), { takover: true }, 'takeover'],
    savepoint: [(x) => rp.savepoint({ timeline: 'counter/a', seq: 0 }, x), { lable: 'x' }, 'label'],
    export: [(x) => rp.export({ timeline: 'counter/a', seq: 0 }, 'f', x), { stateonly: true }, 'stateOnly'],
    import: [(x) => rp.import('f', x), { orsame: true }, 'orSame'],
    move: [(x) => rp.move('counter/a', 'f', x), { takeOver: true }, 'takeover'],
    follow: [(x) => rp.follow(counter, 'a', x), { signl: 1 }, 'signal'],
    send: [(x) => rp.send('counter/a', 'k', 1, x), { kee: 'x' }, 'key'],
    collect: [(x) => rp.collect(x), { dryrun: true }, 'dryRun'],
    verify: [(x) => rp.verify(x), { repiar: true }, 'repair'],
    drill: [(x) => rp.drill(x), { timeline: ['counter/a'] }, 'timelines'],
    rekey: [(x) => rp.rekey(x), { signl: 1 }, 'signal'],
    backup: [(x) => rp.backup('f', x), { onprogress: 1 }, 'onProgress'],
    restore: [(x) => rp.restore('f', x), { onprogress: 1 }, 'onProgress'],
    delete: [(x) => rp.delete('counter/a', x), { dryrun: true }, 'dryRun'],
    erase: [(x) => rp.erase('counter/a', x), { dryrun: true }, 'dryRun'],
    eraseEntries: [(x) => rp.eraseEntries('counter/a', x), { were: {} }, 'where'],
    list: [(x) => rp.list(x), { prefx: 'counter/' }, 'prefix'],
    log: [(x) => rp.log(x), { timelin: 'x' }, 'timeline'],
    feed: [(x) => rp.feed('' as never, x), { prefix: ['x'] }, 'prefixes'],
    'groups.capture': [(x) => rp.groups.capture('c', [], x), { timout: 5 }, 'timeout'],
    append: [async (x) => (await rp.open(counter, 'b')).append({ type: 'x' }, x), { kye: 'k' }, 'key'],
    effect: [async (x) => (await rp.open(counter, 'b')).effects.run('e', () => 1, x), { inDoutb: 'ask' }, 'inDoubt'],
    do: [
      async (x) => (await rp.open(accounts, 'a')).do('add' as never, undefined as never, x as never),
      { expct: 1 },
      'expect',
    ],
    set: [async (x) => (await rp.open(table<number>('rows'))).set('k', 1, x), { tll: 5 }, 'ttl'],
    put: [async (x) => (await rp.open(save<number>('s'), 'a')).put(1, x), { lable: 'x' }, 'label'],
    result: [async (x) => (await rp.run(echo, 1)).result(x), { timeot: 5 }, 'timeout'],
    signal: [async (x) => (await rp.run(echo, 1)).signal('s', 1, x), { kye: 'k' }, 'key'],
    update: [async (x) => (await rp.run(echo, 1)).update('u', 1, x), { timeot: 5 }, 'timeout'],
    turn: [async (x) => (await rp.open(agent('g'), 'a')).turn('hi', x), { signl: 1 }, 'signal'],
    rescale: [(x) => stateStore('s', { partitions: 1 }).rescale(rp, x), { onprogress: 1 }, 'onProgress'],
    'run of a pipeline': [
      (x) =>
        rp
          .run(
            drawing(() => undefined),
            x,
          )
          .result(),
      { takover: true },
      'takeover',
    ],
    'changes of a pipeline': [
      (x) =>
        rp
          .run(
            drawing(() => undefined),
            { changes: x },
          )
          .result(),
      { renam: {} },
      'rename',
    ],
    'from of a pipeline': [
      (x) =>
        rp
          .run(
            pipelines.pipeline('p', (p) => void p.from('in', pipelines.valueSource([1]), x)),
            {},
          )
          .result(),
      { outOfOder: 5 },
      'outOfOrder',
    ],
    'call of a pipeline': [(x) => ran((s) => s.call('c', async () => 1, x)), { concurency: 5 }, 'concurrency'],
    'retry of a call': [(x) => ran((s) => s.call('c', async () => 1, { retry: x })), { atempts: 5 }, 'attempts'],
    window: [(x) => ran((s) => byKey(s).window('w', pipelines.tumbling('1s'), x)), { erly: '1s' }, 'early'],
    'window by count': [(x) => ran((s) => byKey(s).window('w', pipelines.every(5), x)), { wthin: 5 }, 'within'],
    process: [(x) => ran((s) => byKey(s).process('p', { onRecord: () => undefined, ...x })), { onTime: 1 }, 'onTimer'],
    dedupe: [(x) => ran((s) => byKey(s).dedupe('d', { within: '1s', ...x })), { withn: 5 }, 'within'],
    recall: [
      async (x) => (await rp.open(memos.memo('r', { version: 1, run: () => 1 }))).recall([], x),
      { refrsh: true },
      'refresh',
    ],
    'run of a command': [
      async (x) => (await rp.open(memos.command('true', { cmd: 'true', inputs: [] }))).run(x),
      { onoutput: 1 },
      'onOutput',
    ],
    create: [async (x) => (await sites(rp)).create({ name: 'a', spec: 1, ...x }), { lables: {} }, 'labels'],
    report: [
      async (x) => (await sites(rp)).report({ name: 'a', observedGeneration: 1, ...x }),
      { condition: [] },
      'conditions',
    ],
    'list of a resource': [async (x) => (await sites(rp)).list(x), { lables: 'a' }, 'labels'],
    watch: [async (x) => (await sites(rp)).watch(x), { form: 1 }, 'from'],
    'delete of an object': [async (x) => (await sites(rp)).delete('a', x), { revison: 1 }, 'revision'],
    'change of an object': [async (x) => (await sites(rp)).change('a', () => ({}), x), { revison: 1 }, 'revision'],
    serve: [(x) => serve(rp, { tokens: [], ...x }), { readonly: true }, 'readOnly'],
    'limits of serve': [(x) => serve(rp, { tokens: [], limits: x }), { openTimeline: 5 }, 'openTimelines'],
    'tools of a recorder': [
      async (x) =>
        (await rp.open(record('tools'), 'a')).tools(
          { look: { execute: async () => 1 } as never },
          { look: { kind: 'idempotent', ...x } },
        ),
      { indoubt: 'retry' },
      'inDoubt',
    ],
    close: [(x) => rp.close(x), { graze: 5 }, 'grace'],
  }

  it.each(Object.entries(calls))('%s', async (_, [call, wrong, meant]) => {
    await expect((async () => await call(wrong))()).rejects.toEqual(refused(meant))
  })

  it('in the code of a workflow fails the run', async () => {
    const codes = {
      timeot: workflow('waits', async (ctx) => await ctx.signal('go', { timeot: 5 } as never)),
      whenCanceled: workflow('parent', async (ctx) => await ctx.child(echo, 1, { whenCanceled: 'abandon' } as never)),
      loser: workflow('races', async (ctx) => await ctx.race([async () => 1], { loser: 'undo' } as never)),
      retri: workflow('steps', async (ctx) => await ctx.step('s', () => 1, { retri: {} } as never)),
    }
    for (const [wrong, code] of Object.entries(codes)) {
      await expect((await rp.run(code)).result()).rejects.toThrow(`unknown option ${wrong}`)
    }
  })
})

it('a name that was changed is answered with the new one', () => {
  const named = (make: () => unknown, now: string) =>
    expect(make).toThrow(expect.objectContaining({ message: expect.stringContaining(`it is called ${now}`) }))
  named(() => memos.memo('m', { version: 1, run: () => 1, memoryBytes: 5 } as never), 'cacheBytes')
  named(() => pipelines.pipeline('p', () => undefined, { deadLetters: 5 } as never), 'deadLettersMax')
  named(() => pipelines.pipeline('p', () => undefined, { timeout: 5 } as never), 'checkpointTimeout')
})

it('the nearest name is within a third of the letters, and none is named where nothing is near', () => {
  const known = ['every', 'first', 'each', 'recoverWithin', 'failureEvery', 'on']
  expect(['evry', 'evrey', 'EVERY', 'recoverwithin', 'no'].map((name) => nearestName(name, known))).toEqual([
    'every',
    'every',
    'every',
    'recoverWithin',
    'on',
  ])
  expect(['interval', 'maximum', ''].map((name) => nearestName(name, known))).toEqual([null, null, null])
})
