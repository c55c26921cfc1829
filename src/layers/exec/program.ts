// One process of the program, with its descendants: a group of its own, so that signals reach all of them and none is left
// behind. A guardian briefly outlives this process if it is killed, and ends the group: an orphan's files would not be
// captured, and it would still be writing when the next start uses the folder.

import { type ChildProcess, spawn } from 'node:child_process'
import { constants } from 'node:os'
import { RepriseError } from '../../core/errors.ts'
import { identifyPid } from '../../engine/base/platform.ts'
import { realTime, sleep } from '../../lib/waiting.ts'
import { processes } from './processes.ts'

export interface ProgramOptions {
  readonly command: readonly string[]
  readonly directory: string
  readonly env: NodeJS.ProcessEnv
  /** Destination of its output: the same as this process's, or all of it to stderr. */
  readonly output: 'inherit' | 'stderr'
}

export interface Exit {
  readonly exitCode: number | null
  readonly signal: NodeJS.Signals | null
}

const hasGroups = process.platform !== 'win32'

/** Waits for a word; end of input without a word means that the supervisor of the group is dead. */
const guardian = 'read -r word && [ "$word" = over ] && exit 0; kill -s KILL -- "-$0" 2>/dev/null'

export class Program {
  readonly pid: number
  /** Resolves when the first process has ended. */
  readonly exited: Promise<Exit>
  readonly #child: ChildProcess
  readonly #guardian: ChildProcess | null
  #isOver = false

  private constructor(child: ChildProcess, exited: Promise<Exit>) {
    this.#child = child
    this.pid = child.pid!
    this.exited = exited
    this.#guardian = hasGroups ? guard(this.pid) : null
    exited.then(() => {
      this.#isOver = true
    })
  }

  static async start({ command, directory, env, output }: ProgramOptions): Promise<Program> {
    const child = spawn(command[0]!, command.slice(1), {
      cwd: directory,
      env,
      stdio: ['inherit', output === 'stderr' ? 2 : 'inherit', 'inherit'],
      detached: hasGroups,
      windowsHide: true,
    })
    const exited = new Promise<Exit>((resolve) => {
      child.once('exit', (exitCode, signal) => resolve({ exitCode, signal }))
    })
    if (child.pid === undefined) {
      const error = await new Promise<Error>((resolve) => child.once('error', resolve))
      const what = `${command[0]} cannot be started: ${error.message}`
      throw new RepriseError('INVALID_ARGUMENT', what, { command: [...command] }, error)
    }
    child.on('error', () => undefined)
    return new Program(child, exited)
  }

  /** Namespace, pid and start time. */
  get identity(): string {
    return identifyPid(this.pid)
  }

  get isOver(): boolean {
    return this.#isOver
  }

  /** Signals the whole group. False: no process of it is left. */
  signal(signal: NodeJS.Signals | 0): boolean {
    try {
      if (hasGroups) process.kill(-this.pid, signal)
      else return this.#child.kill(signal)
      return true
    } catch {
      return false
    }
  }

  /** After the first process has ended: the rest of its group has this long to end, then it is killed. */
  async sweep(waitMs: number): Promise<void> {
    const until = performance.now() + waitMs
    while (performance.now() < until && (await this.#isLeft())) await sleep(realTime, 20)
    for (let attempt = 0; attempt < 500 && (await this.#isLeft()); attempt++) {
      this.signal('SIGKILL')
      await sleep(realTime, 10)
    }
    this.#guardian?.stdin?.end('over\n')
  }

  /** True if a process of the group still runs. A zombie counts as ended. */
  async #isLeft(): Promise<boolean> {
    if (!hasGroups || !this.signal(0)) return false
    const rows = await processes()
    return rows?.some(({ group, isZombie }) => group === this.pid && !isZombie) ?? true
  }
}

function guard(group: number): ChildProcess {
  const child = spawn('/bin/sh', ['-c', guardian, String(group)], {
    stdio: ['pipe', 'ignore', 'ignore'],
    // Not in our group: a Ctrl-C in the terminal, or a kill of our group, must not end it.
    detached: true,
  })
  child.on('error', () => undefined)
  child.stdin?.on('error', () => undefined)
  child.unref()
  return child
}

/** The exit code a shell would report. @example exitCodeOf({ exitCode: null, signal: 'SIGKILL' }) // 137 */
export function exitCodeOf({ exitCode, signal }: Exit): number {
  return exitCode ?? 128 + (signal === null ? 0 : (constants.signals[signal] ?? 0))
}
