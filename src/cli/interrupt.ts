// Ctrl-C and SIGTERM for commands that execute something: the first asks to finish what is in flight, the second ends the
// process at once. Either way what was recorded stays, and the next run goes on from there.

import { exit } from './exit.ts'
import type { Output } from './output.ts'

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

/**
 * `words` null: nothing is said, since whoever passes the signal on has.
 * @example const interruption = onInterrupt(output, 'finishing the step in flight')
 */
export function onInterrupt(output: Output, words: string | null): Interruption {
  let isAsked = false
  let ask: (value: 'interrupted') => void = () => undefined
  const asked = new Promise<'interrupted'>((resolve) => {
    ask = resolve
  })
  const listener = () => {
    if (isAsked) process.exit(exit.interrupted)
    isAsked = true
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
      for (const signal of signals) process.off(signal, listener)
    },
  }
}
