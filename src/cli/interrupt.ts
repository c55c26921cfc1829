// Ctrl-C and SIGTERM for commands that execute work: the first finishes the work in flight, the second ends the process at
// once. In both cases recorded progress is kept, and the next run continues from there.

import { formatMs } from '../core/duration.ts'
import type { Reprise } from '../engine/api/reprise.ts'
import { hostOf } from '../engine/host/host.ts'
import { exit } from './exit.ts'
import type { Output } from './output.ts'

const shownMax = 3
const signals = ['SIGINT', 'SIGTERM'] as const

/** Time for a step in flight after the first Ctrl-C, the same as for items of jobs. */
export const grace = '30s'

export interface Interruption {
  /** Resolves at the first signal. */
  readonly requested: Promise<'interrupted'>
  readonly isAsked: boolean
  /** Restores the previous signal handling. */
  off(): void
}

export interface InterruptOptions {
  /** The work still in flight, as text: printed every few seconds after the first signal. */
  readonly waitsFor?: () => readonly string[]
  /** Called before the second signal ends the process: threads that run native code must have ended, or the process aborts. */
  readonly beforeExit?: () => Promise<unknown>
}

const reportEveryMs = 4000
const beforeExitMs = 2000

/**
 * `words` null: prints nothing, because the process that forwards the signal already did.
 * @example const interruption = onInterrupt(output, 'finishing the step in flight', { waitsFor: () => inHand(engine) })
 * /
 */
export function onInterrupt(output: Output, words: string | null, options: InterruptOptions = {}): Interruption {
  const { waitsFor = () => [], beforeExit } = options
  let isAsked = false
  let isExiting = false
  let reporting: NodeJS.Timeout | undefined
  const report = () => {
    const what = waitsFor().slice(0, shownMax).join('; ') || 'the work in flight'
    output.note(`still waiting for ${what}; press Ctrl-C again to stop at once`)
  }
  let ask: (value: 'interrupted') => void = () => undefined
  const requested = new Promise<'interrupted'>((resolve) => {
    ask = resolve
  })
  const listener = () => {
    if (isExiting || (isAsked && !beforeExit)) process.exit(exit.interrupted)
    if (isAsked) {
      isExiting = true
      // A thread that is still running would abort the process with a core dump.
      setTimeout(() => process.kill(process.pid, 'SIGKILL'), beforeExitMs)
      void beforeExit!().finally(() => process.exit(exit.interrupted))
      return
    }
    isAsked = true
    reporting = setInterval(report, reportEveryMs)
    reporting.unref()
    if (words !== null) output.notes(`\n${words}; press Ctrl-C again to stop at once`)
    ask('interrupted')
  }
  for (const signal of signals) process.on(signal, listener)
  return {
    requested,
    get isAsked() {
      return isAsked
    },
    off() {
      clearInterval(reporting)
      for (const signal of signals) process.off(signal, listener)
    },
  }
}

/** Calls in progress in this process. @example inHand(engine) // ['opening the source orders (pipeline/totals, 12s)'] */
export function inHand(engine: Reprise, leastMs = 0): string[] {
  const { worker, clock } = hostOf(engine)
  const now = clock.elapsed()
  return worker.inHand().flatMap(({ timeline, what, since }) => {
    const seconds = formatMs(Math.round((now - since) / 1000) * 1000)
    return now - since >= leastMs ? [`${what} (${timeline}, ${seconds})`] : []
  })
}
