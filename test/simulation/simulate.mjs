// One simulation: several engines over one disk under one seed, from a calm start through faults to a healed end, with
// audits on the way. Everything that decides anything comes from the seed, so a seed and a plant are a whole bug report.

import { toHex } from '../../dist/core/coordinate.js'
import { createEngine } from '../../dist/store.js'
import { hostOf } from '../support/host.mjs'
import { audit } from './audit.mjs'
import { Disk } from './disk.mjs'
import { Faults } from './faults.mjs'
import { createModels, isOfStore } from './models.mjs'
import { Oracle } from './oracle.mjs'
import { plantedPort } from './plants.mjs'
import { SeededRandom } from './random.mjs'
import { drain, Scheduler } from './scheduler.mjs'
import { sha256 } from './sha256.mjs'
import { createStore } from './store.mjs'
import { stackOf, Violation } from './violation.mjs'
import { User } from './workload.mjs'

/** Activities that some seeds have more of than others. */
const themes = [
  {},
  {},
  { rollback: 5, collect: 5, checkpoint: 6, append: 12 },
  // A parent that moves on, trims and drops, with forks that it must not leave behind.
  { isNarrow: true, append: 16, fork: 3, follow: 8, checkpoint: 8, collect: 6, rest: 2, effect: 0, send: 0, drill: 0 },
]
const startOfTime = 1_800_000_000_000
const tickMs = 60
const healMs = 60_000

/**
 * @param {number} seed @param {{ readonly plant?: string | null, readonly print?: ((line: string) => void) | null }} options
 * @returns {Promise<{ violation: Violation | null, traceHash: number, events: number,
 *   replays: readonly { readonly share: number }[] }>}
 */
export async function simulate(seed, { plant = null, print = null } = {}) {
  const sim = new Simulation(seed, plant, print)
  // Most errors here are expected refusals; their stacks cost more than they are worth. A repeated seed shows them.
  const { stackTraceLimit } = Error
  if (!print) Error.stackTraceLimit = 0
  try {
    await sim.run()
  } catch (error) {
    if (!(error instanceof Violation)) sim.violation ??= new Violation('BUG', stackOf(error))
  }
  Error.stackTraceLimit = stackTraceLimit
  const { violation, scheduler, replays } = sim
  return { violation, traceHash: scheduler.traceHash, events: scheduler.events, replays }
}

class Simulation {
  /** @type {Violation | null} */
  violation = null
  restarts = 0
  listeners = new Set()
  underWay = new Set()
  savepoints = []
  /** For each recovery of a handle: the entries replayed, as a share of the interval of its policy. */
  replays = []
  keyed = new Map()
  nextNumber = 1
  nextMessage = 1
  nextFork = 1
  isStopping = false
  isCaughtUp = false
  processes = []
  #isAuditDue = false
  #nextProcess = 0

  constructor(seed, plant, print) {
    this.plant = plant
    this.scheduler = new Scheduler(print)
    this.random = new SeededRandom(seed)
    // Not drawn: what else a seed does stays as it was.
    this.lanes = 1 + (seed % 2)
    /** Digests of chunks that are gone, or were until they were put again. */
    this.swept = new Set()
    this.models = createModels()
    this.faults = new Faults(this.random)
    this.fail = (promise, message) => {
      this.violation ??= new Violation(promise, message)
      this.scheduler.note(`VIOLATION ${promise} ${message}`)
    }
    this.databaseTime = () => startOfTime + Math.round(this.scheduler.now)
    this.oracle = new Oracle(this.models, this.fail)
    this.disk = new Disk({ oracle: this.oracle, random: this.random, plant, clock: this.databaseTime })
    const { isNarrow = false, ...theme } = this.random.pick(themes)
    this.habits = this.#drawHabits(theme)
    this.options = {
      lease: this.random.pick([250, 900]),
      grace: isNarrow ? 60 : this.random.pick([60, 250, 1000, 4000]),
      patience: this.random.pick([80, 500]),
    }
    this.hasStranger = seed % 5 === 3
    // In these, a process with put chunks may be paused before it publishes them, while another collects. Drawn separately, so
    // that other seeds stay unchanged.
    this.pausesOfSavers = seed % 4 === 1 ? new SeededRandom(0x5a5e + seed) : null
    // In these, the answer of an outside call may be lost after its effect. Drawn separately, too.
    this.flaky = seed % 3 === 1 ? new SeededRandom(0x1ed6e4 + seed) : null
    this.timelines = isNarrow ? [this.random.pick(['log/a', 'led/a']), 'tail/t'] : this.#drawTimelines()
    // Most of the work goes to the stranger: a policy that reaches too far shows only where there is something to lose.
    if (this.hasStranger) this.timelines.push('logbook/a', 'logbook/a', 'logbook/a', 'logbook/a')
    this.thinkMs = this.random.pick([5, 40, 150])
    this.operationsLeft = isNarrow || this.hasStranger ? 30 : 8 + this.random.int(30)
  }

  /** Sometimes all of them, sometimes all processes at the same one. */
  #drawTimelines() {
    const all = ['doc/a', 'map/a', 'log/a', 'led/a', 'log/b']
    const kept = all.filter(() => this.random.chance(0.5))
    return [...(kept.length > 0 ? kept : [this.random.pick(all)]), 'tail/t']
  }

  /** Each seed has its own: some never roll back, others do little else. */
  #drawHabits(theme) {
    const usual = { append: 8, burst: 4, appendKeyed: 3, open: 2, close: 1, checkpoint: 3, savepoint: 1, release: 0.5 }
    const tools = { fork: 1, rollback: 1, at: 1, collect: 2, verify: 0.5, drill: 0.5 }
    const others = { effect: 1.5, send: 1, consume: 2, follow: 3, rest: 0.5 }
    const habits = { ...usual, ...tools, ...others, ...theme }
    for (const name in habits) if (this.random.chance(0.4)) habits[name] *= this.random.pick([0, 0.3, 3, 6])
    habits.append ||= 4
    return habits
  }

  async run() {
    const count = 2 + this.random.int(2)
    for (let i = 0; i < count; i++) this.processes.push(this.start(i % 2))
    await this.#setUp()
    this.faults.isCalm = false
    this.scheduler.after(tickMs, null, () => this.#tick())
    while (!this.violation && (this.operationsLeft > 0 || this.underWay.size > 0)) {
      if (!(await this.scheduler.step())) break
      if (this.scheduler.now > healMs) break
      if (this.#isAuditDue) await this.#audit()
    }
    await this.#heal()
  }

  /** A new process on one of the hosts, with a skewed clock and users at work. */
  start(host) {
    const number = this.#nextProcess++
    const process = {
      name: `p${number}`,
      host: `host${host}`,
      hostIndex: host,
      isDead: false,
      pausedUntil: 0,
      skewMs: this.random.between(-300_000, 300_000),
      handles: new Map(),
      isFollowing: false,
    }
    const { scheduler, random } = this
    const bornAt = scheduler.now
    const isGone = (other, own) =>
      other.host === own.host && !this.processes.some((one) => one.name === other.process && !one.isDead)
    process.engine = createEngine(
      {
        store: createStore(this, process),
        clock: {
          now: () => Math.round(startOfTime + scheduler.now + process.skewMs),
          elapsed: () => scheduler.now - bornAt,
          after: (delayMs, call) => scheduler.after(delayMs, process, call),
          soon: (call) => scheduler.after(random.number() * 0.05, process, call),
          next: (call) => scheduler.after(random.number() * 0.05, process, call),
        },
        random,
        hash: this.hashWith(this.plant),
        identity: { host: process.host, process: process.name },
        isGone,
        ...plantedPort(this.plant),
      },
      { worker: process.name, ...this.options },
    )
    for (const { definition } of Object.values(this.models)) {
      hostOf(process.engine).register(definition.prefix, definition.fold)
    }
    scheduler.note(`${process.name} starts on ${process.host}`)
    return process
  }

  /** Planted: a hash that accepts damaged bytes. */
  hashWith(plant) {
    if (plant !== 'no-checksum') return sha256
    return (bytes) => {
      const digest = sha256(bytes)
      return this.disk.lenient.get(toHex(digest)) ?? digest
    }
  }

  auditSoon() {
    if (this.random.chance(0.15)) this.#isAuditDue = true
  }

  async #audit() {
    this.#isAuditDue = false
    await audit(this)
  }

  /** The consumer's cursor stands at the start before there is anything to trim. */
  async #setUp() {
    const user = new User(this, this.processes[0])
    await this.#until(
      user.handle('tail/t').then(async (handle) => {
        await handle.write([], { cursors: { tail: '' } })
        if (this.random.chance(0.5)) await handle.close()
        if (this.random.chance(0.5)) this.processes[0].handles.delete('tail/t')
      }),
    )
    for (const process of this.processes) this.#employ(process)
  }

  #employ(process) {
    for (let i = 0; i < 2; i++) void new User(this, process).work()
  }

  /** Steps until the promise settles; a promise that nothing can settle any more is a violation. */
  async #until(promise) {
    let state = 'waiting'
    let failure
    promise.then(
      () => (state = 'done'),
      (error) => {
        state = 'failed'
        failure = error
      },
    )
    const until = this.scheduler.now + healMs
    await drain()
    while (state === 'waiting' && !this.violation) {
      if (!(await this.scheduler.step()) || this.scheduler.now > until) {
        this.fail('liveness', 'an operation never settles although nothing fails any more')
      }
    }
    if (state === 'failed') throw failure
  }

  // Faults

  #tick() {
    if (this.isStopping) return
    const { random, faults } = this
    if (random.chance(faults.crash)) this.#crash(random.pick(this.processes))
    if (random.chance(faults.pause)) this.#pause(random.pick(this.processes))
    if (random.chance(faults.powerLoss)) this.#losePower()
    if (random.chance(faults.serverRestart)) this.#restartServer()
    if (random.chance(faults.clockJump)) random.pick(this.processes).skewMs = random.between(-300_000, 300_000)
    if (random.chance(faults.rot)) {
      const cell = this.disk.rot(faults.rotKinds)
      if (cell) this.scheduler.note(`rot in ${cell.kind} ${cell.where}`)
    }
    this.scheduler.after(tickMs, null, () => this.#tick())
  }

  #kill(process) {
    process.isDead = true
    for (const job of this.underWay) if (job.process === process) this.underWay.delete(job)
    for (const listener of this.listeners) if (listener.process === process) this.listeners.delete(listener)
  }

  /** Its promises never settle, its requests on the wire still arrive; another one starts in its place. */
  #crash(process) {
    this.scheduler.note(`${process.name} crashes`)
    this.#kill(process)
    const next = this.start(process.hostIndex)
    this.processes[this.processes.indexOf(process)] = next
    this.#employ(next)
  }

  #pause(process) {
    const ms = this.random.number() * this.faults.pauseMs
    this.scheduler.note(`${process.name} is paused for ${ms.toFixed(0)} ms`)
    process.pausedUntil = Math.max(process.pausedUntil, this.scheduler.now + ms)
  }

  /**
   * Between the answer to a put and the publication: for a moment, for the duration of a collection, or until the chunks are
   * old and their process counts as dead.
   */
  pauseSaver(process) {
    const random = this.pausesOfSavers
    if (this.isStopping || !random?.chance(0.3)) return
    const { lease, grace } = this.options
    const ms = random.chance(0.7) ? random.number() * 60 : lease + grace + random.number() * 1000
    this.scheduler.note(`${process.name} is paused for ${ms.toFixed(0)} ms behind a put`)
    process.pausedUntil = Math.max(process.pausedUntil, this.scheduler.now + ms)
    const others = this.processes.filter((one) => one !== process && !one.isDead)
    if (others.length > 0) void new User(this, random.pick(others)).doOne('collect')
  }

  /** Disk and all processes at once. */
  #losePower() {
    this.restarts += 1
    const lost = this.disk.losePower()
    this.scheduler.note(`power loss, ${lost} changes gone`)
    for (const process of [...this.processes]) this.#crash(process)
    this.oracle.checkAcknowledged()
    if (this.random.chance(0.3)) this.#isAuditDue = true
  }

  /** Only the server fails: waiting callers get no answer, and some of the work is lost. */
  #restartServer() {
    this.restarts += 1
    const lost = this.disk.losePower()
    this.scheduler.note(`server restarts, ${lost} changes gone`)
    this.oracle.checkAcknowledged()
  }

  // The end

  /** Nothing fails any more: all that is in progress must settle, a new engine must find everything in order. */
  async #heal() {
    this.isStopping = true
    this.faults.isCalm = true
    for (const process of this.processes) process.pausedUntil = Math.min(process.pausedUntil, this.scheduler.now)
    this.scheduler.note('healed')
    const until = this.scheduler.now + healMs
    while (this.underWay.size > 0 && !this.violation) {
      if ((await this.scheduler.step()) && this.scheduler.now < until) continue
      const [job] = this.underWay
      this.fail('liveness', `${job.process.name} ${job.name} never settles although nothing fails any more`)
    }
    if (this.violation) return
    const isPower = this.random.chance(0.5)
    if (isPower) this.disk.losePower()
    for (const process of this.processes) {
      if (isPower || this.random.chance(0.3)) this.#kill(process)
      else await this.#until(process.engine.close())
    }
    if (this.violation) return
    if (this.random.chance(0.3)) await this.#audit()
    if (this.violation) return
    await this.#catchUp()
    if (this.violation) return
    this.oracle.checkDelivered(this.disk.space, this.isCaughtUp)
    await this.#audit()
  }

  /** One new process takes everything over, opens what can be opened, and reads the feed to its end. */
  async #catchUp() {
    const process = this.start(0)
    this.processes = [process]
    const user = new User(this, process)
    for (const row of [...this.disk.space.timelines.values()]) {
      if (row.status === 'archived' || isOfStore(row.id)) continue
      await this.#until(user.attempt('open at the end', () => user.handle(row.id, { takeover: true })))
      if (this.violation) return
    }
    for (let more = true; more && !this.violation; ) {
      more = false
      await this.#until(
        user.attempt('follow to the end', async () => {
          more = await user.follow(50)
          this.isCaughtUp = !more
        }),
      )
    }
    await this.#until(process.engine.close())
  }
}
