// The users of one simulated process: they open, append, checkpoint, fork, roll back, collect, send and consume, in an order
// the seed decides. Every answer is reported to the oracle; every refusal must be one that a user can expect.

import { toHex } from '../../dist/core/coordinate.js'
import { ModelRegistry } from '../../dist/engine/model/model-registry.js'
import { collect } from '../../dist/engine/tools/housekeeping/collect.js'
import { isReprise, RepriseError } from '../../dist/index.js'
import { hostOf } from '../support/host.mjs'
import { modelOf } from './models.mjs'
import { codeOf, stackOf } from './violation.mjs'

/** Handles whose state was compared when they were opened. */
const seen = new WeakSet()

/** The possible errors of any call under faults. Any other error, and any error without a code, is a bug. */
const expected = new Set(
  `FENCED OWNED CLOSED CONFLICT OUTCOME_UNKNOWN NOT_FOUND EXISTS OUT_OF_RANGE NOT_ON_BRANCH PINNED CONTENDED TIMEOUT
  WORKER_RETIRED STORE_UNREACHABLE CHUNK_MISSING`.split(/\s+/),
)
const expectedWithRot = new Set(
  'HISTORY_DAMAGED UNRECOVERABLE CHECKPOINT_DAMAGED CHUNK_DAMAGED CHUNK_MISSING MALFORMED'.split(' '),
)

const intoThePast = new Set(['at', 'fork', 'rollback', 'savepoint'])

export class User {
  #sim
  #process

  constructor(sim, process) {
    this.#sim = sim
    this.#process = process
  }

  async work() {
    const sim = this.#sim
    while (!sim.isStopping && sim.operationsLeft > 0) {
      await this.sleep(sim.random.between(0, sim.thinkMs))
      if (sim.isStopping) return
      sim.operationsLeft -= 1
      await this.doOne(sim.random.weighted(sim.habits))
    }
  }

  async doOne(name) {
    const { underWay, scheduler } = this.#sim
    const job = { name, process: this.#process, since: scheduler.now }
    underWay.add(job)
    scheduler.note(`${this.#process.name} ${name}…`)
    await this.attempt(name, () => this[name]())
    underWay.delete(job)
  }

  /** Refusals are part of life; the oracle hears of those that matter where they happen. */
  async attempt(name, call) {
    try {
      return await call()
    } catch (error) {
      this.#sim.scheduler.note(`${this.#process.name} ${name}: ${codeOf(error)}`)
      this.judge(name, error)
      return undefined
    }
  }

  judge(name, error) {
    const { disk, fail } = this.#sim
    if (!isReprise(error)) return fail('BUG', `${name}: ${stackOf(error)}`)
    const isExpected =
      expected.has(error.code) ||
      (disk.rotten.length > 0 && expectedWithRot.has(error.code)) ||
      // Between the floor and the first checkpoint above it there is history, but no state to start from.
      (error.code === 'UNRECOVERABLE' && intoThePast.has(name))
    if (!isExpected) fail(error.code === 'BUG' ? 'BUG' : 'G12', `${this.#process.name} ${name}: ${error.stack}`)
  }

  sleep(ms) {
    return new Promise((resolve) => this.#sim.scheduler.after(ms, this.#process, resolve))
  }

  /** An open handle, opened if there is none here. */
  async handle(id, options = {}) {
    const { handles, engine } = this.#process
    const held = handles.get(id)
    if (held && !held.broken && !options.takeover) return held
    const { definition } = modelOf(this.#sim.models, id)
    const handle = await hostOf(engine).openTimeline(id, definition.fold, options)
    if (!seen.has(handle)) {
      seen.add(handle)
      this.#sim.oracle.checkState(id, handle.coordinate, handle.state, 'opened')
      this.#sim.replays.push({ share: handle.recovery.entriesReplayed / modelOf(this.#sim.models, id).every })
    }
    handles.set(id, handle)
    return handle
  }

  timeline() {
    return this.#sim.random.pick(this.#sim.timelines)
  }

  /** Time passes: leases run out, chunks grow old enough to be swept. */
  async rest() {
    await this.sleep(this.#sim.random.between(100, 1500))
  }

  // Writing

  async open() {
    const { random } = this.#sim
    const options = { takeover: random.chance(0.5), ...(random.chance(0.3) && { wait: 200 }) }
    await this.handle(this.timeline(), options)
  }

  async append() {
    const handle = await this.handle(this.timeline())
    await this.#write(handle, 1 + this.#sim.random.int(3))
  }

  async burst() {
    const { random } = this.#sim
    const handle = await this.handle(this.timeline())
    const writes = Array.from({ length: 2 + random.int(5) }, () => this.#write(handle, 1 + random.int(2)))
    await Promise.all(writes.map((write) => this.attempt('append', () => write)))
  }

  async #write(handle, count) {
    const { oracle } = this.#sim
    const numbers = Array.from({ length: count }, () => this.#sim.nextNumber++)
    const { seq } = handle
    let written
    try {
      written = await handle.write(numbers.map((n) => ({ type: 'add', data: { n } })))
    } catch (error) {
      if (isReprise(error) && error.code !== 'OUTCOME_UNKNOWN') oracle.refused(numbers, error.code)
      throw error
    }
    if (written.first <= seq) this.#sim.fail('G4', `${handle.id}@${written.first}: acknowledged before ${seq}`)
    oracle.acknowledged(handle, numbers, written)
    this.#look(handle)
  }

  /** The same key again and again, from any process: it is applied once. */
  async appendKeyed() {
    const { random, oracle, keyed } = this.#sim
    const handle = await this.handle(this.timeline())
    const key = `key${random.int(3)}`
    const place = `${handle.id} ${key}`
    if (!keyed.has(place)) keyed.set(place, this.#sim.nextNumber++)
    const numbers = [keyed.get(place)]
    const written = await handle.write(numbers.map((n) => ({ type: 'add', data: { n }, key })))
    oracle.acknowledged(handle, numbers, written, key)
    this.#look(handle)
  }

  #look(handle) {
    if (!handle.broken) this.#sim.oracle.checkState(handle.id, handle.coordinate, handle.state, 'after a write')
  }

  async close() {
    const id = this.timeline()
    const handle = this.#process.handles.get(id)
    if (!handle) return
    this.#process.handles.delete(id)
    await handle.close()
  }

  // Checkpoints and branches

  async checkpoint() {
    const handle = await this.handle(this.timeline())
    await handle.checkpoint({ full: this.#sim.random.chance(0.2) })
  }

  async savepoint() {
    const { random, savepoints } = this.#sim
    const id = this.timeline()
    const head = await this.#process.engine.head(id)
    if (!head) return
    const seq = random.chance(0.5) ? head.seq : Math.max(head.floor, head.seq - random.int(6))
    const { id: savepoint } = await this.#process.engine.savepoint({ timeline: id, seq }, { label: 'kept' })
    savepoints.push({ timeline: id, savepoint })
  }

  async release() {
    const { random, savepoints } = this.#sim
    if (savepoints.length === 0) return
    const [{ timeline, savepoint }] = savepoints.splice(random.int(savepoints.length), 1)
    await this.#process.engine.release(timeline, savepoint)
  }

  async fork() {
    const { random, timelines } = this.#sim
    const id = this.timeline()
    const head = await this.#process.engine.head(id)
    if (!head || id.startsWith('tail/') || timelines.length > 9) return
    const seq = Math.max(head.floor, head.seq - random.int(8))
    const fork = await this.#process.engine.fork({ timeline: id, seq }, `${id}-${this.#sim.nextFork++}`)
    timelines.push(fork.timeline)
  }

  async rollback() {
    const { random } = this.#sim
    const id = this.timeline()
    const head = await this.#process.engine.head(id)
    if (!head || id.startsWith('tail/')) return
    const seq = Math.max(head.floor, head.seq - random.int(8))
    await this.#process.engine.rollback({ to: { timeline: id, seq }, takeover: random.chance(0.7), consumed: 'force' })
  }

  async at() {
    const { random, models, oracle } = this.#sim
    const id = this.timeline()
    const head = await this.#process.engine.head(id)
    if (!head) return
    const { definition } = modelOf(models, id)
    const seq = Math.max(head.floor, head.seq - random.int(10))
    const past = await this.#process.engine.at(definition, id.slice(definition.prefix.length), { seq })
    oracle.checkState(id, past.coordinate, past.state, 'as of then')
  }

  // Tools

  async collect() {
    const { engine } = this.#process
    await engine.collect()
    if (this.#sim.hasStranger) {
      await this.#collectOnly('log')
      // The planted loose scope must be found by itself.
      if (this.#sim.plant !== 'loose-scope') await this.#collectOnly('logbook')
    }
    this.#sim.auditSoon()
  }

  /** Like a process that knows one definition only, and would keep less than the stored policy. */
  async #collectOnly(name) {
    const { kernel } = hostOf(this.#process.engine)
    const models = new ModelRegistry(kernel.planted)
    const { fold } = this.#sim.models.log.definition
    models.declare({ kind: 'timeline', name, scope: name, fold, policy: 'declared' })
    await collect({ ...kernel, models })
  }

  async verify() {
    const { disk, fail } = this.#sim
    const { faults } = await this.#process.engine.verify()
    const history = faults.find((fault) => fault.code === 'HISTORY_DAMAGED')
    if (history && disk.rotten.length === 0) fail('G7', `verify beside writers calls history damaged: ${history.what}`)
  }

  async drill() {
    await this.#process.engine.drill({ timelines: [this.timeline()] })
  }

  // Outside, mail and feed

  /** Through a ledger that honours keys. In some seeds the effect happens, and its answer is lost. */
  async effect() {
    const { random, oracle, flaky } = this.#sim
    const handle = await this.handle(this.timeline())
    const id = `pay${random.int(4)}`
    const input = flaky && id !== 'pay0' ? { input: { amount: 500 } } : {}
    await handle.effects.run(
      'pay',
      async ({ key }) => {
        await this.sleep(random.between(0, 20))
        const answer = oracle.called(handle, id, key)
        await this.sleep(random.between(0, 20))
        if (!flaky?.chance(0.3)) return answer
        oracle.answerLost(handle, key)
        throw new RepriseError('TIMEOUT', 'the outside did not answer')
      },
      { id, ...input },
    )
    this.#look(handle)
  }

  async send() {
    const { oracle } = this.#sim
    const m = this.#sim.nextMessage++
    const to = this.timeline()
    oracle.sending(m, to)
    await this.#process.engine.send(to, 'note', { m }, { key: `m${m}` })
    oracle.sentOut(m)
  }

  async consume() {
    const id = this.timeline()
    const handle = await this.handle(id)
    const messages = await handle.inbox(2)
    if (messages.length === 0 || id.startsWith('tail/')) return
    const entries = messages.map((message) => ({
      type: 'got',
      data: hostOf(this.#process.engine).openMessage(message),
    }))
    await handle.write(entries, { consume: messages.map((message) => message.id) })
    this.#look(handle)
  }

  /** One page of the feed, and the cursor behind it, in one commit. False: nothing was left. */
  async follow(limit = 6) {
    const process = this.#process
    if (process.isFollowing) return true
    process.isFollowing = true
    try {
      const handle = await this.handle('tail/t')
      const { position } = handle.state
      // The store's own positions: a cursor holds those, and never a position that was sealed for the outside.
      const prefixes = ['doc/', 'map/', 'log/', 'led/', 'logbook/']
      const page = await hostOf(process.engine).kernel.store.feed(position, { prefixes }, limit)
      if (page.next === position) return false
      const runs = page.items.map((item) => toHex(item.run.digest))
      const numbers = page.items.map((item) => item.run.first)
      await handle.write([{ type: 'seen', data: { position: page.next, numbers, runs } }], {
        cursors: { tail: page.next },
      })
      return !page.isEnd
    } finally {
      process.isFollowing = false
    }
  }
}
