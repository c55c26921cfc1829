// The built command line, command after command in one process: most of the cost of a command is the start of its process, and
// the tests run over a thousand of them. For tests of output and behaviour; tests of processes, signals and kills start their
// own. A command that would not have ended is a failure here, too.

import { type ChildProcess, fork } from 'node:child_process'
import { readdirSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { afterAll } from 'vitest'
import { binIn, type CliOptions, type Ran } from './support.ts'

const hostPath = fileURLToPath(new URL('./warm-host.mjs', import.meta.url))
let host: ChildProcess | null = null
let turn: Promise<unknown> = Promise.resolve()
/** The modules of a folder as a process that runs has read them. */
const read = new Map<string, string>()

afterAll(() => end())

/** As `cli` of support.ts, one at a time. */
export function cli(args: readonly string[], options: Omit<CliOptions, 'interrupt'>): Promise<Ran> {
  const ran = turn.then(() => run(args, options))
  turn = ran.catch(() => undefined)
  return ran
}

/** JSON on stdout, parsed. */
export async function json<T = unknown>(
  args: readonly string[],
  options: Omit<CliOptions, 'interrupt'>,
): Promise<{ code: number | null; value: T }> {
  const ran = await cli([...args, '--json'], options)
  try {
    return { code: ran.code, value: JSON.parse(ran.stdout) as T }
  } catch {
    throw new Error(`no JSON from reprise ${args.join(' ')}: ${ran.stdout}${ran.stderr}`)
  }
}

async function run(args: readonly string[], options: Omit<CliOptions, 'interrupt'>): Promise<Ran> {
  const { cwd, input = '' } = options
  // A process reads a module once.
  const now = modulesOf(cwd)
  if ((read.get(cwd) ?? now) !== now) end()
  read.set(cwd, now)
  host ??= fork(hostPath, { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] })
  const child = host
  const { NO_COLOR: _, FORCE_COLOR: __, REPRISE_URL: ___, ...env } = process.env
  const main = pathToFileURL(join(dirname(binIn(cwd)), '../../lib/cli/main.js')).href
  const answer = new Promise<Ran & { readonly left: readonly string[] }>((resolve, reject) => {
    child.once('message', (said) => resolve(said as Ran & { left: readonly string[] }))
    child.once('exit', (code) => reject(new Error(`reprise ${args.join(' ')} ended its process with ${code}`)))
  })
  child.send({ main, args, cwd, env: { ...env, ...options.env }, input })
  try {
    const { left, code, stdout, stderr } = await answer
    if (left.length > 0) throw new Error(`reprise ${args.join(' ')} would not have ended: ${left.join(', ')}`)
    return { code, signal: null, stdout, stderr }
  } catch (error) {
    end()
    throw error
  } finally {
    child.removeAllListeners('exit')
  }
}

function end(): void {
  host?.kill('SIGKILL')
  host = null
  read.clear()
}

function modulesOf(folder: string): string {
  const names = readdirSync(folder).filter((name) => /\.[cm]?[jt]s$/.test(name))
  return JSON.stringify(names.map((name) => [name, statSync(join(folder, name)).mtimeMs]))
}
