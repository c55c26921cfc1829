// A job under random SIGKILLs, several processes at once, and an account of every item kept outside the store.

import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { open } from '../../src/index.ts'
import { exportProgress } from '../../src/layers/job/index.ts'
import { wrongIn } from '../support/outside.ts'
import { programPath } from '../support/programs.ts'
import { pause } from '../support/until.ts'

const program = programPath('job-worker')

export interface KillPlan {
  readonly url: string
  readonly namespace: string
  readonly items: number
  readonly kills: number
  readonly processes: number
  readonly shards: number
  readonly concurrency: number
}

export interface KillReport {
  readonly kills: number
  readonly skipped: readonly string[]
  readonly repeated: number
  /** Items started again after the store reported them as done. */
  readonly afterAcknowledgement: readonly string[]
  readonly failures: readonly string[]
  /** Counted by key, as by a receiver that honours keys. */
  readonly wrong: string | null
}

export async function killSweep(plan: KillPlan): Promise<KillReport> {
  const folder = mkdtempSync(join(tmpdir(), 'reprise-kill-'))
  const ledger = join(folder, 'ledger.txt')
  const job = 'swept'
  const failures: string[] = []
  const acknowledged = new Set<string>()
  const afterAcknowledgement: string[] = []
  let checkedUpTo = 0
  let kills = 0
  const lines = () => {
    try {
      const text = readFileSync(ledger, 'utf8')
      return text
        .slice(0, text.lastIndexOf('\n') + 1)
        .split('\n')
        .filter(Boolean)
    } catch {
      return []
    }
  }
  const check = () => {
    const all = lines()
    for (const key of all.slice(checkedUpTo)) if (acknowledged.has(key)) afterAcknowledgement.push(key)
    checkedUpTo = all.length
  }
  const start = () => new Worker(plan.url, plan.namespace, job, plan.items, plan.shards, plan.concurrency, ledger)
  let workers = Array.from({ length: plan.processes }, start)
  try {
    while (kills < plan.kills) {
      const victim = workers[Math.floor(Math.random() * workers.length)]!
      await moment(victim, () => lines().length)
      const ended = workers.find((worker) => worker.exit !== null && worker !== victim)
      if (victim.exit === null) {
        victim.child.kill('SIGKILL')
        await victim.closed
        kills += 1
      }
      if (victim.exit?.code !== 0 && victim.exit?.signal !== 'SIGKILL') failures.push(victim.errors)
      // First the items that are done in the store, then those started so far: a later start of a done item is a fault.
      const finished = await finishedKeys(plan, job)
      check()
      for (const key of finished) acknowledged.add(key)
      if (victim.exit?.code === 0 || ended?.exit?.code === 0) break
      workers = workers.map((worker) => (worker === victim ? start() : worker))
    }
    workers = workers.map((worker) => (worker.exit?.code === 0 ? worker : worker.exit === null ? worker : start()))
    await Promise.all(workers.map((worker) => worker.closed))
    for (const worker of workers) if (worker.exit!.code !== 0) failures.push(worker.errors)
    check()
    const begun = lines()
    const distinct = new Set(begun)
    const skipped = Array.from({ length: plan.items }, (_, i) => `item-${i}`).filter((key) => !distinct.has(key))
    const finished = new Set(await finishedKeys(plan, job))
    for (const key of distinct) if (!finished.has(key)) skipped.push(key)
    return {
      kills,
      skipped,
      repeated: begun.length - distinct.size,
      afterAcknowledgement,
      failures,
      wrong: wrongIn(`${ledger}.calls`),
    }
  } finally {
    for (const worker of workers) worker.child.kill('SIGKILL')
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Mostly while items are in flight, now and then while it starts and recovers. */
async function moment(victim: Worker, begun: () => number): Promise<void> {
  if (Math.random() < 0.2) return await pause(Math.random() * 400)
  const before = begun()
  while (victim.exit === null && begun() === before) await pause(5)
  await pause(Math.random() * 120)
}

async function finishedKeys(plan: KillPlan, job: string): Promise<string[]> {
  const engine = await open(plan.url, { namespace: plan.namespace, worker: 'oracle' })
  try {
    const keys: string[] = []
    const ids = plan.shards === 1 ? [`job/${job}`] : Array.from({ length: plan.shards }, (_, i) => `job/${job}/${i}`)
    for (const id of ids) {
      if (!(await engine.head(id))) continue
      for await (const line of exportProgress(engine, id)) keys.push(line.key!)
    }
    return keys
  } finally {
    await engine.close()
  }
}

class Worker {
  readonly child: ChildProcess
  readonly closed: Promise<void>
  exit: { readonly code: number | null; readonly signal: string | null } | null = null
  errors = ''

  constructor(...args: readonly (string | number)[]) {
    this.child = spawn(process.execPath, [program, ...args.map(String)], { stdio: ['ignore', 'pipe', 'pipe'] })
    this.child.stderr!.on('data', (piece: Buffer) => {
      this.errors += piece.toString()
    })
    this.child.stdout!.resume()
    this.closed = new Promise((resolve) =>
      this.child.once('close', (code, signal) => {
        this.exit = { code, signal }
        resolve()
      }),
    )
  }
}
