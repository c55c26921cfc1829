// A worker in a process of its own that reports when it is ready.

import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'

/** It is in `started` from the first moment on, so that the test can end it in any case. */
export async function startWorker(
  program: string,
  args: readonly string[],
  started: ChildProcess[],
): Promise<ChildProcess> {
  const child = fork(program, [...args], { stdio: ['ignore', 'ignore', 'pipe', 'ipc'] })
  started.push(child)
  const said: string[] = []
  child.stderr?.on('data', (text) => said.push(String(text)))
  await Promise.race([
    once(child, 'message'),
    once(child, 'exit').then(([code]) => {
      throw new Error(`the worker ended with ${code}: ${said.join('')}`)
    }),
  ])
  return child
}
