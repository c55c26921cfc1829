// Workflows against their limits: the rate of durable steps as a share of the bare store's commit rate, the processor time and
// bytes of a run, and the speed of recovering runs. Names and targets are those of the issue that asked for them.

import { execFileSync, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { open } from '../dist/index.js'
import { workflow } from '../dist/layers/workflow/index.js'
import { createEngine } from '../dist/store.js'
import { pair, perSecond } from './measure.mjs'
import { serverCpu } from './support/server-cpu.mjs'
import { bareSqlite, benchPostgres, sizeOf, temporaryFolder } from './support/stores.mjs'
import { versusBenches } from './support/workflow-versus.mjs'

setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc')

const scale = Number(process.env.REPRISE_BENCH_SCALE ?? 1)
const times = (count) => Math.max(1, Math.round(count * scale))
const payload = Buffer.alloc(60, 'x')

const steps = workflow('steps', async (ctx, count) => {
  for (let i = 0; i < count; i++) await ctx.step('s', () => i)
  return count
})

const three = workflow('three', async (ctx, n) => {
  const a = await ctx.step('a', () => n + 1)
  const b = await ctx.step('b', () => a + 1)
  return await ctx.step('c', () => b + 1)
})

const sleeper = workflow('sleeper', async (ctx) => {
  await ctx.sleep('30d')
})

const looping = workflow(
  'looping',
  async (ctx, to) =>
    await ctx.loop({ n: 0 }, async ({ n }, own) => {
      if (n === to) return own.stop(n)
      if (n === to - 1) await own.signal('go')
      return { n: n + 1 }
    }),
  { durability: { window: 20 } },
)

async function withSqlite(body) {
  const place = temporaryFolder()
  const rp = await open(`sqlite:${place.path('ours.db')}`)
  try {
    return await body(rp, place)
  } finally {
    await rp.close()
    place.remove()
  }
}

const stepsSequential = async ({ index }) =>
  await withSqlite(async (rp, place) => {
    const bare = await bareSqlite(place.path('bare.db'))
    const count = 200
    const rounds = times(3)
    // Long enough for the compiler to have optimised the code, as in the kernel's benches: the steady state is measured.
    for (let i = 0; i < 10; i++) await (await rp.run(steps, count)).result()
    for (let i = 0; i < 2000; i++) bare.insert.run(1, i, payload)
    try {
      return await pair({
        value: () =>
          perSecond(count * rounds, async () => {
            for (let i = 0; i < rounds; i++) await (await rp.run(steps, count)).result()
          }),
        baseline: () =>
          perSecond(count * rounds, () => {
            for (let i = 0; i < count * rounds; i++) bare.insert.run(1, i, payload)
          }),
      })({ index })
    } finally {
      bare.db.close()
    }
  })

/** Processor time of this process, in ms, without the store's server. */
async function timed(work) {
  const before = process.cpuUsage()
  const startedAt = performance.now()
  await work()
  const { user, system } = process.cpuUsage(before)
  return { elapsedMs: performance.now() - startedAt, cpuMs: (user + system) / 1000 }
}

const ours = {
  runsThreeSteps: (rp, count) =>
    timed(async () => {
      await Promise.all(
        Array.from({ length: count }, async (_, i) => {
          const result = await (await rp.run(three, i)).result()
          if (result !== i + 3) throw new Error(`run ${i} gave ${result}`)
        }),
      )
    }),
  stepsSequential: (rp, count) => timed(async () => await (await rp.run(steps, count)).result()),
}

async function runsThreeSteps(rp, count) {
  const { elapsedMs, cpuMs } = await ours.runsThreeSteps(rp, count)
  return { value: cpuMs / count, details: { runsPerSecond: Math.round((count * 1000) / elapsedMs) } }
}

let coldPlace
const coldProgram = fileURLToPath(new URL('./support/cold-process.mjs', import.meta.url))
const coldMs = async (kind) =>
  Number(execFileSync(process.execPath, [coldProgram, kind, coldPlace.path(`${kind}.db`)], { encoding: 'utf8' }))

async function bytesPerStep() {
  return await withSqlite(async (rp, place) => {
    const size = () => sizeOf(place.path('ours.db')) + sizeOf(place.path('ours.db-wal'))
    await (await rp.run(steps, 100)).result()
    const checkpoint = async () => (await bareSqlite(place.path('ours.db'))).db.exec('PRAGMA wal_checkpoint(TRUNCATE)')
    await checkpoint()
    const before = size()
    const count = times(5000)
    await (await rp.run(steps, count)).result()
    await checkpoint()
    return { value: (size() - before) / count }
  })
}

async function recoverInFlight() {
  const place = temporaryFolder()
  const program = fileURLToPath(new URL('./support/workflow-worker.mjs', import.meta.url))
  const url = `sqlite:${place.path('ours.db')}`
  const count = 200
  try {
    const first = fork(program, [url, String(count), 'start'], { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] })
    await once(first, 'message')
    first.kill('SIGKILL')
    await once(first, 'exit')
    const second = fork(program, [url, String(count), 'resume'], { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] })
    const [report] = await once(second, 'message')
    await once(second, 'exit')
    if (report.resumed !== count) throw new Error(`${report.resumed} of ${count} came back`)
    return { value: report.ms / 1000 }
  } finally {
    place.remove()
  }
}

/** From the kill to the moment at which another host executes all of them. */
async function takeOverElsewhere() {
  const server = await benchPostgres()
  if (!server) return { skip: 'no PostgreSQL here' }
  const program = fileURLToPath(new URL('./support/workflow-worker.mjs', import.meta.url))
  const stdio = ['ignore', 'ignore', 'inherit', 'ipc']
  const count = 200
  try {
    const first = fork(program, [server.url, String(count), 'start', 'host-a'], { stdio })
    await once(first, 'message')
    const second = fork(program, [server.url, String(count), 'wait', 'host-b'], { stdio })
    await once(second, 'message')
    await new Promise((resolve) => setTimeout(resolve, 1000))
    const killedAt = performance.now()
    first.kill('SIGKILL')
    const [report] = await once(second, 'message')
    const value = (performance.now() - killedAt) / 1000
    await once(second, 'exit')
    if (report.resumed !== count) throw new Error(`${report.resumed} of ${count} came back`)
    return { value }
  } finally {
    await server.stop()
  }
}

async function sleepingRuns() {
  return await withSqlite(async (rp) => {
    const count = times(100_000)
    const start = async (from, to) => {
      for (let i = from; i < to; i += 500) {
        await Promise.all(Array.from({ length: Math.min(500, to - i) }, (_, k) => rp.run(sleeper, { id: `s${i + k}` })))
      }
      await new Promise((resolve) => setTimeout(resolve, 500))
      collectGarbage()
      return process.memoryUsage().heapUsed
    }
    await start(0, Math.ceil(count / 10))
    const before = await start(Math.ceil(count / 10), Math.ceil(count / 5))
    const after = await start(Math.ceil(count / 5), count)
    return { value: (after - before) / 1024 / 1024, details: { heapMb: Math.round(after / 1024 / 1024), runs: count } }
  })
}

let loopPlace
async function loopSetup() {
  loopPlace = temporaryFolder()
  const rp = await open(`sqlite:${loopPlace.path('ours.db')}`)
  const run = await rp.run(looping, times(1_000_000), { id: 'l' })
  while ((await run.status()).status !== 'waiting') await new Promise((resolve) => setTimeout(resolve, 100))
  await rp.close()
}

async function loopRecovery() {
  const startedAt = performance.now()
  const rp = await open(`sqlite:${loopPlace.path('ours.db')}`)
  const { seq } = await rp.head('workflow/looping/l')
  const report = await rp.card('workflow/looping/l').catch(() => null)
  const run = await rp.run(looping, 0, { id: 'l' })
  await run.state()
  const value = performance.now() - startedAt
  await rp.close()
  return { value, details: { entries: seq, card: report ? 1 : 0 } }
}

/** Calls to the store while nothing happens: each is one statement. */
async function idleLoad() {
  const server = await benchPostgres()
  if (!server) return { skip: 'no PostgreSQL here' }
  const { openPostgres } = await import('../dist/stores/postgres/index.js')
  const { sha256 } = await import('../dist/engine/base/platform.js')
  const store = await openPostgres(server.url, { namespace: 'idle', schema: `bench_${Date.now()}`, hash: sha256 })
  let calls = 0
  const counted = new Proxy(store, {
    get(target, name) {
      const member = Reflect.get(target, name, target)
      if (typeof member !== 'function') return member
      return (...args) => {
        calls += 1
        return member.apply(target, args)
      }
    },
  })
  const rp = createEngine({ store: counted })
  rp.work([steps, three])
  await new Promise((resolve) => setTimeout(resolve, 2000))
  calls = 0
  const seconds = 10
  await new Promise((resolve) => setTimeout(resolve, seconds * 1000))
  const value = calls / seconds
  await rp.close()
  await server.stop()
  return { value }
}

async function postgresRuns() {
  const server = await benchPostgres()
  if (!server) return { skip: 'no PostgreSQL here' }
  const rp = await open(server.url, { namespace: `bench-${Date.now()}` })
  try {
    await runsThreeSteps(rp, 300)
    const count = times(1000)
    const cpu = await serverCpu(server.url)
    const before = cpu?.() ?? 0
    const { value, details } = await runsThreeSteps(rp, count)
    const serverMs = ((cpu?.() ?? 0) - before) / count
    return { value: value + serverMs, details: { ...details, serverMs } }
  } finally {
    await rp.close()
    await server.stop()
  }
}

export default [
  {
    name: 'steps-sequential',
    unit: 'steps/s',
    target: { ratioMin: 0.8 },
    note: 'one run, each step durable before the next',
    run: stepsSequential,
  },
  {
    name: 'runs-3-steps-sqlite',
    unit: 'CPU ms/run',
    target: { valueMax: 0.2 },
    note: '1,000 runs of three durable steps at once',
    run: () =>
      withSqlite(async (rp) => {
        await runsThreeSteps(rp, times(1000))
        return await runsThreeSteps(rp, times(1000))
      }),
  },
  {
    name: 'runs-3-steps-postgres',
    unit: 'CPU ms/run',
    target: { valueMax: 0.4 },
    note: 'this process and, where it can be seen, the server',
    run: postgresRuns,
  },
  {
    name: 'recover-200-inflight',
    unit: 's',
    target: { valueMax: 0.3 },
    note: 'kill -9, then a new process on the same host',
    run: recoverInFlight,
  },
  {
    name: 'takeover-another-host',
    unit: 's',
    target: { valueMax: 2 },
    note: 'kill -9 of a worker with 200 runs in flight, on PostgreSQL; its lease would last ten minutes',
    run: takeOverElsewhere,
  },
  {
    name: 'cold-200-steps',
    unit: 'CPU ms',
    note: 'a process that imports, opens an existing file and makes 200 steps; beside it one with 200 bare inserts',
    setup: async () => {
      coldPlace = temporaryFolder()
      for (const kind of ['ours', 'bare']) await coldMs(kind)
    },
    run: pair({ value: () => coldMs('ours'), baseline: () => coldMs('bare') }),
    teardown: async () => coldPlace.remove(),
  },
  { name: 'bytes-per-step', unit: 'bytes', target: { valueMax: 200 }, run: bytesPerStep },
  {
    name: 'sleeping-runs',
    unit: 'MB more',
    target: { valueMax: 40 },
    note: 'heap growth from 20,000 to 100,000 sleeping runs; the store keeps up to 20,000 heads in memory, the runs nothing',
    run: sleepingRuns,
  },
  {
    name: 'loop-million',
    unit: 'ms',
    target: { valueMax: 1000 },
    note: 'to the state of a run after 1,000,000 iterations',
    setup: loopSetup,
    run: loopRecovery,
    teardown: () => loopPlace.remove(),
  },
  {
    name: 'idle-load',
    unit: 'statements/s',
    target: { valueMax: 2 },
    note: 'an idle worker on PostgreSQL',
    run: idleLoad,
  },
  ...versusBenches(ours, times),
]
