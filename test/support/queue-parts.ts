// Brokers with queues that tests start: RabbitMQ and Redis from the path, ElasticMQ (the API of SQS) from Maven. Where one is
// unavailable, the reason is printed and the tests that need it are skipped.

import { spawn, spawnSync } from 'node:child_process'
import { chmodSync, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePort, mavenJars, type RunningPart, started } from './parts.ts'
import { pause } from './until.ts'

type Again = { readonly port: number; readonly folder: string }

const elasticMqVersion = '1.7.1'

function isOnPath(name: string, what: string): boolean {
  if (spawnSync('sh', ['-c', `command -v ${name}`]).status === 0) return true
  console.warn(`${what} is not on the path, tests that need it are left out`)
  return false
}

export function hasRedis(): boolean {
  return isOnPath('redis-server', 'Redis')
}

export function hasRabbitMq(): boolean {
  return isOnPath('rabbitmq-server', 'RabbitMQ')
}

/** Every write is on disk before it is answered. `again`: the port and the folder of one that was killed. */
export async function startRedis(again?: Again): Promise<RunningPart> {
  const folder = again?.folder ?? mkdtempSync(join(tmpdir(), 'reprise-redis-'))
  const port = again?.port ?? (await freePort())
  const options = ['--port', String(port), '--bind', '127.0.0.1', '--dir', folder, '--save', '']
  const durable = ['--appendonly', 'yes', '--appendfsync', 'always']
  const child = spawn('redis-server', [...options, ...durable], { stdio: 'ignore' })
  return await started(child, port, folder)
}

/** A node of its own, with its data and its port mapper in its folder. */
export async function startRabbitMq(again?: Again): Promise<RunningPart> {
  const folder = again?.folder ?? mkdtempSync(join(tmpdir(), 'reprise-rabbit-'))
  const port = again?.port ?? (await freePort())
  const [mapper, dist] = [await freePort(), await freePort()]
  // The scripts of Debian change to the user `rabbitmq`.
  chmodSync(folder, 0o777)
  const config = join(folder, 'rabbitmq.conf')
  writeFileSync(config, `listeners.tcp.default = 127.0.0.1:${port}\nloopback_users = none\n`)
  writeFileSync(join(folder, 'plugins'), '[].')
  const env = {
    ...process.env,
    HOME: folder,
    ERL_EPMD_PORT: String(mapper),
    ERL_EPMD_ADDRESS: '127.0.0.1',
    RABBITMQ_NODENAME: `reprise-${port}@localhost`,
    RABBITMQ_DIST_PORT: String(dist),
    RABBITMQ_MNESIA_BASE: join(folder, 'data'),
    RABBITMQ_LOG_BASE: join(folder, 'log'),
    RABBITMQ_CONFIG_FILE: config,
    RABBITMQ_ENABLED_PLUGINS_FILE: join(folder, 'plugins'),
    RABBITMQ_PID_FILE: join(folder, 'pid'),
    RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS: '+S 1:1 +A 8',
  }
  // The script starts the node in the same group of processes, which are killed together.
  const script = existsSync('/usr/lib/rabbitmq/bin/rabbitmq-server')
    ? '/usr/lib/rabbitmq/bin/rabbitmq-server'
    : 'rabbitmq-server'
  const child = spawn(script, [], { env, stdio: 'ignore', detached: true })
  const part = await started(child, port, folder)
  const ended = new Promise<void>((resolve) => void child.once('exit', () => resolve()))
  const kill = async () => {
    process.kill(-child.pid!, 'SIGKILL')
    await ended
  }
  const stop = async () => {
    await kill()
    spawnSync('sh', ['-c', `ERL_EPMD_PORT=${mapper} epmd -port ${mapper} -kill`])
    rmSync(folder, { recursive: true, force: true })
  }
  return { ...part, kill, stop }
}

/** The folder of ElasticMQ's jars; null: they cannot be had here. */
export function elasticMqJars(): string | null {
  const server = ['org.elasticmq', 'elasticmq-server_2.13', elasticMqVersion] as const
  return mavenJars(`elasticmq-${elasticMqVersion}`, 'ElasticMQ', [server])
}

/** Its messages are on disk, so that they survive a kill. */
export async function startElasticMq(libs: string, again?: Again): Promise<RunningPart> {
  const folder = again?.folder ?? mkdtempSync(join(tmpdir(), 'reprise-elasticmq-'))
  const port = again?.port ?? (await freePort())
  const file = join(folder, 'elasticmq.conf')
  const lines = [
    'include classpath("application.conf")',
    // The queues that it had before a kill are read as configuration.
    ...(again ? [`include file("${join(folder, 'queues.conf')}")`] : []),
    `node-address { protocol = http, host = "127.0.0.1", port = ${port}, context-path = "" }`,
    `rest-sqs { enabled = true, bind-port = ${port}, bind-hostname = "127.0.0.1", sqs-limits = strict }`,
    'rest-stats { enabled = false }',
    `messages-storage { enabled = true, uri = "jdbc:h2:file:${join(folder, 'messages')}" }`,
    `queues-storage { enabled = true, path = "${join(folder, 'queues.conf')}" }`,
  ]
  writeFileSync(file, lines.join('\n'))
  const java = ['-Xmx128m', '-XX:TieredStopAtLevel=1', `-Dconfig.file=${file}`, '-cp', `${libs}/*`]
  const child = spawn('java', [...java, 'org.elasticmq.server.Main'], { stdio: 'ignore' })
  const part = await started(child, port, folder)
  // The port is open before the queues are.
  await pause(100)
  return part
}
