// Runs the built command line as a person does: as a process, in a folder of its own, in a pipe or on a terminal.

import { spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { pause } from '../support/until.ts'

export const root = fileURLToPath(new URL('../..', import.meta.url))
export const bin = join(root, 'dist/cli/bin.cjs')

/**
 * The command line of the package that modules in this folder import: both must be the same, or neither finds the other's
 * classes.
 */
export function binIn(folder: string): string {
  const own = join(folder, 'node_modules/reprise')
  return existsSync(own) ? join(realpathSync(own), 'dist/cli/bin.cjs') : bin
}

export interface Ran {
  readonly code: number | null
  readonly signal: string | null
  readonly stdout: string
  readonly stderr: string
}

export interface CliOptions {
  readonly cwd: string
  readonly env?: Record<string, string>
  readonly input?: string
  /** Send these signals after the given text showed on stderr. */
  readonly interrupt?: { readonly after: RegExp; readonly signals: readonly NodeJS.Signals[] }
}

/** A folder in which `reprise` can be imported. */
export function workFolder(): { readonly path: string; remove(): void } {
  const path = mkdtempSync(join(tmpdir(), 'reprise-cli-'))
  mkdirSync(join(path, 'node_modules'))
  symlinkSync(root, join(path, 'node_modules/reprise'), 'dir')
  return { path, remove: () => rmSync(path, { recursive: true, force: true }) }
}

export async function cli(args: readonly string[], options: CliOptions): Promise<Ran> {
  const { NO_COLOR: _, FORCE_COLOR: __, REPRISE_URL: ___, ...env } = process.env
  const child = spawn(process.execPath, [binIn(options.cwd), ...args], {
    cwd: options.cwd,
    env: { ...env, ...options.env },
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  let stdout = ''
  let stderr = ''
  const signals = [...(options.interrupt?.signals ?? [])]
  child.stdout.on('data', (piece: Buffer) => {
    stdout += piece
  })
  child.stderr.on('data', (piece: Buffer) => {
    stderr += piece
    if (signals.length > 0 && options.interrupt!.after.test(stderr)) {
      const signal = signals.shift()!
      setTimeout(() => child.kill(signal), 100)
    }
  })
  child.stdin.end(options.input ?? '')
  const [code, signal] = await new Promise<[number | null, string | null]>((resolve) =>
    child.once('close', (...end) => resolve(end as [number | null, string | null])),
  )
  return { code, signal, stdout, stderr }
}

/** A long-running command: its output so far, and a wait for more. Ended with the signal, or killed. */
export interface Live {
  readonly said: () => string
  until(text: RegExp): Promise<void>
  /** When it ends by itself, or at the request of another process. */
  readonly ended: Promise<Ran>
  signal(signal: NodeJS.Signals): void
  end(signal: NodeJS.Signals): Promise<Ran>
}

export function live(args: readonly string[], options: CliOptions): Live {
  const child = spawn(process.execPath, [binIn(options.cwd), ...args], {
    cwd: options.cwd,
    env: { ...process.env, ...options.env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let stdout = ''
  let stderr = ''
  child.stdout.on('data', (piece: Buffer) => {
    stdout += piece
  })
  child.stderr.on('data', (piece: Buffer) => {
    stderr += piece
  })
  const closed = new Promise<Ran>((resolve) =>
    child.once('close', (code, signal) => resolve({ code, signal, stdout, stderr })),
  )
  let hasEnded = false
  void closed.then(() => {
    hasEnded = true
  })
  const said = () => stdout + stderr
  return {
    said,
    ended: closed,
    async until(text) {
      while (!text.test(said())) {
        if (hasEnded) throw new Error(`reprise ${args.join(' ')} ended without saying ${text}: ${said()}`)
        await pause(20)
      }
    },
    signal: (signal) => void child.kill(signal),
    async end(signal) {
      child.kill(signal)
      return await closed
    },
  }
}

/** JSON on stdout, parsed. */
export async function json<T = unknown>(
  args: readonly string[],
  options: CliOptions,
): Promise<{ code: number | null; value: T }> {
  const ran = await cli([...args, '--json'], options)
  try {
    return { code: ran.code, value: JSON.parse(ran.stdout) as T }
  } catch {
    throw new Error(`no JSON from reprise ${args.join(' ')}: ${ran.stdout}${ran.stderr}`)
  }
}

/** In a pseudo-terminal, by util-linux' script(1); null with the reason where there is none. */
export function onTerminal(
  command: string,
  cwd: string,
  input = '',
): { text: string; code: number } | { skipped: string } {
  if (!existsSync('/usr/bin/script')) return { skipped: 'no script(1) here to make a terminal with' }
  const { NO_COLOR: _, REPRISE_URL: __, ...env } = process.env
  const run = spawnSync('script', ['-qec', command, '/dev/null'], {
    cwd,
    input,
    encoding: 'utf8',
    env: { ...env, TERM: 'xterm-256color', COLUMNS: '100' },
    timeout: 60_000,
  })
  return { text: run.stdout, code: run.status ?? -1 }
}

/**
 * Types keys into a command on a pseudo-terminal, each when its text has shown since the one before; null where there
 * is none.
 */
export async function typeInto(
  command: string,
  keys: readonly (readonly [RegExp, string])[],
  options: { readonly cwd: string; readonly env?: Record<string, string> },
): Promise<{ text: string; code: number } | null> {
  if (!existsSync('/usr/bin/script')) return null
  const { NO_COLOR: _, REPRISE_URL: __, ...env } = process.env
  // exec: an intermediate shell would handle Ctrl-C itself and return its own exit code.
  const child = spawn('script', ['-qec', `exec ${process.execPath} ${binIn(options.cwd)} ${command}`, '/dev/null'], {
    cwd: options.cwd,
    env: { ...env, TERM: 'xterm-256color', COLUMNS: '100', ...options.env },
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  let text = ''
  let shown = 0
  const left = [...keys]
  child.stdout.on('data', (piece: Buffer) => {
    text += piece
    if (!left[0]?.[0].test(text.slice(shown))) return
    shown = text.length
    child.stdin.write(left.shift()![1])
  })
  const code = await new Promise<number | null>((resolve) => child.once('close', resolve))
  return { text, code: code ?? -1 }
}
