// Runs a command and captures its output.

import { spawn } from 'node:child_process'
import { RepriseError } from '../../core/errors.ts'

/** A piece of output, in order of arrival. */
export interface OutputPiece {
  readonly to: 'stdout' | 'stderr'
  readonly bytes: Uint8Array
}

/** The result of a command with more output than this is not stored. */
const outputBytesMax = 16 * 1024 * 1024

export interface ExecuteOptions {
  readonly signal?: AbortSignal
  readonly onOutput?: (piece: OutputPiece) => void
  /** Default: the environment of this process. */
  readonly env?: NodeJS.ProcessEnv
  /** Called with the process group of the command, on systems that have process groups. */
  readonly onStarted?: (group: number) => void
}

export interface Executed {
  readonly exitCode: number
  readonly output: readonly OutputPiece[]
  /** The command printed more than can be stored. */
  readonly isTooLong: boolean
}

/** Returns the exit code and the output. */
export async function execute(
  cmd: string | readonly string[],
  directory: string,
  { signal, onOutput, env, onStarted }: ExecuteOptions,
): Promise<Executed> {
  const options = {
    cwd: directory,
    // No input: it would affect the result without being part of the key.
    stdio: ['ignore', 'pipe', 'pipe'] as ['ignore', 'pipe', 'pipe'],
    // A process group of its own, so that all its processes can be killed, and found again if this process dies.
    detached: process.platform !== 'win32',
    ...(env && { env }),
  }
  const child =
    typeof cmd === 'string' ? spawn(cmd, { ...options, shell: true }) : spawn(cmd[0]!, cmd.slice(1), options)
  if (child.pid !== undefined) onStarted?.(child.pid)
  const abort = () => endGroup(child)
  signal?.addEventListener('abort', abort, { once: true })
  if (signal?.aborted) abort()
  const output: OutputPiece[] = []
  let bytes = 0
  const listen = (to: OutputPiece['to']) => (piece: Buffer) => {
    const each = { to, bytes: new Uint8Array(piece) }
    bytes += piece.length
    if (bytes <= outputBytesMax) output.push(each)
    onOutput?.(each)
  }
  child.stdout.on('data', listen('stdout'))
  child.stderr.on('data', listen('stderr'))
  return await new Promise((done, fail) => {
    child.on('error', (error) => {
      const what = `${typeof cmd === 'string' ? cmd : cmd.join(' ')} cannot be run: ${error.message}`
      fail(new RepriseError(signal?.aborted ? 'ABORTED' : 'INVALID_ARGUMENT', what, {}, error))
    })
    child.on('close', (code, killed) => {
      signal?.removeEventListener('abort', abort)
      if (signal?.aborted) return fail(new RepriseError('ABORTED', 'the command was stopped', {}, signal.reason))
      done({ exitCode: code ?? 128 + signalNumber(killed), output, isTooLong: bytes > outputBytesMax })
    })
  })
}

function endGroup(child: { readonly pid?: number | undefined; kill(): boolean }): void {
  try {
    if (process.platform !== 'win32' && child.pid !== undefined) process.kill(-child.pid, 'SIGTERM')
    else child.kill()
  } catch {
    // The group had already ended.
  }
}

function signalNumber(name: NodeJS.Signals | null): number {
  return { SIGHUP: 1, SIGINT: 2, SIGQUIT: 3, SIGKILL: 9, SIGTERM: 15 }[name as string] ?? 0
}
