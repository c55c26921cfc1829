// Ctrl-C and SIGTERM: the first one finishes the items in flight, the second ends the process at once. The job is
// resumable in both cases; after the second, items in flight are repeated.

import type { JobRun } from './run.ts'

const signals = ['SIGINT', 'SIGTERM'] as const
/** The exit code that shells expect of an interrupted program. */
const interruptedCode = 130

/** Returns a function that removes the handlers; they are also removed when the run ends. */
export function stopOnSignals<T>(run: JobRun<T>, print: (text: string) => void = () => undefined): () => void {
  let count = 0
  const listener = () => {
    count += 1
    if (count > 1) process.exit(interruptedCode)
    print('finishing the items in flight; press Ctrl-C again to stop at once')
    void run.stop({ reason: 'interrupted' }).catch(() => undefined)
  }
  const off = () => {
    for (const signal of signals) process.off(signal, listener)
  }
  for (const signal of signals) process.on(signal, listener)
  run.result().then(off, off)
  return off
}
