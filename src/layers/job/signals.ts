// Ctrl-C and SIGTERM: the first finishes what is in flight, the second ends the process at once. Either way the job is
// resumable; the second only repeats what was in flight.

import type { JobRun } from './run.ts'

const signals = ['SIGINT', 'SIGTERM'] as const
/** What a shell expects of an interrupted program. */
const interruptedCode = 130

/** Undo with the returned function; it undoes itself when the run ends. */
export function stopOnSignals<T>(run: JobRun<T>, tell: (text: string) => void = () => undefined): () => void {
  let count = 0
  const listener = () => {
    count += 1
    if (count > 1) process.exit(interruptedCode)
    tell('finishing what is in flight; once more to stop at once')
    void run.stop('interrupted').catch(() => undefined)
  }
  const off = () => {
    for (const signal of signals) process.off(signal, listener)
  }
  for (const signal of signals) process.on(signal, listener)
  run.result().then(off, off)
  return off
}
