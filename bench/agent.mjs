// The agent suite: LangGraph threads on RepriseSaver through a real graph, and sessions of our own.
// Peers (the official savers) are compared where bench/versus has them installed: npm i --prefix bench/versus/langgraph.

import { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { open } from '../dist/index.js'
import { agent, tool } from '../dist/layers/agent/index.js'
import { RepriseSaver } from '../dist/layers/langgraph/index.js'
import { median, time } from './measure.mjs'
import { makeGraph, makeText, runTurns, timePuts, turnBytes } from './support/graph.mjs'

const turns = 200
const longTurns = Number(process.env.REPRISE_BENCH_AGENT_TURNS ?? 5000)

async function inFolder(work) {
  const folder = mkdtempSync(join(tmpdir(), 'reprise-bench-agent-'))
  try {
    return await work(`sqlite:${join(folder, 'bench.db')}`, folder)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** What the database takes on disk once it is closed; the shared-memory index of SQLite is no data. */
function bytesIn(folder) {
  const files = readdirSync(folder).filter((name) => !name.endsWith('-shm'))
  return files.reduce((sum, name) => sum + statSync(join(folder, name)).size, 0)
}

async function withEngine(url, work) {
  const rp = await open(url)
  try {
    return await work(rp)
  } finally {
    await rp.close()
  }
}

async function thread(url, count) {
  const rp = await open(url)
  const saver = new RepriseSaver(rp)
  const putMs = timePuts(saver)
  await runTurns(makeGraph(saver), 't', count)
  return { rp, saver, putMs }
}

function growth(putMs, count) {
  const perTurn = putMs.length / count
  return { first: median(putMs.slice(0, 20 * perTurn)), last: median(putMs.slice(-20 * perTurn)) }
}

const config = { configurable: { thread_id: 't' } }

/** The official saver on the same kind of database, if it is installed. */
async function sqliteSaver(folder) {
  try {
    const { SqliteSaver } = await import(
      './versus/langgraph/node_modules/@langchain/langgraph-checkpoint-sqlite/index.js'
    )
    return SqliteSaver.fromConnString(join(folder, 'peer.db'))
  } catch {
    return null
  }
}

async function versus(measure) {
  return await inFolder(async (url, folder) => {
    const { rp, saver } = await thread(url, turns)
    const value = (await time(() => measure(saver))).elapsedMs
    await rp.close()
    const peer = await sqliteSaver(folder)
    if (!peer) return { value }
    await runTurns(makeGraph(peer), 't', turns)
    return { value, baseline: (await time(() => measure(peer))).elapsedMs }
  })
}

async function listAll(saver, limit) {
  let count = 0
  for await (const _tuple of saver.list(config, { limit })) count += 1
  return count
}

function makeAgent(effects) {
  return agent('bench', {
    model: ({ messages }) => {
      const last = messages.at(-1)
      if (last.role === 'tool') return { content: 'done' }
      return { content: makeText(messages.length, 900), requests: last.content === 'plain' ? [] : requests(effects) }
    },
    tools: { pay: tool({ kind: 'compensatable', run: (_args, { key }) => ({ key }), compensate: () => null }) },
  })
}

function requests(count) {
  return Array.from({ length: count }, (_, i) => ({ tool: 'pay', args: { i } }))
}

export default [
  {
    name: 'session-200-turns-bytes',
    unit: '× the added bytes',
    target: { valueMax: 3, details: { putGrowth: { max: 1.5 } } },
    note: 'SQLite file after 200 turns of 1 KB through a real graph; putGrowth: last 20 turns over first 20',
    run: async () =>
      await inFolder(async (url, folder) => {
        const { rp, putMs } = await thread(url, turns)
        await rp.close()
        const { first, last } = growth(putMs, turns)
        return { value: bytesIn(folder) / (turns * turnBytes), details: { putGrowth: last / first, putMs: last } }
      }),
  },
  {
    name: 'session-5000-turns-put',
    unit: '× the first 20 turns',
    target: { valueMax: 1.5 },
    note: 'put time of the last 20 of REPRISE_BENCH_AGENT_TURNS (5,000) turns; puts are made directly, without a graph',
    run: async ({ index }) => {
      if (index > 0) return { skip: 'once is enough' }
      return await inFolder((url) => withEngine(url, (rp) => directPuts(rp, longTurns)))
    },
  },
  {
    name: 'latest',
    unit: 'ms',
    target: { ratioMax: 0.2 },
    note: 'getTuple of the newest checkpoint after 200 turns; baseline: SqliteSaver, if installed',
    run: () => versus((saver) => saver.getTuple(config)),
  },
  {
    name: 'list-200',
    unit: 'ms',
    target: { ratioMax: 0.2 },
    note: '200 newest checkpoints after 200 turns; baseline: SqliteSaver, if installed',
    run: () => versus((saver) => listAll(saver, 200)),
  },
  {
    name: 'turn-checkpoint-bytes',
    unit: '× the added bytes',
    note: 'bytes that the checkpoint of a turn adds, turns 181 to 200 of a session; first: turns 6 to 25',
    run: () =>
      withEngine('memory:', async (rp) => {
        const session = await rp.open(makeAgent(0), 's')
        // What a checkpoint writes: its manifest, where small changes lie inline, and the chunks it adds.
        const written = async () => {
          const [newest] = await rp.checkpoints(session.coordinate.timeline)
          return (newest.body.length + newest.addedBytes) / 900
        }
        const bytes = []
        for (let turn = 0; turn < turns; turn++) {
          await session.turn('plain')
          await session.checkpoint()
          bytes.push(await written())
        }
        return { value: median(bytes.slice(-20)), details: { first: median(bytes.slice(5, 25)) } }
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
          return { value: (await time(() => session.rollback(0))).elapsedMs }
        }),
      ),
  },
  {
    name: 'fork',
    unit: 'ms',
    note: 'a session of 100 turns',
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
    note: 'opening a session of 200 turns again, in a fresh engine',
    run: async () =>
      await inFolder(async (url) => {
        const first = await open(url)
        const session = await first.open(makeAgent(0), 's')
        for (let turn = 0; turn < turns; turn++) await session.turn('plain')
        await first.close()
        return await withEngine(url, async (rp) => ({
          value: (await time(() => rp.open(makeAgent(0), 's'))).elapsedMs,
        }))
      }),
  },
]

/** Messages as a graph would hand them over: the same objects, one more each time. */
async function directPuts(rp, count) {
  const saver = new RepriseSaver(rp)
  const putMs = timePuts(saver)
  const messages = []
  let at = config
  for (let turn = 1; turn <= count; turn++) {
    messages.push({ role: 'assistant', content: makeText(turn, 1000) })
    const id = `00000000-0000-6000-8000-${turn.toString(16).padStart(12, '0')}`
    const checkpoint = {
      v: 4,
      id,
      ts: new Date(turn).toISOString(),
      channel_values: { messages: [...messages] },
      channel_versions: { messages: turn },
      versions_seen: {},
    }
    at = await saver.put(at, checkpoint, { source: 'loop', step: turn, parents: {} }, { messages: turn })
  }
  const { first, last } = growth(putMs, count)
  return { value: last / first, details: { putMs: last } }
}
