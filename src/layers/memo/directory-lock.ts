// Allows one run or restore at a time in a directory, across processes: two that write the same outputs would store each
// other's files. A command whose process was killed continues to run; the next process waits until it has ended.

import { hostname } from 'node:os'
import { timelineId, toHex } from '../../core/coordinate.ts'
import { orElse } from '../../core/errors.ts'
import { growingPause } from '../../core/retry/pause.ts'
import { throwIfAborted } from '../../engine/base/abortable-wait.ts'
import type { Host } from '../../engine/host/host.ts'
import { StateTimeline } from '../../engine/writing/state-timeline.ts'
import { processStat } from '../../lib/process-stat.ts'
import { sleep } from '../../lib/waiting.ts'

const groupAttribute = 'group'
const key = {}

export interface HeldDirectory {
  /** Stores the process group, so that it can be found if this process dies. */
  note(group: number): Promise<void>
  /** Rejects if another process has taken over the directory because this one was suspended for too long. */
  confirm(): Promise<void>
}

export async function inDirectory<T>(
  host: Host,
  directory: string,
  signal: AbortSignal | undefined,
  work: (held: HeldDirectory) => Promise<T>,
): Promise<T> {
  const queues = host.once(key, () => new Map<string, Promise<unknown>>())
  const mine = (queues.get(directory) ?? Promise.resolve()).then(() => whileHeld(host, directory, signal, work))
  const settled = mine.catch(() => undefined)
  queues.set(directory, settled)
  try {
    return await mine
  } finally {
    if (queues.get(directory) === settled) queues.delete(directory)
  }
}

async function whileHeld<T>(
  host: Host,
  directory: string,
  signal: AbortSignal | undefined,
  work: (held: HeldDirectory) => Promise<T>,
): Promise<T> {
  const taken = await take(host, directory, signal)
  try {
    return await work({
      note: (group) =>
        taken.write({ attributes: { [groupAttribute]: `${hostname()} ${group} ${processStat(group)?.start ?? ''}` } }),
      confirm: () => taken.write({}),
    })
  } finally {
    await taken.release({ attributes: { [groupAttribute]: null } })
  }
}

async function take(host: Host, directory: string, signal: AbortSignal | undefined): Promise<StateTimeline> {
  const { kernel } = host
  const id = timelineId(
    `memo/.directories/${toHex(kernel.hash(kernel.codec.encode([hostname(), directory]))).slice(0, 32)}`,
  )
  for (let attempt = 1; ; attempt++) {
    throwIfAborted(signal, `waiting for ${directory}`)
    const taken = await StateTimeline.take(kernel, id).catch(orElse(null, 'OWNED'))
    if (taken && !isRunning((await host.head(id))?.attributes[groupAttribute])) return taken
    // A command started by an earlier process still writes there.
    await taken?.release()
    await sleep(kernel.clock, growingPause(attempt, 10, 500))
  }
}

function isRunning(noted: unknown): boolean {
  const [host, group, start] = typeof noted === 'string' ? noted.split(' ') : []
  if (host !== hostname() || group === undefined || process.platform === 'win32') return false
  const startNow = processStat(Number(group))?.start ?? ''
  // Another process has reused the process id.
  if (startNow !== '' && start !== '' && startNow !== start) return false
  try {
    process.kill(-Number(group), 0)
    return true
  } catch {
    return false
  }
}
