// Workflows over a store of three shards, under one seed. Shards fail and return, requests and answers are lost, processes
// crash and restart, also while a shard is away. The invariants: every requested run ends with its result, no step in history
// is executed again, a reader of the feed gets every entry once, and verify finds nothing. While a shard is away, runs without
// parts there end: their number is counted.

import { toHex } from '../../dist/core/coordinate.js'
import { shardOf } from '../../dist/core/store/shards.js'
import { isReprise, RepriseError } from '../../dist/index.js'
import { queue, workflow } from '../../dist/layers/workflow/index.js'
import { createEngine } from '../../dist/store.js'
import { createWorld, openMemory } from '../../dist/stores/memory/index.js'
import { openSharded } from '../../dist/stores/sharded/index.js'
import { SeededRandom } from './random.mjs'
import { drain, Scheduler } from './scheduler.mjs'
import { sha256 } from './sha256.mjs'
import { codeOf, stackOf, Violation } from './violation.mjs'

const startOfTime = 1_800_000_000_000
const namespace = 'simulated'
const count = 3
const tickMs = 80
const troubleMs = 12_000
const healMs = 300_000
const numbers = Array.from({ length: count }, (_, i) => i)

/**
 * @param {number} seed @param {{ readonly plant?: string | null, readonly print?: ((line: string) => void) | null }} options
 */
export async function simulateShards(seed, { print = null } = {}) {
  const sim = new Shards(seed, print)
  try {
    await sim.run()
  } catch (error) {
    sim.violation ??= error instanceof Violation ? error : new Violation('BUG', stackOf(error))
  }
  const { violation, scheduler, endedWhileAway } = sim
  return { violation, traceHash: scheduler.traceHash, events: scheduler.events, replays: [], endedWhileAway }
}

class Shards {
  /** @type {Violation | null} */
  violation = null
  endedWhileAway = 0
  #worlds = numbers.map(() => createWorld())
  #away = new Set()
  #isCalm = true
  #processes = []
  #nextProcess = 0
  #asked = new Set()
  #position = ''
  #seen = []

  constructor(seed, print) {
    this.scheduler = new Scheduler(print)
    this.random = new SeededRandom(seed)
    const often = (share, most) => (this.random.chance(share) ? this.random.between(0.1, 1) * most : 0)
    this.lost = often(0.6, 0.02)
    this.crash = often(0.6, 0.03)
    this.toggle = this.random.pick([0.01, 0.03, 0.08])
    this.options = { lease: 3000, patience: this.random.pick([500, 5000]) }
    this.runs = 4 + this.random.int(8)
    this.databaseTime = () => startOfTime + Math.round(this.scheduler.now)
  }

  fail(promise, message) {
    this.violation ??= new Violation(promise, message)
    this.scheduler.note(`VIOLATION ${promise} ${message}`)
  }

  async run() {
    for (let i = 0; i < 2; i++) await this.#until(this.#start(), 'the set is opened')
    this.#isCalm = false
    this.scheduler.after(tickMs, null, () => this.#tick())
    for (let n = 0; n < this.runs; n++) {
      this.scheduler.after(this.random.number() * troubleMs * 0.8, null, () => void this.#ask(n))
    }
    while (!this.violation && this.scheduler.now < troubleMs && (await this.scheduler.step()));
    await this.#heal()
  }

  // Processes

  async #start() {
    const { scheduler, random } = this
    /** @type {any} */
    const process = { name: `p${this.#nextProcess++}`, isDead: false, pausedUntil: 0, rp: null }
    this.#processes.push(process)
    const bornAt = scheduler.now
    const later = (delayMs, call) => scheduler.after(delayMs, process, call)
    const clock = {
      now: this.databaseTime,
      elapsed: () => scheduler.now - bornAt,
      after: later,
      soon: (call) => later(random.number() * 0.05, call),
      next: (call) => later(random.number() * 0.05, call),
    }
    const sources = numbers.map((i) => ({ name: `shard ${i}`, open: async () => this.#remote(process, i) }))
    const store = await openSharded(sources, /** @type {any} */ ({ timers: clock }))
    if (process.isDead) return
    process.store = store
    process.rp = createEngine(
      {
        ...{ store, clock, random, hash: sha256, identity: { host: 'host', process: process.name } },
        isGone: (other) => !this.#processes.some((one) => one.name === other.process && !one.isDead),
      },
      { worker: process.name, ...this.options },
    )
    const { order, rush, part, belt } = this.#definitions(process)
    process.definitions = [order, rush]
    process.rp.work([order, rush, part, belt])
  }

  #definitions(process) {
    const belt = queue('belt', { concurrency: 2 })
    const part = workflow('part', async (ctx, /** @type {number} */ n) => await ctx.step('make', () => n + 1))
    const make = async (/** @type {any} */ ctx, /** @type {number} */ n) => {
      const doubled = await ctx.step('double', () => n * 2)
      await ctx.sleep(30)
      const made = n % 2 === 0 ? await ctx.child(part, doubled) : doubled + 1
      return await ctx.step('end', () => {
        this.scheduler.note(`${process.name} ends ${n}`)
        return made
      })
    }
    const order = workflow('order', make, { queue: belt })
    const rush = workflow('rush', make)
    return { order, rush, part, belt }
  }

  /** One shard as one process sees it. A request of a process that died arrives all the same. */
  #remote(process, shard) {
    const { scheduler, random } = this
    const memory = openMemory({ namespace, hash: sha256, clock: this.databaseTime, world: this.#worlds[shard] })
    const unreachable = () => new RepriseError('STORE_UNREACHABLE', `nobody answers at ${shard}`)
    const isLost = () => !this.#isCalm && random.chance(this.lost)
    const call = (work) =>
      new Promise((resolve, reject) => {
        const answer = (settle, value) =>
          scheduler.after(random.number() * 2, process, () => {
            settle(value)
          })
        const isRequestLost = isLost()
        scheduler.after(random.number() * 2, null, async () => {
          if (this.#away.has(shard) || isRequestLost) return void answer(reject, unreachable())
          try {
            const value = await work()
            answer(...(isLost() ? [reject, unreachable()] : [resolve, value]))
          } catch (error) {
            answer(reject, error)
          }
        })
      })
    const through = (target) =>
      new Proxy(target, {
        get: (_, name) => {
          const value = Reflect.get(target, name, target)
          if (name === 'blobs') return through(value)
          if (typeof value !== 'function' || name === 'close') return value
          if (name === 'listen') {
            return (wake) => value.call(target, (mayBeDue) => scheduler.after(1, process, () => wake(mayBeDue)))
          }
          return (...given) => call(() => value.apply(target, given))
        },
      })
    return through(memory)
  }

  // Trouble

  #tick() {
    if (this.#isCalm) return
    const { random, scheduler } = this
    if (random.chance(this.toggle)) {
      const shard = random.int(count)
      // One at a time is away for long; two for a moment.
      if (!this.#away.delete(shard)) this.#away.add(shard)
      scheduler.note(`away: ${[...this.#away].sort().join(' ')}`)
    }
    const living = this.#processes.filter(({ isDead }) => !isDead)
    if (living.length > 0 && random.chance(this.crash)) this.#kill(random.pick(living))
    if (this.#processes.filter(({ isDead }) => !isDead).length < 2 && random.chance(0.2)) this.#replace()
    if (random.chance(0.3)) void this.#follow(random.pick(this.#processes))
    scheduler.after(tickMs, null, () => this.#tick())
  }

  #kill(process) {
    process.isDead = true
    this.scheduler.note(`${process.name} dies`)
  }

  /** With fewer than all shards, or with none: then it dies, and another is started. */
  #replace() {
    const process = this.#nextProcess
    this.#start().catch((error) => {
      if (!isReprise(error, 'STORE_UNREACHABLE')) this.fail('BUG', stackOf(error))
      this.#processes.find(({ name }) => name === `p${process}`).isDead = true
    })
  }

  // Work

  async #ask(n) {
    const living = this.#processes.filter(({ isDead, rp }) => !isDead && rp)
    const again = () => this.scheduler.after(200, null, () => void this.#ask(n))
    if (living.length === 0) return void again()
    const process = this.random.pick(living)
    try {
      const run = await process.rp.run(process.definitions[n % 3 === 0 ? 0 : 1], n, {
        id: `${n}`,
        here: this.random.chance(0.3),
      })
      this.#asked.add(n)
      run.result().then(
        (result) => this.#ended(n, result),
        (error) => {
          const usual = ['CLOSED', 'FENCED', 'STORE_UNREACHABLE', 'OUTCOME_UNKNOWN', 'SHARD_AWAY', 'TIMEOUT']
          if (!usual.includes(codeOf(error))) this.fail('G4', `order ${n} failed: ${stackOf(error)}`)
        },
      )
    } catch (error) {
      const usual = ['CLOSED', 'STORE_UNREACHABLE', 'OUTCOME_UNKNOWN', 'SHARD_AWAY', 'TIMEOUT']
      if (!usual.includes(codeOf(error))) this.fail('G4', `order ${n} was refused: ${stackOf(error)}`)
      again()
    }
  }

  #ended(n, result) {
    if (result !== n * 2 + 1) this.fail('G4', `order ${n} ended with ${result}`)
    const home = shardOf(`workflow/${n % 3 === 0 ? 'order' : 'rush'}/${n}`, count)
    if (this.#away.size > 0 && !this.#away.has(home)) this.endedWhileAway += 1
  }

  async #follow(process) {
    if (process.isDead || !process.store || this.isFollowing) return
    this.isFollowing = true
    const position = this.#position
    try {
      const page = await process.store.feed(position, {}, 1 + this.random.int(20))
      for (const { timeline, run } of page.items) this.#seen.push(`${timeline} ${run.first} ${toHex(run.digest)}`)
      this.#position = page.next
      return page.isEnd
    } catch (error) {
      if (!isReprise(error, 'STORE_UNREACHABLE')) this.fail('G3', stackOf(error))
      return false
    } finally {
      this.isFollowing = false
    }
  }

  // The end

  async #heal() {
    this.#isCalm = true
    this.#away.clear()
    this.isFollowing = false
    if (this.violation) return
    for (const process of this.#processes) if (!process.isDead && !process.rp) process.isDead = true
    await this.#until(this.#start(), 'the set is opened again')
    const last = this.#processes.at(-1)
    // Live processes continue, and must finish their runs: no run stays with an inactive worker.
    for (let n = 0; n < this.runs && !this.violation; n++) {
      const run = await this.#until(
        last.rp.run(last.definitions[n % 3 === 0 ? 0 : 1], n, { id: `${n}`, here: false }),
        `order ${n} is there`,
      )
      const result = await this.#until(run.result(), `order ${n} ends`)
      if (result !== n * 2 + 1) this.fail('G4', `order ${n} ended with ${result}`)
    }
    if (this.violation) return
    for (const process of this.#processes) if (process !== last) this.#kill(process)
    await this.#until(this.#check(last), 'the store is checked')
  }

  async #check(last) {
    const { rp, store } = last
    const there = []
    for (const { timeline } of await store.timelines({ limit: 10_000 })) {
      for (const run of await store.read(timeline, 0, 1e9)) there.push(`${timeline} ${run.first} ${toHex(run.digest)}`)
    }
    // Later writes may be included: the last process is still running.
    while (!(await this.#follow(last)));
    const seen = new Set(this.#seen)
    if (seen.size < this.#seen.length) this.fail('G3', 'the feed gave an entry twice')
    const missed = there.filter((each) => !seen.has(each))
    if (missed.length > 0) this.fail('G3', `the feed did not give ${missed[0]}`)
    const { faults } = await rp.verify()
    if (faults.length > 0) this.fail('G1', `${faults[0].where}: ${faults[0].what}`)
  }

  /** Time passes until it has happened. */
  async #until(promise, what) {
    /** @type {any} */
    let settled = null
    promise.then(
      (value) => {
        settled = { value }
      },
      (error) => {
        settled = { error }
      },
    )
    const until = this.scheduler.now + healMs
    await drain()
    while (!settled && !this.violation && this.scheduler.now < until && (await this.scheduler.step()));
    if (this.violation) throw this.violation
    if (!settled) throw new Violation('G4', `stuck: not within ${healMs / 1000} s: ${what}`)
    if (settled.error) throw settled.error
    return settled.value
  }
}
