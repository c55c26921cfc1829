// Another, smaller simulation: a store that goes back to an older copy of itself while processes continue with their memory, as
// after a failover to a lagging replica. Commits acknowledged after the copy was made are lost, as expected; the invariants are
// that history is whole, that it contains every other acknowledged entry, and no duplicates. A reader of the feed keeps its
// entries, and must have exactly the stored ones whenever it is reported to be at the end. The outside never goes back: a
// ledger that honours keys must see the same intent under the same key on every copy, and no other intent under it, neither of
// another life of an id nor of a fork or a neighbour namespace (every third seed). Even seeds: some commits contain user SQL.
// Odd seeds: timelines are forgotten, so that a missing one may be either forgotten or of another copy.

import { timelineId } from '../../dist/core/coordinate.js'
import { unpackEntries } from '../../dist/core/history/entry-run.js'
import { guardOf } from '../../dist/core/store/commit-guard.js'
import { FeedReader } from '../../dist/engine/feed/reader.js'
import { isReprise, RepriseError, timeline } from '../../dist/index.js'
import { createEngine } from '../../dist/store.js'
import { createWorld, openMemory, snapshot } from '../../dist/stores/memory/index.js'
import { OutsideLedger } from '../../dist/testing/outside-ledger.js'
import { hostOf } from '../support/host.mjs'
import { namespace } from './disk.mjs'
import { plantedPort } from './plants.mjs'
import { SeededRandom } from './random.mjs'
import { sha256 } from './sha256.mjs'
import { codeOf, stackOf, Violation } from './violation.mjs'

const log = timeline('log', {
  initial: () => ({ numbers: /** @type {number[]} */ ([]) }),
  apply: (state, /** @type {{ readonly type: string, readonly n: number }} */ { n }) => ({
    numbers: [...state.numbers, n],
  }),
})
const ids = ['a', 'b']
const steps = 60
/** The errors that a process with a lost past may get. @type {import('../../dist/index.js').ErrorCode[]} */
const expected = [
  'FENCED',
  'CONFLICT',
  'CLOSED',
  'NOT_FOUND',
  'OUT_OF_RANGE',
  'CONTENDED',
  'WORKER_RETIRED',
  'NOT_ON_BRANCH',
  'TIMEOUT',
]

/**
 * @param {number} seed @param {{ readonly plant?: string | null, readonly print?: ((line: string) => void) | null }} options
 * @returns {Promise<{ violation: Violation | null, traceHash: number, events: number,
 *   replays: readonly { readonly share: number }[] }>}
 */
export async function simulateFailover(seed, { plant = null, print = null } = {}) {
  const sim = new FailoverSimulation(seed, plant, print)
  try {
    await sim.run()
  } catch (error) {
    sim.violation ??= error instanceof Violation ? error : new Violation('BUG', stackOf(error))
  }
  return { violation: sim.violation, traceHash: sim.traceHash, events: steps, replays: [] }
}

class FailoverSimulation {
  /** @type {Violation | null} */
  violation = null
  traceHash = 0x811c9dc5
  #random
  #plant
  #print
  #isForgetful
  #isPaying
  #nextFork = 1
  #world = createWorld()
  #store
  #now = 1_800_000_000_000
  #nextNumber = 1
  #nextProcess = 1
  #processes = []
  /** @type {{ readonly reader: FeedReader | null, readonly position: string, readonly numbers: readonly number[] }} */
  #follower = { reader: null, position: '', numbers: [] }
  #copies = []
  /** The acknowledged numbers that were not lost by going back, by timeline. */
  #acknowledged = new Map(ids.map((id) => [id, /** @type {number[]} */ ([])]))
  /** Numbers of timelines that were forgotten on this copy: a reader may have them. */
  #forgotten = new Set()
  /** Which life of its id each timeline has on this copy. */
  #lives = new Map(ids.map((id) => [id, 1]))
  #outside = new OutsideLedger()
  #keyOfIntent = new Map()
  /** Another namespace, which was restored from a backup of this store: the same store id and the same ids of timelines. */
  #neighbour

  constructor(seed, plant, print) {
    this.#random = new SeededRandom(seed)
    this.#plant = plant
    this.#print = print
    this.#isForgetful = seed % 2 === 1
    this.#isPaying = seed % 3 === 0
    this.#open()
  }

  async run() {
    for (let i = 0; i < 3; i++) this.#processes.push(this.#start())
    const engine = this.#engineOver(this.#door(), 'follower')
    this.#follower = { reader: new FeedReader(hostOf(engine).kernel, ['log/']), position: '', numbers: [] }
    if (this.#isPaying) this.#neighbour = await this.#startNeighbour()
    for (let step = 0; step < steps; step++) {
      this.#now += 1
      const action = this.#random.weighted({
        open: 8,
        append: 14,
        change: 2,
        effect: this.#isPaying ? 14 : 0,
        neighbour: this.#isPaying ? 2 : 0,
        fork: this.#isPaying && !this.#isForgetful ? 2 : 0,
        userSql: this.#isForgetful ? 0 : 3,
        forget: this.#isForgetful ? 2 : 0,
        checkpoint: 2,
        copy: 2,
        back: 2,
      })
      this.#note(action)
      if (action === 'copy') this.#copy()
      else if (action === 'back') await this.#goBack()
      else if (action === 'neighbour') await this.#pay('blue', this.#neighbour, this.#random.pick(ids))
      else if (action === 'forget') await this.#forget(this.#random.pick(this.#processes), this.#random.pick(ids))
      else await this.#act(action, this.#random.pick(this.#processes), this.#random.pick(ids))
      if (step % 4 === 3) await this.#follow()
    }
    await this.#audit()
  }

  async #act(action, process, id) {
    try {
      if (action === 'open' || !process.handles.has(id)) {
        const handle = await hostOf(process.engine).openTimeline(timelineId(`log/${id}`), log.fold, { takeover: true })
        process.handles.set(id, handle)
        return
      }
      const handle = process.handles.get(id)
      if (action === 'checkpoint') return await handle.checkpoint({ trigger: 'asked' })
      if (action === 'effect') return await this.#pay('red', process, id)
      if (action === 'fork') return await this.#payInFork(process, id, handle)
      if (action === 'change') return await handle.write([], { status: this.#random.pick(['x', 'y']) })
      const n = this.#nextNumber++
      const userSql = action === 'userSql' && { userSql: () => n }
      await handle.write([{ type: 'n', data: { n } }], userSql || undefined)
      this.#acknowledgedOf(id).push(n)
    } catch (error) {
      this.#note(`${action} by ${process.name}: ${codeOf(error)}`)
      if (isReprise(error, 'HISTORY_DAMAGED')) throw new Violation('G3', error.message)
      if (!isReprise(error, ...expected)) throw error
      // It finds out, and starts from the stored state.
      process.handles.delete(id)
      await process.engine.close().catch(() => undefined)
      this.#processes[this.#processes.indexOf(process)] = this.#start()
    }
  }

  /** The intent in the simulation's own words. The process may die, or get no answer, once the outside has done it. */
  async #pay(space, process, id, mayDie = space === 'red') {
    const handle = process.handles.get(id)
    const effect = `pay${this.#random.int(2)}`
    const known = handle.effects.get(effect)
    // An intent in doubt is finished; otherwise a random intent is drawn for this place.
    const { amount } = known?.input ?? { amount: this.#random.pick([500, 900]) }
    const intent = `${space} log/${id} life ${space === 'red' ? (this.#lives.get(id) ?? 1) : 1} ${effect} ${amount}`
    const isFatal = mayDie && this.#random.chance(0.2)
    const isUnanswered = mayDie && this.#random.chance(0.2)
    /** @type {(value?: unknown) => void} */
    let die = () => undefined
    const death = new Promise((resolve) => {
      die = resolve
    })
    const call = async ({ key }) => {
      const answer = this.#outside.receive(key, intent)
      this.#note(`${intent}: ${key}`)
      if (answer !== intent) throw new Violation('G5', `${intent} was answered with the result of ${answer}`)
      const before = this.#keyOfIntent.get(intent)
      if (before !== undefined && before !== key)
        throw new Violation('G5', `${intent} has the keys ${before} and ${key}`)
      this.#keyOfIntent.set(intent, key)
      if (isFatal) die()
      else if (isUnanswered) throw new RepriseError('TIMEOUT', 'the outside did it and did not answer')
      return isFatal ? await new Promise(() => undefined) : answer
    }
    const running = handle.effects.run('pay', call, { id: effect, input: { amount } })
    await Promise.race([running, death])
    if (!isFatal || known?.outcome === 'done') return
    this.#note(`${process.name} dies`)
    this.#processes[this.#processes.indexOf(process)] = this.#start()
  }

  /** A fork pays for itself, also what its original has in doubt. */
  async #payInFork(process, id, { coordinate }) {
    const name = `${id}-${this.#nextFork++}`
    await process.engine.fork(coordinate, name)
    const handles = new Map([[name, await process.engine.open(log, name)]])
    for (let i = 0; i < 3; i++) await this.#pay('red', { ...process, handles }, name, false)
  }

  async #startNeighbour() {
    const { id } = await hostOf(this.#processes[0].engine).kernel.identity.load()
    const store = openMemory({ namespace: 'blue', hash: sha256, clock: () => this.#now, world: createWorld() })
    const engine = this.#engineOver(store, 'neighbour', 'blue')
    await hostOf(engine).kernel.identity.reincarnate({ id })
    const handles = new Map()
    for (const each of ids) handles.set(each, await engine.open(log, each))
    return { name: 'neighbour', engine, handles }
  }

  async #forget(process, id) {
    const timeline = timelineId(`log/${id}`)
    const [head] = await this.#store.head([timeline])
    if (!head) return
    const going = (await this.#numbersIn(timeline)).map(({ data }) => data)
    const { committer, random, codec } = hostOf(process.engine).kernel
    const drawn = Buffer.from(random.bytes(12)).toString('hex')
    const operation = /** @type {import('../../dist/core/coordinate.js').OperationId} */ (drawn)
    const forget = this.#random.chance(0.2) ? /** @type {const} */ ('erase') : true
    const outcome = await committer.submit({ operation, guard: guardOf(head), forget })
    if (!outcome.ok) throw new Violation('BUG', `${timeline} could not be forgotten: ${outcome.reason}`)
    for (const bytes of going) {
      const { n } = /** @type {{ readonly n: number }} */ (codec.decode(bytes.subarray(1)))
      this.#forgotten.add(n)
    }
    this.#acknowledged.set(id, [])
    this.#lives.set(id, (this.#lives.get(id) ?? 1) + 1)
  }

  async #follow() {
    const { reader } = this.#follower
    if (!reader) throw new Error('the follower starts with the run')
    for (let isEnd = false; !isEnd; ) {
      try {
        const page = await reader.page(this.#follower.position, 3)
        const numbers = page.entries
          .filter(({ type }) => type === 'n')
          .map(({ data }) => /** @type {{ readonly n: number }} */ (data).n)
        this.#follower = { reader, position: page.next, numbers: [...this.#follower.numbers, ...numbers] }
        isEnd = page.isEnd
      } catch (error) {
        this.#note(`follow: ${codeOf(error)}`)
        if (!isReprise(error, 'POSITION_GONE')) throw new Violation('G12', stackOf(error))
        this.#follower = { reader, position: '', numbers: [] }
      }
    }
    const there = []
    for (const id of ids) there.push(...(await this.#numbersIn(`log/${id}`)))
    const numbers = this.#follower.numbers.filter((n) => !this.#forgotten.has(n))
    if (numbers.length !== there.length || new Set(numbers).size < numbers.length)
      throw new Violation('G12', `a reader has read all, and has ${numbers.length} of ${there.length} entries`)
    for (const [id, acknowledged] of this.#acknowledged) {
      const missing = acknowledged.find((n) => !numbers.includes(n))
      if (missing !== undefined)
        throw new Violation('G12', `a reader has read all, without entry ${missing} of log/${id}`)
    }
  }

  /** @param {string} id */
  #acknowledgedOf(id) {
    return /** @type {number[]} */ (this.#acknowledged.get(id))
  }

  async #numbersIn(timeline) {
    const runs = await this.#store.read(timeline, 0, 1e9)
    return runs.flatMap((run) => unpackEntries(run)).filter(({ type }) => type === 'n')
  }

  #copy() {
    const acknowledged = new Map([...this.#acknowledged].map(([id, numbers]) => [id, [...numbers]]))
    this.#copies.push({
      world: snapshot(this.#world),
      acknowledged,
      forgotten: new Set(this.#forgotten),
      lives: new Map(this.#lives),
    })
  }

  /** All processes keep their memory. */
  async #goBack() {
    if (this.#copies.length === 0) return
    const { world, acknowledged, forgotten, lives } = this.#random.pick(this.#copies)
    this.#world = snapshot(world)
    this.#acknowledged = new Map([...acknowledged].map(([id, numbers]) => [id, [...numbers]]))
    this.#forgotten = new Set(forgotten)
    this.#lives = new Map(lives)
    this.#open()
    // A restore is announced; a failover is not.
    if (this.#isPaying && this.#random.chance(0.5))
      await hostOf(this.#random.pick(this.#processes).engine).kernel.identity.reincarnate()
    if (this.#random.chance(0.3)) await this.#audit()
  }

  #open() {
    this.#store = openMemory({ namespace, hash: sha256, clock: () => this.#now, world: this.#world })
  }

  #start() {
    const name = `p${this.#nextProcess++}`
    return { name, engine: this.#engineOver(this.#door(), name), handles: new Map() }
  }

  /** The store as processes have it: whichever copy is up, with the planted bug. */
  #door() {
    return new Proxy(
      {},
      {
        get: (_, key) => {
          if (key === 'commit') return (commits) => this.#commit(commits)
          if (key === 'close') return () => Promise.resolve()
          const member = this.#store[key]
          return typeof member === 'function' ? member.bind(this.#store) : member
        },
      },
    )
  }

  async #commit(commits) {
    if (this.#plant === 'guard-ignores-digest')
      return await this.#store.commit(commits.map((one) => this.#lenient(one)))
    const riding = this.#plant === 'rider-ends-transaction' && commits.some((one) => one.userSql)
    if (!riding) return await this.#store.commit(commits)
    // The user's SQL rolled back its commit, and the store reported success.
    const before = snapshot(this.#world)
    const outcomes = await this.#store.commit(commits)
    this.#world = before
    this.#open()
    return outcomes
  }

  #lenient(commit) {
    const row = commit.guard && this.#world.spaces.get(namespace)?.timelines.get(commit.guard.timeline)
    if (!row || commit.guard.digest === undefined) return commit
    return { ...commit, guard: { ...commit.guard, digest: row.digest } }
  }

  #engineOver(store, name, space = namespace) {
    const clock = {
      now: () => this.#now,
      elapsed: () => this.#now,
      after: () => () => {},
      soon: (call) => queueMicrotask(call),
      next: (call) => queueMicrotask(call),
    }
    const identity = { host: 'host', process: name }
    const ports = {
      store,
      namespace: space,
      clock,
      random: this.#random,
      hash: sha256,
      identity,
      isGone: () => false,
      ...plantedPort(this.#plant),
    }
    const engine = createEngine(ports, { worker: name, lease: 1e9, patience: 0 })
    hostOf(engine).register(log.prefix, log.fold)
    return engine
  }

  /** By an engine that knows nothing yet, over a copy. */
  async #audit() {
    const world = snapshot(this.#world)
    const store = openMemory({ namespace, hash: sha256, clock: () => this.#now, world })
    const engine = this.#engineOver(store, 'auditor')
    const { faults } = await engine.verify()
    if (faults.length > 0) throw new Violation('G3', `history is broken: ${faults[0].where}: ${faults[0].what}`)
    for (const id of ids) {
      const acknowledged = this.#acknowledgedOf(id)
      const head = await engine.head(`log/${id}`)
      const { numbers } = head
        ? (await hostOf(engine).openTimeline(timelineId(`log/${id}`), log.fold, { takeover: true })).state
        : { numbers: [] }
      if (new Set(numbers).size < numbers.length) throw new Violation('G4', `log/${id} holds an entry twice`)
      const missing = acknowledged.find((n) => !numbers.includes(n))
      if (missing !== undefined) throw new Violation('G1', `log/${id}: entry ${missing} was acknowledged and is gone`)
    }
    await engine.close()
  }

  #note(text) {
    let hash = this.traceHash
    for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193)
    this.traceHash = hash >>> 0
    this.#print?.(text)
  }
}
