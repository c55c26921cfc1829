// Ctrl-C and SIGTERM for commands that execute something: the first asks to finish what is in flight, the second ends the
// process at once. Either way what was recorded stays, and the next run goes on from there.

import { formatMs } from '../core/duration.ts'
import type { Reprise } from '../engine/api/reprise.ts'
import { hostOf } from '../engine/host/host.ts'
import { exit } from './exit.ts'
import type { Output } from './output.ts'

const shownMax = 3
const signals = ['SIGINT', 'SIGTERM'] as const

/** How long a step in flight may take after the first Ctrl-C, as long as the items of a job. */
export const grace = '30s'

export interface Interruption {
  /** Resolves at the first signal. */
  readonly asked: Promise<'interrupted'>
  readonly isAsked: boolean
  /** Signals do what they did before. */
  off(): void
}

export interface InterruptOptions {
  /** What is still waited for, in words: printed every few seconds after the first signal. */
  readonly waitsFor?: () => readonly string[]
  /** Before the second signal ends the process: threads that run native code must have ended, or the process aborts. */
  readonly beforeExit?: () => Promise<unknown>
}

const tellEveryMs = 4000
const beforeExitMs = 2000

/**
 * `words` null: nothing is said, since whoever passes the signal on has.
 * @example const interruption = onInterrupt(output, 'finishing the step in flight', { waitsFor: () => inHand(engine) })
 */
export function onInterrupt(output: Output, words: string | null, options: InterruptOptions = {}): Interruption {
  const { waitsFor = () => [], beforeExit } = options
  let isAsked = false
  let isExiting = false
  let telling: NodeJS.Timeout | undefined
  const tell = () => {
    const what = waitsFor().slice(0, shownMax).join('; ') || 'what is in flight'
    output.note(`still waiting for ${what}; once more to stop at once`)
  }
  let ask: (value: 'interrupted') => void = () => undefined
  const asked = new Promise<'interrupted'>((resolve) => {
    ask = resolve
  })
  const listener = () => {
    if (isExiting || (isAsked && !beforeExit)) process.exit(exit.interrupted)
    if (isAsked) {
      isExiting = true
      // One that does not end by then would abort the process with a core dump.
      setTimeout(() => process.kill(process.pid, 'SIGKILL'), beforeExitMs)
      void beforeExit!().finally(() => process.exit(exit.interrupted))
      return
    }
    isAsked = true
    telling = setInterval(tell, tellEveryMs)
    telling.unref()
    if (words !== null) output.notes(`\n${words}; once more to stop at once`)
    ask('interrupted')
  }
  for (const signal of signals) process.on(signal, listener)
  return {
    asked,
    get isAsked() {
      return isAsked
    },
    off() {
      clearInterval(telling)
      for (const signal of signals) process.off(signal, listener)
    },
  }
}

/** What this process has begun and not ended. @example inHand(engine) // ['opening the source orders (pipeline/totals, 12s)'] */
export function inHand(engine: Reprise, leastMs = 0): string[] {
  const { worker, clock } = hostOf(engine).kernel
  const now = clock.elapsed()
  return worker.inHand().flatMap(({ timeline, what, since }) => {
    const seconds = formatMs(Math.round((now - since) / 1000) * 1000)
    return now - since >= leastMs ? [`${what} (${timeline}, ${seconds})`] : []
  })
}
