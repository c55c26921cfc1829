// Runs a command and listens to what it says.

import { spawn } from 'node:child_process'
import { RepriseError } from '../../core/errors.ts'

/** What it said, in the order in which it was said. */
export interface Said {
  readonly to: 'stdout' | 'stderr'
  readonly bytes: Uint8Array
}

/** What is said beyond this is not kept. */
const saidBytesMax = 16 * 1024 * 1024

export interface ExecuteOptions {
  readonly signal?: AbortSignal
  readonly onSaid?: (said: Said) => void
  /** That of this process if left out. */
  readonly env?: NodeJS.ProcessEnv
}

/** How it ended, and what it said. */
export async function execute(
  cmd: string | readonly string[],
  directory: string,
  { signal, onSaid, env }: ExecuteOptions,
): Promise<{ readonly exitCode: number; readonly said: readonly Said[] }> {
  const options = {
    cwd: directory,
    stdio: ['inherit', 'pipe', 'pipe'] as ['inherit', 'pipe', 'pipe'],
    ...(signal && { signal }),
    ...(env && { env }),
  }
  const child =
    typeof cmd === 'string' ? spawn(cmd, { ...options, shell: true }) : spawn(cmd[0]!, cmd.slice(1), options)
  const said: Said[] = []
  let bytes = 0
  const listen = (to: Said['to']) => (piece: Buffer) => {
    const each = { to, bytes: new Uint8Array(piece) }
    bytes += piece.length
    if (bytes <= saidBytesMax) said.push(each)
    onSaid?.(each)
  }
  child.stdout.on('data', listen('stdout'))
  child.stderr.on('data', listen('stderr'))
  return await new Promise((done, fail) => {
    child.on('error', (error) => {
      const what = `${typeof cmd === 'string' ? cmd : cmd.join(' ')} cannot be run: ${error.message}`
      fail(new RepriseError(signal?.aborted ? 'ABORTED' : 'INVALID_ARGUMENT', what, {}, error))
    })
    child.on('close', (code, killed) => done({ exitCode: code ?? 128 + signalNumber(killed), said }))
  })
}

function signalNumber(name: NodeJS.Signals | null): number {
  return { SIGHUP: 1, SIGINT: 2, SIGQUIT: 3, SIGKILL: 9, SIGTERM: 15 }[name as string] ?? 0
}
