// How long a checkpoint of a large plain state delays the process while entries are appended: once declared immutable, so
// captured in slices, and once not, so captured at once.

import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { open, timeline } from '../../dist/index.js'

const rowsPerEntry = 2000

const large = (name, immutable) =>
  timeline(name, {
    initial: () => ({ rows: [], last: 0 }),
    apply(state, entry) {
      if (entry.type === 'tick') return { ...state, last: entry.n }
      return { ...state, rows: [...state.rows, ...Array.from({ length: rowsPerEntry }, (_, i) => rowOf(entry.n + i))] }
    },
    ...(immutable && { immutable }),
  })

const rowOf = (id) => ({ id, name: `row number ${id}`, text: `${id} `.repeat(30), tags: ['a', `b${id % 97}`] })

export function captureStall(megabytes) {
  let folder
  let rp
  let sliced
  let held
  const fill = async (handle) => {
    for (let n = 0; n < megabytes * 4000; n += rowsPerEntry) await handle.append({ type: 'rows', n })
  }
  return {
    async setup() {
      folder = mkdtempSync(join(tmpdir(), 'reprise-stall-'))
      rp = await open(`sqlite:${join(folder, 'a.db')}`, { housekeeping: false })
      sliced = await rp.open(large('sliced', true), 'x')
      held = await rp.open(large('held', false), 'x')
      await fill(sliced)
      await fill(held)
    },
    async run() {
      const ours = await longestStall(sliced)
      const bare = await longestStall(held)
      const details = { megabytes: ours.bytes / 1e6, checkpointMs: ours.ms, appends: ours.appends }
      return { value: ours.stallMs, baseline: bare.stallMs, details }
    },
    async teardown() {
      await rp.close()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

/**
 * The longest processor time of the main thread between two turns of the event loop during one checkpoint, with appends beside
 * it. Not wall-clock time: other processes interrupt this one, and an append waits for its disk. Not the time of all threads
 * either: the garbage collector and the compiler work beside the loop without delaying it.
 */
async function longestStall(handle) {
  let isOver = false
  let stallMs = 0
  let appends = 0
  let last = cpuMs()
  const turn = () => {
    const now = cpuMs()
    stallMs = Math.max(stallMs, now - last)
    last = now
    if (!isOver) setImmediate(turn)
  }
  setImmediate(turn)
  const appending = (async () => {
    while (!isOver) {
      await handle.append({ type: 'tick', n: appends++ })
      await new Promise((resolve) => setTimeout(resolve, 2))
    }
  })()
  const { ms, totalBytes } = await handle.checkpoint({ full: true })
  isOver = true
  await appending
  return { stallMs, ms, bytes: totalBytes, appends }
}

function cpuMs() {
  // In nanoseconds, of the thread that runs this code. On other systems than Linux: of all threads, so more.
  if (process.platform === 'linux')
    return Number(readFileSync('/proc/thread-self/schedstat', 'utf8').split(' ')[0]) / 1e6
  const { user, system } = process.cpuUsage()
  return (user + system) / 1000
}
