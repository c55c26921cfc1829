// The agent suite: LangGraph threads on RepriseSaver through a real graph, beside the official savers on the same kind of
// database in the same run, if they are installed (npm i --prefix bench/versus/langgraph); and sessions of Reprise itself.
// REPRISE_BENCH_AGENT_TURNS is the length of the long thread (5,000).

import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { open } from '../dist/index.js'
import { median, time } from './measure.mjs'
import { answerBytes, directPuts, makeGraph, runTurns, timePuts, turnBytes } from './support/graph.mjs'
import { makeSavers } from './support/savers.mjs'
import { countBytes, countReads, makeAgent } from './support/sessions.mjs'
import { temporaryFolder } from './support/stores.mjs'

const turns = 200
const longTurns = Number(process.env.REPRISE_BENCH_AGENT_TURNS ?? 5000)
const config = { configurable: { thread_id: 't' } }
const official = { sqlite: 'SqliteSaver', postgres: 'PostgresSaver' }

/** The time of a put in the last 20 turns, divided by that in the first 20. */
function growth(putMs, count) {
  const perTurn = putMs.length / count
  return { first: median(putMs.slice(0, 20 * perTurn)), last: median(putMs.slice(-20 * perTurn)) }
}

/**
 * Writes and closes a thread of this many turns; returns the time of its puts, the size of the thread and the size of the whole
 * database.
 */
async function fill(side, run) {
  await (await side.open()).close()
  const emptyBytes = await side.bytes()
  const { saver, close } = await side.open()
  const putMs = timePuts(saver)
  await run(saver)
  await close()
  const wholeBytes = await side.bytes()
  return { putMs, bytes: wholeBytes - emptyBytes, wholeBytes }
}

/** Both savers with a thread of 200 turns, created once for all runs of a bench. */
function filled(kind) {
  const held = {}
  return {
    held,
    setup: async () => {
      Object.assign(held, await makeSavers(kind))
      for (const side of [held.ours, held.peer]) {
        if (side) await fill(side, (saver) => runTurns(makeGraph(saver), 't', turns))
      }
    },
    teardown: () => held.remove(),
  }
}

/** The two savers take turns at going first; `isCold`: the saver and its engine were created just before. */
function read(kind, measure, { isCold = false, times = 1 } = {}) {
  const { held, setup, teardown } = filled(kind)
  const timed = async (side) => {
    if (!side) return undefined
    const { saver, close } = await side.open()
    try {
      // Both get the same number of warm-up rounds: the code of a saver in use is compiled.
      for (let n = 0; !isCold && n < times; n++) await measure(saver)
      const samples = []
      for (let n = 0; n < times; n++) samples.push((await time(() => measure(saver))).elapsedMs)
      return median(samples)
    } finally {
      await close()
    }
  }
  const run = async ({ index }) => {
    const first = index % 2 === 1 ? await timed(held.peer) : undefined
    const value = await timed(held.ours)
    const baseline = first ?? (await timed(held.peer))
    return baseline === undefined ? { value } : { value, baseline }
  }
  return { setup, run, teardown }
}

async function listAll(saver, limit) {
  let messages = 0
  // Reads the values, so that a saver that decodes them lazily decodes them here.
  for await (const { checkpoint } of saver.list(config, { limit }))
    messages += checkpoint.channel_values.messages?.length ?? 0
  return messages
}

async function inFolder(work) {
  const place = temporaryFolder()
  try {
    return await work(`sqlite:${place.path('bench.db')}`)
  } finally {
    place.remove()
  }
}

async function withEngine(url, work) {
  const rp = await open(url)
  try {
    return await work(rp)
  } finally {
    await rp.close()
  }
}

const threads = ['sqlite', 'postgres'].flatMap((kind) => [
  {
    name: `session-200-turns-${kind}`,
    unit: '× the added bytes',
    target: { valueMax: 3, details: { putGrowth: { max: 1.5 } } },
    note: `what 200 turns of 1 KB through a real graph add to the database (whole: with the empty tables); putGrowth: last 20 turns over first 20; baseline: ${official[kind]}`,
    run: async () => {
      const savers = await makeSavers(kind)
      try {
        const run = (saver) => runTurns(makeGraph(saver), 't', turns)
        const mine = await fill(savers.ours, run)
        const theirs = savers.peer && (await fill(savers.peer, run))
        const [own, other] = [mine, theirs].map((made) => made && growth(made.putMs, turns))
        return {
          value: mine.bytes / (turns * turnBytes),
          ...(theirs && { baseline: theirs.bytes / (turns * turnBytes) }),
          details: {
            putGrowth: own.last / own.first,
            putMs: own.last,
            whole: mine.wholeBytes / (turns * turnBytes),
            ...(other && { officialPutGrowth: other.last / other.first, officialPutMs: other.last }),
          },
        }
      } finally {
        await savers.remove()
      }
    },
  },
  {
    name: `latest-${kind}`,
    unit: 'ms',
    target: { ratioMax: 0.2 },
    note: `getTuple of the newest checkpoint after 200 turns, by a saver in use; baseline: ${official[kind]}`,
    ...read(kind, (saver) => saver.getTuple(config), { times: 30 }),
  },
  {
    name: `latest-cold-${kind}`,
    unit: 'ms',
    note: `the same, the first read in a process; baseline: ${official[kind]}`,
    ...read(kind, (saver) => saver.getTuple(config), { isCold: true }),
  },
  {
    name: `list-200-${kind}`,
    unit: 'ms',
    target: { ratioMax: 0.2 },
    note: `the 200 newest checkpoints after 200 turns, by a saver in use; baseline: ${official[kind]}`,
    ...read(kind, (saver) => listAll(saver, 200)),
  },
  {
    name: `list-200-cold-${kind}`,
    unit: 'ms',
    note: `the same, the first read in a process; baseline: ${official[kind]}`,
    ...read(kind, (saver) => listAll(saver, 200), { isCold: true }),
  },
  {
    name: `list-10-cold-${kind}`,
    unit: 'ms',
    note: `the 10 newest of them, the first read in a process; baseline: ${official[kind]}`,
    ...read(kind, (saver) => listAll(saver, 10), { isCold: true }),
  },
])

const long = ['sqlite', 'postgres'].map((kind) => ({
  name: `session-5000-turns-${kind}`,
  unit: '× the first 20 turns',
  target: { valueMax: 1.5, details: { bytes: { max: 3 } } },
  note: 'put time of the last 20 of REPRISE_BENCH_AGENT_TURNS turns; puts are made directly, without a graph; bytes: × the added',
  run: async ({ index }) => {
    if (index > 0) return { skip: 'once is enough' }
    const savers = await makeSavers(kind)
    try {
      const { putMs, bytes } = await fill(savers.ours, (saver) => directPuts(saver, config, longTurns))
      const { first, last } = growth(putMs, longTurns)
      return { value: last / first, details: { putMs: last, bytes: bytes / (longTurns * turnBytes) } }
    } finally {
      await savers.remove()
    }
  },
}))

/**
 * The graph keeps the last 20 messages of these threads: the state does not grow, so the time of the first read should not
 * either.
 */
const windows = ['sqlite', 'postgres'].map((kind) => ({
  name: `list-10-cold-long-${kind}`,
  unit: '× after 500 turns',
  note: 'the first list of 10 in a process, after REPRISE_BENCH_AGENT_TURNS turns of which the last 20 messages are kept; KB: what is read from the store (history and chunks)',
  run: async ({ index }) => {
    if (index > 0) return { skip: 'once is enough' }
    const [few, many] = [await coldList(kind, 500), await coldList(kind, longTurns)]
    return {
      value: many.ms / few.ms,
      details: { ms500: few.ms, ms: many.ms, KB500: few.kilobytes, KB: many.kilobytes },
    }
  },
}))

async function coldList(kind, count) {
  const savers = await makeSavers(kind)
  try {
    await fill(savers.ours, (saver) => directPuts(saver, config, count, 20))
    const samples = []
    let read
    for (let n = 0; n < 9; n++) {
      const { saver, engine, close } = await savers.ours.open()
      read = countReads(engine)
      samples.push((await time(() => listAll(saver, 10))).elapsedMs)
      await close()
    }
    // The first ones compile.
    return { ms: median(samples.slice(2)), kilobytes: read.bytes / 1024 }
  } finally {
    await savers.remove()
  }
}

const sessions = [
  {
    name: 'turn-bytes',
    unit: '× the added bytes',
    target: { valueMax: 3 },
    note: 'everything that a turn of a session writes (history, manifests, chunks), mean of turns 101 to 200; early: turns 1 to 100',
    run: () =>
      withEngine('memory:', async (rp) => {
        const session = await rp.open(makeAgent(0), 's')
        const counted = countBytes(rp)
        const half = async () => {
          const before = counted.bytes
          for (let turn = 0; turn < turns / 2; turn++) await session.turn('plain')
          return (counted.bytes - before) / ((turns / 2) * (answerBytes + 'plain'.length))
        }
        const early = await half()
        const value = await half()
        return { value, details: { early, checkpoints: counted.checkpoints } }
      }),
  },
  {
    name: 'rollback-with-50-effects',
    unit: 'ms',
    run: async () =>
      await inFolder((url) =>
        withEngine(url, async (rp) => {
          const session = await rp.open(makeAgent(50), 's')
          await session.turn('go')
          return { value: (await time(() => session.rollback({ to: 0 }))).elapsedMs }
        }),
      ),
  },
  {
    name: 'fork',
    unit: 'ms',
    note: 'a session of 100 turns, at turn 50',
    run: async () =>
      await inFolder((url) =>
        withEngine(url, async (rp) => {
          const session = await rp.open(makeAgent(0), 's')
          for (let turn = 0; turn < 100; turn++) await session.turn('plain')
          return { value: (await time(() => session.fork('f', { turn: 50 }))).elapsedMs }
        }),
      ),
  },
  {
    name: 'resume-after-kill',
    unit: 'ms',
    note: 'a session of 200 turns whose process was killed inside the next one: opened in another process and resumed to its end; open: the first part',
    run: async () =>
      await inFolder(async (url) => {
        const victim = fileURLToPath(new URL('support/agent-victim.mjs', import.meta.url))
        const { signal, stderr } = spawnSync(process.execPath, [victim, url, String(turns)], { encoding: 'utf8' })
        if (signal !== 'SIGKILL') throw new Error(`the process was not killed: ${stderr}`)
        return await withEngine(url, async (rp) => {
          const opened = await time(() => rp.open(makeAgent(0), 's'))
          const session = opened.result
          const resumed = await time(() => session.resume())
          if (session.state.turn !== turns + 1 || resumed.result.status !== 'completed')
            throw new Error('it was not resumed')
          return { value: opened.elapsedMs + resumed.elapsedMs, details: { open: opened.elapsedMs } }
        })
      }),
  },
]

export default [...threads, ...long, ...windows, ...sessions]
