// reprise dev: runs the server and a module's definitions, restarted whenever one of its files changes. The new process takes
// over once its code is loaded, and continues the runs in flight.

import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync, type FSWatcher, readdirSync, readFileSync, watch } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { RepriseError } from '../../core/errors.ts'
import { type Command, flag, type Options, text } from '../command.ts'
import { devEnvironment } from '../dev-channel.ts'
import { exit } from '../exit.ts'
import { onInterrupt } from '../interrupt.ts'
import { logFormat } from '../serve-log.ts'
import { loadServer } from './serve.ts'

/** Editors write a file in several steps. */
const settleMs = 100
const foldersMax = 1000

interface Server {
  readonly child: ChildProcess
  readonly loaded: Promise<boolean>
  /** False: the process ended before it answered requests. */
  readonly serves: Promise<boolean>
  readonly closed: Promise<number>
}

const dev: Command = async ({ args, options, output, isVerbose }) => {
  const file = args[0]!
  if (!existsSync(file)) throw new RepriseError('NOT_FOUND', `there is no file ${file}`, { file })
  await loadServer()
  if (logFormat(options) === 'json') output.logJson()
  const interruption = onInterrupt(output, 'finishing the work in flight')
  const argv = [...serveArguments(file, options), ...(isVerbose ? ['--verbose'] : [])]
  /** At most one: the code that runs. */
  const running: Server[] = []
  const isRunning = (server: Server) => running.includes(server) && !interruption.isAsked
  let end: (code: number) => void = () => undefined
  const ended = new Promise<number>((resolve) => {
    end = resolve
  })
  let isPending = false
  const replace = async () => {
    isPending = false
    if (interruption.isAsked) return
    const next = start(argv, running.length > 0)
    if (!(await next.loaded)) {
      output.note(running.length > 0 ? 'the previous code keeps running; save again' : 'save again to start')
      return
    }
    for (const { child, closed } of running.splice(0)) {
      child.kill('SIGTERM')
      await closed
    }
    running.push(next)
    next.child.send('go')
    // A port in use, or a store that cannot be opened: editing the code does not help.
    if (!(await next.serves)) end(await next.closed)
    else
      void next.closed.then(
        (code) => isRunning(next) && output.note(`the server ended (exit code ${code}); save again`),
      )
  }
  let turn = replace()
  const tokens = resolve(text(options, 'token-file') ?? '')
  const watching = new Watching(dirname(resolve(file)), (changed) => {
    if (isPending || changed === tokens) return
    isPending = true
    output.note(`${relative(process.cwd(), changed)} changed`)
    turn = turn.then(replace)
  })
  const failed = await Promise.race([interruption.requested, ended])
  watching.close()
  await turn
  for (const { child } of running) child.kill('SIGTERM')
  const codes = await Promise.all(running.map(({ closed }) => closed))
  interruption.off()
  if (typeof failed === 'number') return failed
  return codes.every((code) => code === 0) ? exit.ok : exit.interrupted
}

export default dev

function serveArguments(file: string, options: Options): string[] {
  const argv = ['serve', '--work', '--module', file]
  for (const name of ['port', 'url', 'namespace', 'blobs', 'keys', 'token-file', 'log']) {
    const value = text(options, name)
    if (value !== undefined) argv.push(`--${name}`, value)
  }
  if (flag(options, 'open')) argv.push('--open')
  return argv
}

/** In a process group of its own: Ctrl-C on the terminal is received here, and forwarded once. */
function start(argv: readonly string[], isReload: boolean): Server {
  const bin = fileURLToPath(new URL('../bin.cjs', import.meta.url))
  const child = spawn(process.execPath, [bin, ...argv], {
    env: { ...process.env, ...devEnvironment(isReload) },
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    detached: true,
  })
  const closed = new Promise<number>((done) => void child.once('close', (code) => done(code ?? 1)))
  const reported = (wanted: string) =>
    new Promise<boolean>((done) => {
      child.on('message', (message) => message === wanted && done(true))
      void closed.then(() => done(false))
    })
  return { child, loaded: reported('loaded'), serves: reported('serving'), closed }
}

/**
 * Calls `onChange`, once for several changes in a row, when a source below the folder changed, or JSON that one imports.
 * Packages and hidden folders are skipped.
 */
class Watching {
  readonly #root: string
  readonly #onChange: (file: string) => void
  readonly #watchers = new Map<string, FSWatcher>()
  #timer: NodeJS.Timeout | undefined
  #isClosed = false

  constructor(root: string, onChange: (file: string) => void) {
    this.#root = root
    this.#onChange = onChange
    this.#look(root)
  }

  close(): void {
    this.#isClosed = true
    clearTimeout(this.#timer)
    for (const watcher of [...this.#watchers.values()]) watcher.close()
  }

  #look(folder: string): void {
    if (this.#isClosed || this.#watchers.has(folder) || this.#watchers.size >= foldersMax) return
    try {
      const entries = readdirSync(folder, { withFileTypes: true })
      const watcher = watch(folder, (_, name) => this.#onFileChange(folder, name))
      watcher.once('error', () => watcher.close())
      watcher.once('close', () => this.#watchers.delete(folder))
      this.#watchers.set(folder, watcher)
      for (const entry of entries) {
        if (entry.isDirectory() && isOwn(entry.name)) this.#look(join(folder, entry.name))
      }
    } catch {
      // Not a folder, or already gone.
    }
  }

  /** A step may write data next to its code: a restart for it would repeat the step for ever. */
  #isImported(name: string): boolean {
    const isImport = (line: string) => /\b(?:from|import|require)\b/.test(line) && /['"/]$/.test(line.split(name)[0]!)
    const imports = (file: string) =>
      readFileSync(file, 'utf8')
        .split('\n')
        .some((line) => line.includes(name) && isImport(line))
    try {
      return [...this.#watchers.keys()].some((folder) =>
        readdirSync(folder).some((file) => sources.test(file) && imports(join(folder, file))),
      )
    } catch {
      // A file that is being replaced: its own change is reported, too.
      return false
    }
  }

  #onFileChange(folder: string, name: string | null): void {
    if (name === null || !isOwn(name)) return
    const path = join(folder, name)
    const isSource = sources.test(name) || (name.endsWith('.json') && this.#isImported(name))
    if (!isSource) {
      this.#look(path)
      return
    }
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => {
      this.#look(this.#root)
      this.#onChange(path)
    }, settleMs)
  }
}

const sources = /\.[cm]?[jt]sx?$/

function isOwn(name: string): boolean {
  return name !== 'node_modules' && !name.startsWith('.')
}
