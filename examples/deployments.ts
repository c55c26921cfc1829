// A small deployment controller: an object says which command must run and how often, and the controller starts and stops real
// processes until they match. Kill a process and it is started again; kill the controller (kill -9) and the next one
// takes over the processes that still run. It keeps no list of its own: it reads the list of processes, so it cannot lose one.
//
//   npx tsx examples/deployments.ts                                                # a demo: kills at random, and ends by itself
//   npx tsx examples/deployments.ts sqlite:deployments.db                          # runs the controller; start two, kill one
//   npx tsx examples/deployments.ts sqlite:deployments.db web 3 sleep 600          # wants three of them; 0 for none

import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { promisify } from 'node:util'
import { isReprise, open } from 'reprise'
import { controller, type ResourceObject, resource } from 'reprise/resources'

export interface Deployment {
  /** A name of your own, so that two stores on one machine keep their processes apart. */
  readonly cluster: string
  readonly command: readonly [string, ...string[]]
  readonly replicas: number
}

export interface Running {
  /** By number of the replica. */
  readonly pids: readonly number[]
}

export const deployments = resource<Deployment, Running>('deployments')

/** Holds a deleted deployment until its processes have ended. */
const finalizer = 'processes'

export const deploying = controller('deploying', {
  watch: [deployments],
  concurrency: 4,
  retry: { backoff: '200ms', backoffMax: '5s' },
  // The end of a process is not reported, so it is polled.
  every: '200ms',
  async reconcile({ name, object, of, event, report }) {
    if (!object) return
    const { uid, deletingAt, finalizers, spec } = object
    if (deletingAt === undefined && !finalizers.includes(finalizer)) {
      // Before the first process starts. The change calls this function again.
      await of(deployments).change(name, (now) => ({ finalizers: [...now.finalizers, finalizer] }), { uid })
      return
    }
    const wanted = new Set(marksOf(object))
    const pids = new Map<string, number>()
    let isEnding = false
    for (const { pid, mark } of await processesOf(object)) {
      // One process per replica is kept: a controller that was overtaken may have started another one.
      if (wanted.has(mark) && !pids.has(mark)) pids.set(mark, pid)
      else isEnding = end(pid)
    }
    for (const mark of wanted) {
      if (pids.has(mark)) continue
      const pid = await start(spec.command, mark)
      pids.set(mark, pid)
      await event('Started', `${mark} as process ${pid}`)
    }
    if (isEnding) return { requeueAfter: '50ms' }
    if (deletingAt !== undefined) {
      const off = (now: ResourceObject) => ({ finalizers: now.finalizers.filter((each) => each !== finalizer) })
      await of(deployments).change(name, off, { uid })
      return
    }
    await report({
      status: { pids: [...wanted].map((mark) => pids.get(mark)!) },
      conditions: [{ type: 'Ready', status: 'True' }],
    })
    return
  },
})

/** The names of the processes that should run: another command has another name. */
function marksOf(object: ResourceObject<Deployment, Running>): string[] {
  const { command, replicas } = object.spec
  const version = createHash('sha256').update(JSON.stringify(command)).digest('hex').slice(0, 8)
  const count = object.deletingAt === undefined ? replicas : 0
  return Array.from({ length: count }, (_, i) => `${prefixOf(object)}${version}/${i}`)
}

function prefixOf({ uid, spec }: Pick<ResourceObject<Deployment>, 'uid' | 'spec'>): string {
  return `reprise:${spec.cluster}/${uid}/`
}

/**
 * The running processes of a deployment, oldest first. Processes that have ended and wait to be collected no longer have a mark.
 */
export async function processesOf(object: Pick<ResourceObject<Deployment>, 'uid' | 'spec'>) {
  const prefix = prefixOf(object)
  const all = process.platform === 'linux' ? await readProcesses() : await askForProcesses()
  return all.filter(({ mark }) => mark.startsWith(prefix)).sort((a, b) => a.pid - b.pid)
}

/** Not every Linux has a `ps`. */
async function readProcesses() {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name))
  return await Promise.all(
    pids.map(async (pid) => {
      // It may have ended meanwhile.
      const args = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')
      return { pid: Number(pid), mark: args.split('\0')[0]! }
    }),
  )
}

async function askForProcesses() {
  const { stdout } = await promisify(execFile)('ps', ['-A', '-o', 'pid=,args='], { maxBuffer: 64 * 1024 * 1024 })
  return stdout.split('\n').map((line) => {
    const [, pid, mark = ''] = /^\s*(\d+)\s+(\S+)/.exec(line) ?? []
    return { pid: Number(pid), mark }
  })
}

/**
 * The process outlives this one, and its mark is the first word of its command line. Programs that depend on their own name
 * (busybox) need another way.
 */
async function start([command, ...args]: Deployment['command'], mark: string): Promise<number> {
  const child = spawn(command, args, { argv0: mark, detached: true, stdio: 'ignore' })
  await new Promise((resolve, reject) => child.once('spawn', resolve).once('error', reject))
  child.unref()
  return child.pid!
}

function end(pid: number): true {
  try {
    process.kill(pid, 'SIGTERM')
  } catch (error) {
    // It has ended meanwhile.
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
  return true
}

/** From now on, wants this many processes of a command; null: wants the deployment deleted. */
export async function want(url: string, name: string, spec: Deployment | null): Promise<void> {
  const rp = await open(url)
  try {
    const handle = await rp.open(deployments)
    if (!spec) await handle.delete(name)
    else
      await handle.create({ name, spec }).catch(async (error: unknown) => {
        if (!isReprise(error, 'EXISTS')) throw error
        await handle.update({ name, revision: 'any', spec })
      })
  } finally {
    await rp.close()
  }
}

/** Works until this process ends; while another one works, it waits to take over. */
export async function runController(url: string): Promise<void> {
  const rp = await open(url)
  const working = await rp.open(deploying)
  await working.led()
}

/** Two controllers and three processes that are killed at random: in the end each wanted replica runs once. */
async function demo(rounds = 2): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'reprise-deployments-'))
  const url = `sqlite:${join(folder, 'demo.db')}`
  const rp = await open(url)
  const handle = await rp.open(deployments)
  const controllers: ChildProcess[] = []
  const startController = () => {
    controllers.push(spawn(process.execPath, [...process.execArgv, process.argv[1]!, url], { stdio: 'inherit' }))
  }
  // They end by themselves, should this program be killed.
  const command: Deployment['command'] = [process.execPath, '-e', 'setTimeout(() => undefined, 120_000)']
  const web = await handle.create({ name: 'web', spec: { cluster: basename(folder), command, replicas: 3 } })
  const running = async () => (await processesOf(web)).map(({ pid }) => pid)
  const converged = async (replicas: number) => {
    for (;;) {
      const { generation, observedGeneration, status } = (await handle.get('web'))!
      const pids = await running()
      const isSo = pids.length === replicas && pids.every((pid) => status?.pids.includes(pid))
      if (isSo && generation === observedGeneration) return console.log(`${replicas} run: ${pids.join(', ')}`)
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
  }
  try {
    for (let i = 0; i < 2; i++) startController()
    await converged(3)
    for (let round = 0; round < rounds; round++) {
      const replicas = 2 + Math.floor(Math.random() * 3)
      await handle.change('web', ({ spec }) => ({ spec: { ...spec, replicas } }))
      const pids = await running()
      const victim = pids[Math.floor(Math.random() * pids.length)]
      if (victim !== undefined) process.kill(victim, 'SIGKILL')
      const [leader] = controllers.splice(Math.floor(Math.random() * 2), 1)
      leader!.kill('SIGKILL')
      startController()
      console.log(`killed process ${victim} and controller ${leader!.pid}; ${replicas} are wanted`)
      await converged(replicas)
    }
    await handle.delete('web')
    while (await handle.get('web')) await new Promise((resolve) => setTimeout(resolve, 50))
    console.log(`deleted: ${(await running()).length} run`)
  } finally {
    for (const each of controllers) each.kill('SIGKILL')
    for (const pid of await running()) process.kill(pid, 'SIGKILL')
    await rp.close()
    await rm(folder, { recursive: true, force: true, maxRetries: 5 })
  }
}

if (/deployments\.[jt]s$/.test(process.argv[1] ?? '')) {
  const [url, name, replicas, command, ...args] = process.argv.slice(2)
  if (!url) await demo()
  else if (!name) await runController(url)
  else if (Number(replicas) === 0 || !command) await want(url, name, null)
  else await want(url, name, { cluster: url, command: [command, ...args], replicas: Number(replicas) })
}
