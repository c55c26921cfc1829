// Errands: timelines that wait in a queue and are claimed by any process, over the simulated disk and under one seed. Some have
// user SQL in their commits, some have outside effects and undo them, some wait for a letter. Processes crash and pause,
// requests and answers are lost, power fails. Invariants: every requested errand is done, once, by any process; the user's SQL
// is not repeated for a stored commit; outside effects are undone, last first; and an export with its waiting mail is imported
// unchanged.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { timelineId } from '../../dist/core/coordinate.js'
import { compensationPlan } from '../../dist/core/history/effects.js'
import { isReprise } from '../../dist/index.js'
import { createEngine } from '../../dist/store.js'
import { openMemory, snapshot } from '../../dist/stores/memory/index.js'
import { hostOf } from '../support/host.mjs'
import { Disk, namespace } from './disk.mjs'
import { Faults } from './faults.mjs'
import { plantedPort } from './plants.mjs'
import { SeededRandom } from './random.mjs'
import { drain, Scheduler } from './scheduler.mjs'
import { sha256 } from './sha256.mjs'
import { createStore } from './store.mjs'
import { codeOf, stackOf, Violation } from './violation.mjs'

const startOfTime = 1_800_000_000_000
const tickMs = 60
const healMs = 120_000
const kinds = ['ride', 'undo', 'letter']
const things = ['hotel', 'flight', 'car']

const fold = {
  version: '1',
  initial: () => ({ kind: '', steps: [], letters: [], isDone: false }),
  apply(state, { type, data }) {
    if (type === 'asked') return { ...state, kind: data.kind }
    if (type === 'step') return { ...state, steps: [...state.steps, data.n] }
    if (type === 'got') return { ...state, letters: [...state.letters, data.text] }
    return type === 'done' ? { ...state, isDone: true } : state
  },
  checkpoint: { every: 3 },
}

/**
 * @param {number} seed @param {{ readonly plant?: string | null, readonly print?: ((line: string) => void) | null }} options
 * @returns {Promise<{ violation: Violation | null, traceHash: number, events: number,
 *   replays: readonly { readonly share: number }[] }>}
 */
export async function simulateErrands(seed, { plant = null, print = null } = {}) {
  const sim = new Errands(seed, plant, print)
  try {
    await sim.run()
  } catch (error) {
    sim.violation ??= error instanceof Violation ? error : new Violation('BUG', stackOf(error))
  }
  const { violation, scheduler } = sim
  return { violation, traceHash: scheduler.traceHash, events: scheduler.events, replays: [] }
}

class Errands {
  /** @type {Violation | null} */
  violation = null
  restarts = 0
  lanes = 1
  listeners = new Set()
  swept = new Set()
  #isStopping = false
  #processes = []
  #nextProcess = 0
  #outside = new Map()

  constructor(seed, plant, print) {
    this.plant = plant
    this.scheduler = new Scheduler(print)
    this.random = new SeededRandom(seed)
    this.faults = new Faults(this.random)
    this.options = { lease: 900, grace: 4000, patience: this.random.pick([80, 500]) }
    this.databaseTime = () => startOfTime + Math.round(this.scheduler.now)
    this.fail = (promise, message) => {
      this.violation ??= new Violation(promise, message)
      this.scheduler.note(`VIOLATION ${promise} ${message}`)
    }
    const oracle = { look: () => null, watch: () => null }
    this.disk = new Disk({ oracle, random: this.random, plant: null, clock: this.databaseTime })
    if (plant === 'rider-again') this.#plantRider()
    this.errands = 3 + this.random.int(6)
  }

  /** Planted: a store that runs the user's SQL again when the outcome of a commit is queried. */
  #plantRider() {
    const commit = this.disk.commit.bind(this.disk)
    this.disk.commit = async (commits) => {
      const done = await commit(commits)
      done.value.forEach((outcome, i) => {
        if (outcome.ok && outcome.isDuplicate) commits[i].userSql?.()
      })
      return done
    }
  }

  async run() {
    for (let i = 0; i < 2 + this.random.int(2); i++) this.#start()
    this.faults.isCalm = false
    this.scheduler.after(tickMs, null, () => this.#tick())
    for (let i = 0; i < this.errands; i++) {
      this.scheduler.after(this.random.number() * 600, null, () => void this.#ask(i))
    }
    while (!this.violation && this.scheduler.now < 1500 && (await this.scheduler.step()));
    await this.#heal()
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
          now: () => startOfTime + Math.round(scheduler.now),
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
    hostOf(process.engine).register('errand', fold)
    this.#processes.push(process)
    hostOf(process.engine).serve('errands', (head) => this.#runErrand(process, head))
  }

  // The caller

  /** Until the request is known to be stored: requested twice, it exists once. */
  async #ask(number) {
    const id = timelineId(`errand/${number}`)
    const kind = kinds[number % kinds.length]
    const askOnce = async ({ engine }) => {
      try {
        const along = { queue: 'errands', wakeup: this.databaseTime(), release: true }
        await hostOf(engine).create(id, fold, [{ type: 'asked', data: { kind } }], along)
        if (kind === 'letter') await engine.send(id, 'letter', { text: `for ${id}` }, { key: `letter ${number}` })
        return true
      } catch (error) {
        if (!isReprise(error)) this.fail('BUG', stackOf(error))
        return false
      }
    }
    // A dead process does not answer: then another one gets the request.
    const late = () => new Promise((resolve) => this.scheduler.after(700, null, () => resolve(false)))
    while (!this.violation && !(await Promise.race([askOnce(this.random.pick(this.#processes)), late()])));
  }

  // The worker

  async #runErrand(process, head) {
    const { engine } = process
    /** @type {import('../../dist/engine/writing/timeline.js').OpenTimeline<any> | null} */
    let open = null
    try {
      open = await hostOf(engine).adopt(head, fold)
      if (!open.state.isDone) await this.#work(process, open)
    } catch (error) {
      this.scheduler.note(`${process.name} ${head.timeline}: ${codeOf(error)}`)
      if (!isReprise(error)) this.fail('BUG', stackOf(error))
      if (isReprise(error, 'BUG')) this.fail('BUG', stackOf(error))
    } finally {
      // A broken handle can no longer write, nor release its timeline.
      const wasWhole = open !== null && !open.broken
      const isClosed = await open?.close().then(
        () => true,
        () => false,
      )
      if (!wasWhole || !isClosed) await this.#release(engine, head)
    }
  }

  /** Until the store has confirmed it: an owned errand without work is lost. */
  async #release(engine, { timeline, epoch }) {
    for (;;) {
      const guard = { timeline, epoch }
      const operation = /** @type {import('../../dist/core/coordinate.js').OperationId} */ (
        `release ${this.random.number()}`
      )
      const outcome = await hostOf(engine)
        .kernel.committer.submit({ operation, guard, release: true })
        .catch(() => null)
      if (outcome) return
      await new Promise((resolve) => hostOf(engine).kernel.clock.after(20, () => resolve(null)))
    }
  }

  async #work(process, open) {
    const { kind } = open.state
    this.scheduler.note(`${process.name} works on ${open.id} (${kind})`)
    if (kind === 'ride') await this.#userSql(open)
    if (kind === 'undo') await this.#undo(process, open)
    if (kind === 'letter' && !(await this.#readLetter(process, open))) {
      await open.write([], { wakeup: this.databaseTime() + 50 })
      return
    }
    await open.write([{ type: 'done', data: {} }], { queue: null, wakeup: null, status: 'done' })
  }

  async #userSql(open) {
    for (let n = open.state.steps.length + 1; n <= 3; n++) {
      const seq = open.seq + 1
      const userSql = () => {
        const row = this.disk.space?.timelines.get(open.id)
        if (row && row.seq >= seq) this.fail('G4', `${open.id}: step ${n} is there, and its rider is called again`)
        return n
      }
      await open.write([{ type: 'step', data: { n } }], { userSql })
    }
  }

  /** Three things outside; then it turns out that none is wanted. */
  async #undo(process, open) {
    const note = async (what, key) => {
      await this.#sleep(process, this.random.number() * 10)
      this.#outside.set(open.id, [...(this.#outside.get(open.id) ?? []), { what, key }])
      await this.#sleep(process, this.random.number() * 10)
    }
    const isUndoing = () => open.effects.list().some(({ state }) => state.startsWith('compensat'))
    if (!isUndoing()) {
      for (const id of things) await open.effects.run(id, ({ key }) => note(id, key), { id, reversal: 'compensate' })
    }
    for (const { id } of compensationPlan(open.ledger, 0).compensate) {
      await open.effects.compensate(id, (_effect, key) => note(`undo ${id}`, key))
    }
    const left = compensationPlan(open.ledger, 0).compensate
    if (left.length > 0) this.fail('G5', `${open.id}: ${left[0].id} was undone, and history does not say so`)
  }

  async #readLetter(process, open) {
    const messages = await open.inbox(5)
    if (messages.length === 0) return open.state.letters.length > 0
    const entries = messages.map((message) => ({ type: 'got', data: hostOf(process.engine).openMessage(message) }))
    await open.write(entries, { consume: messages.map(({ id }) => id) })
    return true
  }

  #sleep(process, ms) {
    return new Promise((resolve) => this.scheduler.after(ms, process, resolve))
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
      this.#losePower()
      for (const process of [...this.#processes]) this.#crash(process)
    }
    if (random.chance(faults.serverRestart)) this.#losePower()
    this.scheduler.after(tickMs, null, () => this.#tick())
  }

  #losePower() {
    this.restarts += 1
    this.disk.losePower()
  }

  #crash(process) {
    this.scheduler.note(`${process.name} crashes`)
    process.isDead = true
    for (const listener of this.listeners) if (listener.process === process) this.listeners.delete(listener)
    this.#processes.splice(this.#processes.indexOf(process), 1)
    this.#start()
  }

  // The end

  /** No more faults: every request must be done. */
  async #heal() {
    this.#isStopping = true
    this.faults.isCalm = true
    for (const process of this.#processes) process.pausedUntil = Math.min(process.pausedUntil, this.scheduler.now)
    const until = this.scheduler.now + healMs
    const isDone = (number) => this.disk.space?.timelines.get(`errand/${number}`)?.status === 'done'
    const open = () => Array.from({ length: this.errands }, (_, number) => number).find((number) => !isDone(number))
    while (open() !== undefined && !this.violation) {
      if ((await this.scheduler.step()) && this.scheduler.now < until) continue
      this.fail('liveness', `errand/${open()} is never done although nothing fails any more`)
    }
    await drain()
    if (!this.violation) await this.#check()
  }

  async #check() {
    const engine = this.#aside(snapshot(this.disk.durable))
    for (let number = 0; number < this.errands; number++) {
      const id = `errand/${number}`
      const kind = kinds[number % kinds.length]
      const { state } = await engine.at({ prefix: id, fold }, undefined, { seq: (await headOf(engine, id)).seq })
      const steps = kind === 'ride' ? [1, 2, 3] : []
      const letters = kind === 'letter' ? [`for ${id}`] : []
      // Restored or not, the fields are the same; their order is not.
      const found = JSON.stringify([state.kind, state.steps, state.letters, state.isDone])
      const expected = JSON.stringify([kind, steps, letters, true])
      if (found !== expected) this.fail('G4', `${id} is ${found}, not ${expected}`)
      if (kind === 'undo') this.#checkOutside(id)
    }
    const { faults } = await engine.verify()
    if (faults.length > 0) this.fail('G1', `${faults[0].where}: ${faults[0].what}`)
    if (!this.violation) await this.#carry(engine)
    await engine.close()
  }

  /** Each thing was done and undone, under one key each, last first; nothing was done after it was undone. */
  #checkOutside(id) {
    const calls = this.#outside.get(id) ?? []
    const firstUndo = calls.findIndex(({ what }) => what.startsWith('undo'))
    if (calls.slice(firstUndo).some(({ what }) => !what.startsWith('undo')))
      this.fail('G5', `${id}: something was done after it was being undone`)
    const undone = [...new Set(calls.filter(({ what }) => what.startsWith('undo')).map(({ what }) => what.slice(5)))]
    if (undone.join() !== [...things].reverse().join()) this.fail('G5', `${id}: undone were ${undone}`)
    for (const thing of things) {
      for (const what of [thing, `undo ${thing}`]) {
        const keys = new Set(calls.filter((call) => call.what === what).map(({ key }) => key))
        if (keys.size !== 1) this.fail('G5', `${id}: ${what} was asked for under ${keys.size} keys`)
      }
    }
  }

  /** Exported to a file and imported into another store, with an unread letter. */
  async #carry(engine) {
    const id = `errand/${this.random.int(this.errands)}`
    await engine.send(id, 'letter', { text: 'late' }, { key: 'late' })
    const folder = mkdtempSync(join(tmpdir(), 'reprise-errands-'))
    try {
      const file = join(folder, 'errand.rp')
      const before = await headOf(engine, id)
      await engine.export({ timeline: id, seq: before.seq }, file)
      const other = this.#aside(undefined)
      await other.import(file)
      const after = await headOf(other, id)
      if (after.seq !== before.seq || Buffer.compare(after.digest, before.digest) !== 0)
        this.fail('G1', `${id} was imported with another history`)
      if (after.mail !== before.mail) this.fail('G1', `${id} had ${before.mail} letters, imported ${after.mail}`)
      const { state } = await other.at({ prefix: id, fold }, undefined, { seq: after.seq })
      if (!state.isDone) this.fail('G1', `${id} was imported with another state`)
      await other.close()
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
  }

  #aside(world) {
    const clock = {
      now: () => this.databaseTime(),
      elapsed: () => this.scheduler.now,
      after: () => () => {},
      soon: (call) => queueMicrotask(call),
      next: (call) => queueMicrotask(call),
    }
    const engine = createEngine(
      {
        store: openMemory({ namespace, hash: sha256, clock: this.databaseTime, ...(world && { world }) }),
        clock,
        random: new SeededRandom(1),
        hash: sha256,
        identity: { host: 'auditor', process: 'auditor' },
        isGone: () => false,
        ...plantedPort(this.plant),
      },
      this.options,
    )
    hostOf(engine).register('errand', fold)
    return engine
  }
}

/** @param {import('../../dist/index.js').Reprise} engine @param {string} id */
async function headOf(engine, id) {
  const head = await engine.head(id)
  if (!head) throw new Violation('G1', `${id} is gone`)
  return head
}
