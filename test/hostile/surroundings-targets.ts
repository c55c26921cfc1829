// The verbs of the entries around the engine, with valid arguments: transactions of an application, serverless functions, any
// program, and the tools of a store.

import { join } from 'node:path'
import { DatabaseSync } from '@photostructure/sqlite'
import * as amqp from '../../src/adapters/amqp/index.ts'
import * as redis from '../../src/adapters/redis/index.ts'
import * as serverless from '../../src/adapters/serverless/index.ts'
import * as sqs from '../../src/adapters/sqs/index.ts'
import { sha256 } from '../../src/engine/base/platform.ts'
import { open } from '../../src/index.ts'
import * as programs from '../../src/layers/exec/index.ts'
import { itemQueue } from '../../src/layers/job/index.ts'
import { workflow } from '../../src/layers/workflow/index.ts'
import * as stores from '../../src/store.ts'
import { openMemory } from '../../src/stores/memory/index.ts'
import * as tools from '../../src/tools.ts'
import * as transactions from '../../src/within.ts'
import { counter, type Target } from './verb-targets.ts'

const greet = workflow('greet', async () => 1)
const target = { url: 'http://127.0.0.1:9/', secret: 'a secret of 25 letters.' }
const amqpOptions = { url: 'amqp://127.0.0.1:9', queue: 'q' }
const redisOptions = { url: 'redis://127.0.0.1:9', stream: 's', group: 'g' }
const sqsOptions = { url: 'http://127.0.0.1:9/000000000000/q' }
const invocation = { open: () => open('memory:'), work: [greet], budget: 1, idle: 1 }
const route = { ...invocation, secret: 'secret' }

/** The application's own connection to the store of the engine that was opened for this id. */
const connection = (folder: string, id: string) => new DatabaseSync(join(folder, `${id.slice(1)}.db`))

export const surroundings: Readonly<Record<string, Target>> = {
  Within: {
    store: 'sqlite',
    open: (rp, id, folder) => transactions.within(rp, connection(folder, id)),
    calls: {
      run: [greet, {}],
      signal: [greet, 'a', 'paid', 1, {}],
      cancel: [greet, 'a', {}],
      send: ['counter/a', 'hello', 1, {}],
      append: [counter, 'a', { type: 'added', by: 1 }, {}],
      items: [itemQueue('mails'), [1], {}],
    },
  },
  Enlisted: {
    store: 'sqlite',
    open: (rp, id, folder) => transactions.within(rp, connection(folder, id)).run(greet),
    calls: { started: [{}] },
  },
  ExecRun: {
    open: (rp, id, folder) =>
      rp.run(programs.exec(id, { command: ['sleep', '5'], state: join(folder, id), grace: 1, when: 'word' })),
    calls: {
      started: [{}],
      result: [{}],
      status: [],
      stop: [{}],
      signal: ['SIGTERM'],
      checkpoint: [{}],
      savepoint: [{}],
    },
  },
  Wakes: { open: (rp) => serverless.pushWakes(rp, target), calls: { settled: [], close: [] } },
}

export const surroundingDefiners: Readonly<Record<string, Target>> = {
  'reprise/within': { open: () => transactions, calls: { within: ['ENGINE', {}] } },
  'reprise/exec': { open: () => programs, calls: { exec: ['e', { command: ['true'], state: '/tmp/reprise-none' }] } },
  'reprise/store': {
    open: () => stores,
    calls: { createEngine: [{ store: openMemory({ namespace: 'default', hash: sha256, readOnly: false }) }, {}] },
  },
  'reprise/tools': {
    open: () => tools,
    calls: {
      housekeepingRound: ['ENGINE', {}, new AbortController().signal],
      housekeepingState: ['ENGINE'],
      renewStore: ['sqlite:PATH', { dryRun: true }],
      restoreShipped: ['FOLDER', 'sqlite:PATH', {}],
    },
  },
  'reprise/amqp': { open: () => amqp, calls: { amqpBroker: [amqpOptions], amqpQueue: [amqpOptions] } },
  'reprise/redis': { open: () => redis, calls: { redisBroker: [redisOptions], redisQueue: [redisOptions] } },
  'reprise/sqs': { open: () => sqs, calls: { sqsBroker: [sqsOptions], sqsQueue: [sqsOptions] } },
  'reprise/serverless': {
    open: () => serverless,
    calls: {
      cloudflareHandler: [() => route],
      lambdaHandler: [invocation],
      pushWakes: ['ENGINE', target],
      routeHandler: [route],
      signWake: ['secret', '{}', 1],
      verifyWake: ['secret', 'signature', '{}', {}],
    },
  },
}
