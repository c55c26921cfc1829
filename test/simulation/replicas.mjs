// Several replicas of one service command one aggregate, over the simulated disk and under one seed: requests and answers are
// lost, processes crash and pause, power fails. The invariants: every event was decided on the state before it, every
// acknowledged command is in history once, every refusal was right, and no caller gets a fence error.

import { isReprise } from '../../dist/index.js'
import { aggregate, commandTo, Refused, sendCommand } from '../../dist/layers/events/index.js'
import { createEngine } from '../../dist/store.js'
import { Disk } from './disk.mjs'
import { Faults } from './faults.mjs'
import { plantedPort, withoutGuard } from './plants.mjs'
import { SeededRandom } from './random.mjs'
import { drain, Scheduler } from './scheduler.mjs'
import { sha256 } from './sha256.mjs'
import { createStore } from './store.mjs'
import { stackOf } from './violation.mjs'

const startOfTime = 1_800_000_000_000
const tickMs = 60
const healMs = 120_000
/** The answer was lost, or nothing was done: the caller may repeat the call. */
/** @type {import('../../dist/index.js').ErrorCode[]} */
const honest = ['OUTCOME_UNKNOWN', 'STORE_UNREACHABLE']

/** Fresh for each seed: an engine's state of it must not outlive the seed. */
const defineSeats = () =>
  aggregate('seats', {
    initial: () => ({ count: 0, added: 0, taken: {} }),
    evolve: {
      added: (s, e) => ({ ...s, count: s.count + 1, added: s.added + e.by }),
      taken: (s, e) => ({ ...s, count: s.count + 1, taken: { ...s.taken, [e.seat]: e.by } }),
    },
    decide: {
      /** The same for all: two processes may offer exactly the same bytes. */
      add: (s) => ({ type: 'added', by: 1, saw: s.count }),
      take(s, { seat, by }) {
        if (s.taken[seat] !== undefined) throw new Refused(`seat ${seat} is taken`)
        return { type: 'taken', seat, by, saw: s.count }
      },
    },
    checkpoint: { every: 6 },
  })

/**
 * @param {number} seed
 * @param {{ readonly plant?: string | null, readonly print?: ((line: string) => void) | null }} options
 * @returns {Promise<{ violation: string | null, commands: number, refusals: number, displaced: number, events: number }>}
 */
export async function simulateReplicas(seed, { plant = null, print = null } = {}) {
  const sim = new Replicas(seed, plant, print)
  await sim.run()
  const { violation, told, scheduler } = sim
  return { violation, ...told, events: scheduler.events }
}

class Replicas {
  /** @type {string | null} */
  violation = null
  restarts = 0
  lanes = 1
  listeners = new Set()
  swept = new Set()
  told = { commands: 0, refusals: 0, displaced: 0 }
  /** The expected number in history: exactly, or at most. */
  #adds = { acknowledged: 0, unknown: 0 }
  #seats = new Map()
  #nextId = 0
  #underWay = 0
  #isStopping = false
  #processes = []
  #nextProcess = 0

  constructor(seed, plant, print) {
    this.plant = plant
    this.scheduler = new Scheduler(print)
    this.random = new SeededRandom(seed)
    this.faults = new Faults(this.random)
    this.seats = defineSeats()
    this.options = { lease: 900, grace: 4000, patience: this.random.pick([80, 500]) }
    this.databaseTime = () => startOfTime + Math.round(this.scheduler.now)
    this.fail = (_, message) => this.#fail(message)
    const oracle = { look: () => null, watch: () => null }
    this.disk = new Disk({ oracle, random: this.random, plant: null, clock: this.databaseTime })
    if (plant === 'append-without-guard') {
      const commit = this.disk.commit.bind(this.disk)
      this.disk.commit = (commits) => withoutGuard(this.disk, commits, commit)
    }
    this.hasMail = this.random.chance(0.4)
    this.thinkMs = this.random.pick([0.5, 5, 40])
    this.commandsLeft = 30 + this.random.int(60)
  }

  async run() {
    const count = 2 + this.random.int(4)
    for (let i = 0; i < count; i++) this.#start()
    this.faults.isCalm = false
    this.scheduler.after(tickMs, null, () => this.#tick())
    const isLeft = () => this.commandsLeft > 0 || this.#underWay > 0
    while (!this.violation && isLeft() && this.scheduler.now < healMs && (await this.scheduler.step()));
    await this.#heal()
  }

  #fail(message) {
    this.violation ??= message
    this.scheduler.note(`VIOLATION ${message}`)
  }

  #start() {
    const { scheduler, random } = this
    const process = { name: `p${this.#nextProcess++}`, isDead: false, pausedUntil: 0 }
    const bornAt = scheduler.now
    const later = (delayMs, call) => scheduler.after(delayMs, process, call)
    process.engine = createEngine(
      {
        store: createStore(this, process),
        clock: {
          // Coarse, and the same for all: only the nonce distinguishes two equal commands.
          now: () => startOfTime + 100 * Math.round(scheduler.now / 100),
          elapsed: () => scheduler.now - bornAt,
          after: later,
          soon: (call) => later(random.number() * 0.05, call),
          next: (call) => later(random.number() * 0.05, call),
        },
        random,
        hash: sha256,
        identity: { host: 'host', process: process.name },
        isGone: (other) => !this.#processes.some((one) => one.name === other.process && !one.isDead),
        ...plantedPort(this.plant),
      },
      { worker: process.name, ...this.options },
    )
    this.#processes.push(process)
    if (this.hasMail && random.chance(0.5)) process.engine.work([this.seats])
    for (let i = 0; i < 1 + random.int(3); i++) void this.#use(process)
  }

  /** A caller of this process, one command after another. */
  async #use(process) {
    const { scheduler, random } = this
    for (let handle = null; !this.#isStopping && this.commandsLeft > 0; ) {
      await new Promise((resolve) => scheduler.after(random.number() * this.thinkMs, process, resolve))
      if (this.#isStopping) return
      this.commandsLeft -= 1
      this.#underWay += 1
      process.underWay = (process.underWay ?? 0) + 1
      this.told.commands += 1
      try {
        handle ??= await process.engine.open(this.seats, 'x')
        await this.#one(process, handle)
      } catch (error) {
        if (!isReprise(error, ...honest)) this.#fail(`${process.name}: ${stackOf(error)}`)
      }
      this.#underWay -= 1
      process.underWay -= 1
    }
  }

  async #one(process, handle) {
    const { random } = this
    const chosen = random.weighted({ add: 4, take: 3, mail: this.hasMail ? 2 : 0, read: 1 })
    this.scheduler.note(`${process.name} ${chosen}…`)
    if (chosen === 'read') return void (await handle.refresh())
    if (chosen === 'mail') return await this.#mail(process)
    if (chosen === 'add') {
      // Counted before the outcome is known, because a process that dies in the middle reports nothing.
      this.#adds.unknown += 1
      await handle.do('add')
      this.#adds.unknown -= 1
      this.#adds.acknowledged += 1
      return
    }
    await this.#take(process, handle)
  }

  /** With an id, and again with the same one until the outcome is known. */
  async #take(process, handle) {
    const seat = this.random.int(25)
    const by = `${process.name}-${this.#nextId++}`
    const record = this.#seats.get(seat) ?? { acknowledged: [], refused: 0 }
    this.#seats.set(seat, record)
    for (;;) {
      try {
        await handle.do('take', { seat, by }, { key: by })
        record.acknowledged.push(by)
        return
      } catch (error) {
        if (isReprise(error, 'REFUSED')) {
          record.refused += 1
          this.told.refusals += 1
          return
        }
        if (!isReprise(error, ...honest)) throw error
        if (this.#isStopping) return
      }
    }
  }

  async #mail(process) {
    const id = `letter-${this.#nextId++}`
    this.#adds.unknown += 1
    await sendCommand(process.engine, commandTo(this.seats, 'x', 'add', undefined), { key: id })
  }

  // Faults

  #tick() {
    if (this.#isStopping) return
    const { random, faults } = this
    if (random.chance(faults.crash)) this.#crash(random.pick(this.#processes))
    if (random.chance(faults.pause)) {
      const process = random.pick(this.#processes)
      process.pausedUntil = Math.max(process.pausedUntil, this.scheduler.now + random.number() * faults.pauseMs)
    }
    if (random.chance(faults.powerLoss)) {
      this.restarts += 1
      this.disk.losePower()
      for (const process of [...this.#processes]) this.#crash(process)
    }
    if (random.chance(faults.serverRestart)) {
      this.restarts += 1
      this.disk.losePower()
    }
    this.scheduler.after(tickMs, null, () => this.#tick())
  }

  #crash(process) {
    this.scheduler.note(`${process.name} crashes`)
    process.isDead = true
    this.#underWay -= process.underWay ?? 0
    for (const listener of this.listeners) if (listener.process === process) this.listeners.delete(listener)
    this.#processes.splice(this.#processes.indexOf(process), 1)
    this.#start()
  }

  // The end

  async #heal() {
    this.#isStopping = true
    this.faults.isCalm = true
    for (const process of this.#processes) process.pausedUntil = Math.min(process.pausedUntil, this.scheduler.now)
    const until = this.scheduler.now + healMs
    while (this.#underWay > 0 && !this.violation) {
      if ((await this.scheduler.step()) && this.scheduler.now < until) continue
      this.#fail('a command never settles although nothing fails any more')
    }
    if (!this.violation) await this.#settles(this.#check())
  }

  async #settles(promise) {
    let state = 'waiting'
    promise.then(
      () => (state = 'done'),
      (error) => {
        state = 'failed'
        this.#fail(`at the end: ${stackOf(error)}`)
      },
    )
    const until = this.scheduler.now + healMs
    await drain()
    while (state === 'waiting' && !this.violation) {
      if (!(await this.scheduler.step()) || this.scheduler.now > until) this.#fail('the end never comes')
    }
  }

  async #check() {
    const [{ engine }] = this.#processes
    const handle = await engine.open(this.seats, 'x')
    await handle.refresh()
    const { state, seq } = handle
    if (seq === 0) return
    const events = []
    for await (const { event, epoch } of handle.history({ to: seq })) events.push({ ...event, epoch })
    this.told.displaced = new Set(events.map(({ epoch }) => epoch)).size - 1
    events.forEach((event, i) => {
      if (event.saw !== i)
        this.#fail(`event ${i + 1} (${event.type}) was decided on the state after ${event.saw} events`)
    })
    const added = events.filter(({ type }) => type === 'added').length
    const { acknowledged, unknown } = this.#adds
    if (added < acknowledged) this.#fail(`${acknowledged} additions were acknowledged, ${added} are in history`)
    if (added > acknowledged + unknown)
      this.#fail(`${added} additions in history, ${acknowledged + unknown} were asked for`)
    for (const [seat, record] of this.#seats) this.#checkSeat(seat, record, events)
    const taken = Object.fromEntries(events.flatMap((e) => (e.type === 'taken' ? [[e.seat, e.by]] : [])))
    if (textOf(state) !== textOf({ count: events.length, added, taken })) {
      this.#fail(`the state ${textOf(state)} is not the fold of its history`)
    }
    // Letters may still be arriving: as of the same event.
    const fresh = await engine.at(this.seats, 'x', { seq: events.length })
    if (textOf(fresh.state) !== textOf(state)) this.#fail('what a new reader restores is another state')
  }

  #checkSeat(seat, { acknowledged, refused }, events) {
    const takers = events.filter((event) => event.type === 'taken' && event.seat === seat)
    if (takers.length > 1) this.#fail(`seat ${seat} was taken ${takers.length} times`)
    for (const by of acknowledged) {
      if (takers[0]?.by !== by) this.#fail(`${by} was given seat ${seat}, history says ${takers[0]?.by}`)
    }
    if (refused > 0 && takers.length === 0) this.#fail(`seat ${seat} was refused as taken, and nobody took it`)
  }
}

/** Restored or not, the fields are the same; their order is not. */
function textOf({ count, added, taken }) {
  return JSON.stringify([count, added, taken])
}
