// Several processes on the rules of the SQLite store, over one real file: every seed is a schedule of their statements, with
// trims, collections, rollbacks, forgotten timelines, takeovers and pauses between any two of them. The oracle is outside: it
// knows the acknowledged writes, and reads them through a new process.

import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { FileOracle } from './file-oracle.mjs'
import { FileProcess } from './file-threads.mjs'
import { SeededRandom } from './random.mjs'
import { Violation } from './violation.mjs'

const operationsPerSeed = 60
/** The main activity of a seed: histories that grow and are trimmed, or timelines that are created and forgotten. */
const growing = {
  append: 30,
  appendMany: 6,
  take: 10,
  checkpoint: 8,
  trim: 10,
  branch: 4,
  forget: 5,
  release: 3,
  send: 3,
  tidy: 16,
  beat: 2,
  retire: 2,
  chunks: 2,
  vacuum: 1,
  reopen: 3,
  inspect: 2,
  look: 2,
  sleep: 14,
}
const changing = { ...growing, append: 12, appendMany: 2, take: 26, forget: 14, tidy: 24, sleep: 22 }

/** Threads take long to start: they are kept for the next seed. @type {FileProcess[]} */
let threads = []

/**
 * `beforeStatement` runs before each statement of a process: a test pauses there, as a busy machine does.
 *
 * @param {number} seed @param {{ readonly plant?: string | null, readonly print?: ((line: string) => void) | null,
 *   readonly beforeStatement?: () => void }} options
 * @returns {Promise<{ violation: Violation | null, traceHash: number, events: number,
 *   replays: readonly { readonly share: number }[] }>}
 */
export async function simulateFile(seed, { plant = null, print = null, beforeStatement = () => {} } = {}) {
  if (threads.length === 0) threads = ['a', 'b', 'c', 'witness'].map((name) => new FileProcess(name))
  for (const thread of threads) await thread.started
  const folder = mkdtempSync(join(existsSync('/dev/shm') ? '/dev/shm' : tmpdir(), 'reprise-simulation-'))
  const [witness, ...processes] = [...threads].reverse()
  const run = new FileRun(seed, { file: join(folder, 'store.db'), plant, print, beforeStatement, processes, witness })
  /** @type {Violation | null} */
  let violation = null
  try {
    run.all()
  } catch (error) {
    if (!(error instanceof Violation)) throw error
    violation = error
  } finally {
    run.end()
    rmSync(folder, { recursive: true, force: true })
  }
  return { violation, traceHash: run.traceHash, events: run.statements, replays: [] }
}

class FileRun {
  /** How many times a process stood before a statement and was given leave. */
  statements = 0
  traceHash = 0x811c9dc5
  #random
  #weights
  #options
  #oracle
  #now = 1000
  #made = 0
  #retired = 0
  #names = []
  /** Each process's view of its timelines, and its pause. */
  #beliefs = new Map()
  #asleep = new Map()
  #spaces = new Map()
  #under = new Map()

  constructor(seed, options) {
    this.#random = new SeededRandom(seed)
    this.#weights = this.#random.chance(0.5) ? growing : changing
    this.#options = options
    this.#oracle = new FileOracle()
    for (let i = 0; i < 3; i++) this.#newName()
  }

  all() {
    const { processes, witness, file, plant } = this.#options
    const hasTwoSpaces = this.#random.chance(0.3)
    const gate = this.#random.chance(0.15) ? 'every' : 'between'
    for (const process of processes) {
      const namespace = hasTwoSpaces && process.name === 'c' ? 'other' : 'default'
      this.#beliefs.set(process, new Map())
      this.#spaces.set(process, namespace)
      process.run('open', { file, namespace, gate, plant }, this.#now)
    }
    witness.run('open', { file, namespace: 'default', readOnly: true, gate: 'never' }, this.#now)
    for (let begun = 0; begun < operationsPerSeed; ) begun += this.#turn() ? 1 : 0
    this.#finish((process) => this.#stepOf(process))
    this.#check(true)
  }

  end() {
    const { processes, witness } = this.#options
    this.#finish((process) => process.step())
    for (const process of [...processes, witness]) process.run('close', {}, this.#now)
  }

  /** In turn: one of them may hold the lock that another waits for. */
  #finish(step) {
    const { processes } = this.#options
    while (processes.some((process) => process.isBusy)) {
      for (const process of processes) if (process.isBusy) step(process)
    }
  }

  /** A process executes one statement or a few, or starts an operation; true if it started one. */
  #turn() {
    const awake = this.#options.processes.filter((process) => !this.#isAsleep(process))
    const process = this.#random.pick(awake.length > 0 ? awake : this.#options.processes)
    if (process.isBusy) {
      for (let more = true; more && process.isBusy; more = this.#random.chance(0.8)) this.#stepOf(process)
      return false
    }
    this.#now += 10
    this.#begin(process)
    return true
  }

  #isAsleep(process) {
    const turns = this.#asleep.get(process) ?? 0
    if (turns > 0) this.#asleep.set(process, turns - 1)
    return turns > 0
  }

  #begin(process) {
    const name = this.#random.weighted(this.#weights)
    if (name === 'sleep') {
      this.#asleep.set(process, 20 + this.#random.int(200))
      return
    }
    const asked = this.#plan(process, name)
    if (!asked) return
    this.#under.set(process, asked)
    this.#note(`${process.name} begins ${asked.name} ${JSON.stringify(asked.given).slice(0, 100)}`)
    this.#hear(process, process.begin(asked.name, asked.given, this.#now))
  }

  #stepOf(process) {
    this.statements += 1
    this.#options.beforeStatement()
    this.#hear(process, process.step())
  }

  #plan(process, name) {
    this.#made += 1
    const operation = `o${this.#made}`
    const own = [...this.#beliefs.get(process).values()]
    const mine = own.length > 0 ? this.#random.pick(own) : null
    const guarded = (parts) =>
      mine && {
        name: 'commit',
        given: { commit: { operation, guard: { timeline: mine.timeline, epoch: mine.epoch }, ...parts } },
      }
    switch (name) {
      case 'append':
        return mine && { name: 'append', given: { appends: [this.#appendTo(mine, operation)] } }
      case 'appendMany':
        return (
          mine && { name: 'append', given: { appends: own.map((one, i) => this.#appendTo(one, `${operation}.${i}`)) } }
        )
      case 'take':
        return {
          name: 'take',
          given: { timeline: this.#random.pick(this.#names), operation, worker: workerOf(process, this.#retired) },
        }
      case 'checkpoint':
        return mine && { name: 'checkpoint', given: { ...mine, operation } }
      case 'trim': {
        const record = mine?.checkpoints.at(-1)
        return record && guarded({ trim: { seq: record.seq, digest: record.digest, restsOn: [record.id] } })
      }
      case 'branch': {
        const point = mine && this.#random.pick(mine.points)
        if (!point) return null
        const archive = `${mine.timeline}~${operation}`
        return guarded({ branch: { archive, ...point, floor: { seq: mine.floor, digest: mine.floorDigest } } })
      }
      case 'forget': {
        if (!mine) return null
        const { timeline, life = 1, epoch, seq, digest } = mine
        return guarded({ forget: true, guard: { timeline, life, epoch, seq, digest } })
      }
      case 'release':
        return guarded({ release: true })
      case 'look':
        return { name, given: { names: this.#names } }
      case 'send':
        return { name: 'send', given: { to: this.#random.pick(this.#names), operation } }
      case 'retire':
        return {
          name: 'retire',
          given: { worker: workerOf(this.#random.pick(this.#options.processes), this.#retired++) },
        }
      case 'beat':
        return { name, given: { worker: workerOf(process, this.#retired) } }
      case 'chunks':
        return { name: 'chunks', given: { text: `chunk ${this.#random.int(4)}` } }
      default:
        return { name, given: {} }
    }
  }

  #appendTo({ timeline, epoch, seq, digest }, operation) {
    const texts = Array.from({ length: 1 + this.#random.int(3) }, (_, i) => `${operation} ${i}`)
    return { timeline, operation, epoch, seq, digest, texts }
  }

  #hear(process, answer) {
    if (!answer) return
    const { name } = this.#under.get(process)
    if (!answer.ok) throw new Violation('G1', `${process.name} ${name}: ${answer.code} ${answer.message}`)
    const { commits = [], outcomes = [], digest } = answer.value ?? {}
    for (const [i, commit] of commits.entries()) {
      this.#note(`${process.name} ${name} ${commit.guard.timeline}: ${JSON.stringify(outcomes[i])}`)
      this.#learn(process, commit, outcomes[i], digest)
    }
    this.#check(false)
  }

  /** The oracle hears of it first, and then the process believes it. */
  #learn(process, commit, outcome, digest) {
    const { timeline } = commit.guard
    const space = this.#spaces.get(process)
    const beliefs = this.#beliefs.get(process)
    this.#oracle.note(space, commit, outcome, digest)
    if (!outcome.ok) {
      // It learns that it lost it; now and then it does not take no for an answer.
      if (this.#random.chance(0.7)) beliefs.delete(timeline)
      return
    }
    const known = this.#oracle.find(space, timeline)
    if (known) beliefs.set(timeline, { timeline, ...structuredClone(known) })
    else beliefs.delete(timeline)
    if (commit.forget) this.#newName()
  }

  #note(text) {
    for (let i = 0; i < text.length; i++) this.traceHash = Math.imul(this.traceHash ^ text.charCodeAt(i), 0x01000193)
    this.#options.print?.(text)
  }

  #newName() {
    this.#made += 1
    this.#names = [...this.#names.slice(-3), `t${this.#made}`]
  }

  #check(isLast) {
    const names = this.#oracle.names('default')
    for (const fresh of isLast || this.#random.chance(0.2) ? [false, true] : [false]) {
      const given = { names, fresh, deep: isLast }
      this.#oracle.compare('default', names, this.#options.witness.run('look', given, this.#now))
    }
  }
}

/** After each retirement every process continues under a new name. */
function workerOf(process, retired) {
  return `${process.name}${retired}`
}
