// Everything that the command line can do, the API can do as well, or there is a reason: every verb of the one is held against
// the routes of the other.

import { expect, it } from 'vitest'
import { commands } from '../../src/cli/commands.ts'
import { routes } from '../../src/server/routes/index.ts'

/** Each verb of the command line: its routes, or why it has none. */
const verbs: Readonly<Record<string, readonly string[] | string>> = {
  run: ['startRun', 'awaitResult', 'listDefinitions'],
  ls: ['listTimelines', 'listRuns'],
  show: ['showTimeline'],
  log: ['readHistory', 'readLog'],
  tail: ['readFeed', 'followFeed'],
  checkpoints: ['listCheckpoints'],
  at: ['stateAt'],
  diff: ['diffStates'],
  fork: ['fork'],
  rollback: ['planRollback', 'rollback'],
  savepoint: ['savepoint', 'releaseSavepoint'],
  export: ['exportTimeline', 'exportProgress'],
  import: ['importTimeline', 'importProgress'],
  verify: ['verify', 'verifying'],
  drill: ['drill'],
  prune: ['collect'],
  dead: ['listDeadLetters', 'listAllDeadLetters', 'discard'],
  redrive: ['redrive'],
  workers: ['listWorkers'],
  queues: ['listQueues'],
  signal: ['signal'],
  stop: ['stop'],
  cancel: ['cancel'],
  terminate: ['terminate'],
  retry: ['retry'],
  rerun: ['rerun', 'listSteps'],
  settle: ['settle', 'settleEffect'],
  decide: ['decide'],
  card: ['recoveryCard'],
  explain: ['explainError', 'listErrors'],
  query: ['query'],
  update: ['update'],
  mark: ['markCheckpoint'],
  effects: ['listEffects'],
  consumers: ['listConsumers'],
  saves: ['listCheckpoints'],
  schedules: ['listSchedules'],
  doctor: ['doctor'],
  link: ['makeLink'],
  upload: ['aboutUploads', 'createUpload', 'appendUpload', 'deleteUpload'],
  download: ['readUpload'],
  changes: 'a server does not open a store whose restore has not finished; doctor and verify list the others',
  init: 'writes files for a person',
  demo: 'runs on a store of its own',
  work: 'is a process: reprise serve --work is one',
  resume: 'is a process: reprise serve --work goes on with what is unfinished',
  serve: 'is the server',
  dev: 'is the server',
  mcp: 'is a server for other clients, of the same operations',
  check: 'needs code that the server does not run',
  resource: 'is served by the routes of Kubernetes and by typed clients',
  config: 'is served by the stream of configurations; a rollout is a decision for a person at the machine',
  lint: 'reads code that the server does not run',
  advise: 'asks a person',
  completion: 'is for a shell',
  cache: 'runs commands of the machine',
  exec: 'runs commands of the machine',
  state: 'reads what only the code of a pipeline can read',
  rebuild: 'needs the code of a projection, in a process of its own',
  group: 'acts on many timelines at once: a decision for a person at the machine',
  shards: 'takes addresses with the passwords of databases, which stay on the machine',
  move: 'goes to a file or store of the machine',
  tiers: ['listTiers'],
  backup: 'goes to a file of the machine',
  ship: 'runs until it is stopped, to places with keys of the machine',
  restore: 'comes from a file of the machine',
  keys: 'tells of keys, which stay on the machine',
  rekey: 'needs keys, which stay on the machine',
  incarnate: 'declares what happened to the database, by those who operate it',
  delete: 'cannot be taken back: a decision for a person at the machine',
  erase: 'cannot be taken back: a decision for a person at the machine',
  'give-up': 'cannot be taken back: a decision for a person at the machine',
}

it('each verb of the command line has its routes, or a reason why it has none', () => {
  const known = new Set(routes.map(({ id }) => id))
  for (const { name } of commands) {
    const has = verbs[name]
    expect([name, has === undefined]).toEqual([name, false])
    if (Array.isArray(has)) expect([name, has.filter((id) => !known.has(id))]).toEqual([name, []])
  }
})

it('each route is a verb of the command line, or is listed here', () => {
  const own = [
    ...['health', 'ready', 'metrics', 'about', 'document', 'beginSession', 'append', 'takeLease', 'renewLease'],
    ...['releaseLease', 'putCheckpoint', 'getCheckpoint', 'listRemote', 'startRemoteJob', 'claimRemote'],
    ...['heartbeatRemote', 'settleRemote', 'mcp', 'mcpStream'],
    // The requests of clients of a configuration, and of its publisher.
    ...routes.filter(({ tag }) => tag === 'configs').map(({ id }) => id),
    // The requests of Kubernetes clients.
    ...routes.filter(({ tag }) => tag === 'kubernetes').map(({ id }) => id),
    // The requests of build tools.
    ...routes.filter(({ tag }) => tag === 'caches').map(({ id }) => id),
    // The requests of the dashboard.
    ...['search', 'listRelatives', 'storage', 'showFlow', 'listCaches', 'listSettings'],
  ]
  const named = new Set([...Object.values(verbs).flatMap((has) => (Array.isArray(has) ? has : [])), ...own])
  expect(routes.map(({ id }) => id).filter((id) => !named.has(id))).toEqual([])
})
