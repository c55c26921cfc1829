// The testing kit for every model: virtual time, so that a year of sleep takes milliseconds, and processes that crash at any
// chosen point and restart. It needs no test runner; everything is real except time and the store.

import { type Duration, toMs } from '../core/duration.ts'
import { isWithin } from '../core/history/scope.ts'
import { checkOptions, namesOf } from '../core/options.ts'
import type { Store } from '../core/store/ports.ts'
import { createEngine } from '../engine/api/open.ts'
import type { Reprise } from '../engine/api/reprise.ts'
import { sha256 } from '../engine/base/platform.ts'
import { hostOf } from '../engine/host/host.ts'
import type { Workable } from '../engine/model/definition.ts'
import { hostOf as workflowHostOf } from '../layers/workflow/host.ts'
import { createWorld, openMemory } from '../stores/memory/index.ts'
import { slowStore } from './slow-store.ts'
import { VirtualClock } from './virtual-clock.ts'

/** A point at which a process dies. */
export type CrashPoint =
  /** Before or after the nth commit overall (from 1). */
  | { readonly commit: number; readonly when: 'before' | 'after' }
  /** Before or after the nth effect that the test reports with `kit.effect` (from 1). */
  | { readonly effect: number; readonly when: 'before' | 'after' }

/** A crash, or a pause: the process stops for that long, others take over, and then it continues as if nothing had happened. */
export type Disturbance = CrashPoint & { readonly pause?: Duration }

export interface KitOptions {
  /** Definitions that the processes execute; a run adds its own definition. */
  readonly work?: readonly Workable[]
  /** Start of virtual time. Default: 2026-01-01. */
  readonly startAt?: Date | number
  readonly crashAt?: readonly Disturbance[]
  /** How long a request to the store and its answer take, in virtual time. Default: no time. */
  readonly slowness?: (method: string, when: 'before' | 'after') => Duration
  /** Bugs that are planted on purpose, to prove that a test finds them. */
  readonly planted?: ReadonlySet<string>
  /** Called before every commit. */
  readonly onCommit?: (n: number) => void
}

const known = namesOf<KitOptions>()('work startAt crashAt slowness planted onCommit')

export class Crashed extends Error {
  override readonly name: string = 'Crashed'
}

const quietTurns = 4
const realPatienceMs = 30

/**
 * @example
 * const kit = new TestKit()
 * const report = await kit.survive((rp) => rp.run(nightly).result())
 */
export class TestKit {
  readonly clock: VirtualClock
  readonly #world = createWorld()
  readonly #options: KitOptions
  readonly #dead = new Set<string>()
  readonly #paused = new Map<string, Promise<void>>()
  readonly #definitions = new Set<Workable>()
  #process = 0
  #engine!: Reprise
  /** The store without crashes and slowness, for the kit's own reads. */
  #store!: Store
  #inFlight = 0
  #commits = 0
  #effects = 0
  #crashes = 0
  readonly #onCrash = new Set<() => void>()
  /** Calls in flight that were given real time and made no progress. */
  #waitedFor = ''

  constructor(options: KitOptions = {}) {
    checkOptions(new.target.name, options, known)
    this.#options = options
    this.clock = new VirtualClock(Number(options.startAt ?? Date.UTC(2026, 0, 1)))
    for (const definition of options.work ?? []) this.#definitions.add(definition)
    this.#boot()
  }

  /** The engine of the live process; after a crash, another one. */
  get rp(): Reprise {
    return this.#engine
  }

  get commits(): number {
    return this.#commits
  }

  get effects(): number {
    return this.#effects
  }

  get crashes(): number {
    return this.#crashes
  }

  now(): number {
    return this.clock.now()
  }

  work(definition: Workable): void {
    if (this.#definitions.has(definition)) return
    this.#definitions.add(definition)
    this.#engine.work([definition])
  }

  /** A deployment: the process dies, and the next one has this code in place of the definition of the same name. */
  deploy(...definitions: readonly (Workable & { readonly kind: string; readonly name: string })[]): void {
    for (const next of definitions) {
      for (const each of this.#definitions) {
        const { kind, name } = each as Workable & { readonly kind?: string; readonly name?: string }
        if (kind === next.kind && name === next.name) this.#definitions.delete(each)
      }
      this.#definitions.add(next)
    }
    this.crash()
  }

  /** Advances virtual time whenever nothing happens, until the promise settles. */
  async until<T>(promise: Promise<T>): Promise<T> {
    let isSettled = false
    const settled = () => {
      isSettled = true
    }
    promise.then(settled, settled)
    for (let idle = 0; !isSettled; ) {
      await this.#quiet(() => isSettled)
      if (isSettled) break
      if (await this.#leap()) idle = 0
      else if (++idle > 200) throw new Error('no event is left, and the awaited one has not happened')
    }
    return await promise
  }

  /** Like `until`, for a call that the next process repeats if this one dies. */
  async survive<T>(call: (rp: Reprise) => Promise<T>): Promise<T> {
    for (;;) {
      let isDead = () => {}
      const died = new Promise<typeof Crashed>((resolve) => {
        isDead = () => resolve(Crashed)
        this.#onCrash.add(isDead)
      })
      let isOver = false
      const called = call(this.#engine).finally(() => {
        isOver = true
      })
      called.catch(() => undefined)
      const first = await this.until(Promise.race([called, isOver ? called : died])).finally(() =>
        this.#onCrash.delete(isDead),
      )
      if (first !== Crashed) return first as T
    }
  }

  /** Advances virtual time by this duration. */
  async advance(duration: Duration): Promise<void> {
    const until = this.clock.now() + toMs(duration, 'duration')
    for (;;) {
      await this.#quiet(() => false)
      const next = await this.#nextAt(true)
      if (next === null || next > until) break
      this.clock.leap(next)
    }
    this.clock.leap(until)
    await this.#quiet(() => false)
  }

  /** Runs everything that can happen without time passing. */
  async settle(): Promise<void> {
    await this.#quiet(() => false)
  }

  /** An effect of the code under test: it is counted, and is a crash point. Call it inside a step, an item or a tool. */
  async effect<T>(call: () => T | Promise<T>): Promise<T> {
    this.#effects += 1
    const n = this.#effects
    await this.#crashIf((point) => 'effect' in point && point.effect === n && point.when === 'before')
    const made = call()
    const value = made instanceof Promise ? await made : made
    await this.#crashIf((point) => 'effect' in point && point.effect === n && point.when === 'after')
    return value
  }

  /** The process dies without warning, and another one starts. */
  crash(): void {
    this.#crashed()
    // Paused processes die with it.
    for (let n = 1; n <= this.#process; n++) this.#dead.add(this.#nameOf(n))
    hostOf(this.#engine).kernel.worker.abandon()
    this.#boot()
  }

  /** The process stops, another one starts, and after this duration the first continues: a zombie. */
  pause(duration: Duration): Promise<void> {
    const name = this.#nameOf(this.#process)
    const thawed = new Promise<void>((resolve) => {
      this.clock
        .view(() => true)
        .after(toMs(duration, 'duration'), () => {
          this.#paused.delete(name)
          resolve()
        })
    })
    this.#paused.set(name, thawed)
    this.#crashed()
    this.#boot()
    return thawed
  }

  #crashed(): void {
    this.#crashes += 1
    for (const call of [...this.#onCrash]) call()
  }

  async close(): Promise<void> {
    let isClosed = false
    const closing = this.#engine.close().finally(() => {
      isClosed = true
    })
    while (!isClosed) {
      await new Promise((resolve) => setImmediate(resolve))
      const next = this.clock.nextAt()
      if (next !== null) this.clock.leap(next)
    }
    await closing
  }

  #boot(): void {
    this.#process += 1
    const name = this.#nameOf(this.#process)
    const isAlive = () => !this.#dead.has(name)
    const store = openMemory({ namespace: 'test', hash: sha256, world: this.#world, clock: () => this.clock.now() })
    this.#store = store
    let seed = this.#process * 7919
    this.#engine = createEngine(
      {
        store: this.#mortal(this.#slow(store), isAlive, name),
        clock: this.clock.view(isAlive, () => this.#paused.get(name) ?? null),
        random: {
          bytes: (count) => Uint8Array.from({ length: count }, () => Math.floor(next() * 256)),
          number: () => next(),
        },
        identity: { host: 'test', process: name },
        isGone: (other) => this.#dead.has(other.process),
        ...(this.#options.planted && { planted: this.#options.planted }),
      },
      { worker: 'test' },
    )
    function next(): number {
      seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0
      return seed / 4294967296
    }
    this.#engine.work([...this.#definitions])
  }

  #slow(store: Store): Store {
    const { slowness } = this.#options
    if (!slowness) return store
    const clock = this.clock.view(() => true)
    return slowStore(store, (method, when) => {
      const delayMs = toMs(slowness(method, when), 'slowness')
      if (delayMs === 0) return undefined
      this.#inFlight += 1
      return new Promise<void>((resolve) => {
        clock.after(delayMs, () => {
          this.#inFlight -= 1
          resolve()
        })
      })
    })
  }

  #nameOf(process: number): string {
    return `process-${process}`
  }

  /** A dead process gets no answers. Its commits count for crash points. */
  #mortal(store: Store, isAlive: () => boolean, process: string): Store {
    const never = new Promise<never>(() => undefined)
    return new Proxy(store, {
      get: (target, name) => {
        const member: unknown = Reflect.get(target, name, target)
        if (typeof member !== 'function') return member
        if (name === 'listen') return (wake: () => void) => target.listen(() => isAlive() && wake())
        return async (...args: unknown[]) => {
          this.clock.activity += 1
          await this.#paused.get(process)
          if (!isAlive()) return await never
          if (name === 'commit') await this.#beforeCommit()
          if (!isAlive()) return await never
          const answer = await (member as (...args: unknown[]) => unknown).apply(target, args)
          if (name === 'commit') await this.#afterCommit()
          await this.#paused.get(process)
          return isAlive() ? answer : await never
        }
      },
    })
  }

  async #beforeCommit(): Promise<void> {
    this.#commits += 1
    this.#options.onCommit?.(this.#commits)
    const n = this.#commits
    await this.#crashIf((point) => 'commit' in point && point.commit === n && point.when === 'before')
  }

  async #afterCommit(): Promise<void> {
    const n = this.#commits
    await this.#crashIf((point) => 'commit' in point && point.commit === n && point.when === 'after')
  }

  async #crashIf(isHere: (point: Disturbance) => boolean): Promise<void> {
    const point = this.#options.crashAt?.find(isHere)
    if (!point) return
    if (point.pause !== undefined) return await this.pause(point.pause)
    this.crash()
    // This code belongs to the dead process: it never continues.
    await new Promise<never>(() => undefined)
  }

  async #leap(): Promise<boolean> {
    const next = await this.#nextAt()
    if (next === null) return false
    const before = this.clock.now()
    this.clock.leap(next)
    return next > before || this.clock.activity > 0
  }

  /** With runs in memory, the next timer; if all of them sleep, directly the first wakeup. */
  async #nextAt(onlyWork = false): Promise<number | null> {
    const { live } = workflowHostOf(hostOf(this.#engine))
    if (live > 0 || this.#inFlight > 0 || this.#otherCalls().length > 0) return this.clock.nextAt()
    const store = this.#store
    const kinds = ['workflow/', 'workflow-queue/', 'workflow-schedule/']
    const heads = (await Promise.all(kinds.map((prefix) => store.timelines({ prefix, limit: 10_000 })))).flat()
    let next = Number.POSITIVE_INFINITY
    let isOwned = false
    for (const { wakeup, owner, queue, mail } of heads) {
      if (owner !== null || (mail > 0 && queue !== null)) isOwned = true
      else if (wakeup !== null && queue !== null && wakeup < next) next = wakeup
    }
    if (isOwned) return this.clock.nextAt()
    if (next === Number.POSITIVE_INFINITY) return onlyWork ? null : this.clock.nextAt()
    // Due and not claimed yet: the next poll of the dispatcher is a timer.
    return next > this.clock.now() ? next : this.clock.nextAt()
  }

  /** The calls to the outside that are in flight, in any model. Empty: none. */
  #callsInFlight(): string {
    const host = hostOf(this.#engine)
    const { calls, callsStarted } = workflowHostOf(host)
    const others = this.#otherCalls().map(({ timeline, what, since }) => `${timeline} ${what} ${since}`)
    return [...(calls > 0 ? [String(callsStarted)] : []), ...others].join()
  }

  /** Steps of workflows are counted by their host. */
  #otherCalls() {
    return hostOf(this.#engine)
      .worker.inHand()
      .filter(({ timeline }) => !isWithin('workflow/', timeline))
  }

  /** Waits until nothing more happens. Steps that do real work are given real time. */
  async #quiet(isDone: () => boolean): Promise<void> {
    for (let turns = 0, waitedMs = 0; turns < quietTurns && !isDone(); ) {
      const before = this.clock.activity
      await new Promise((resolve) => setImmediate(resolve))
      const calls = this.#callsInFlight()
      if (calls !== '' && calls !== this.#waitedFor) {
        await new Promise((resolve) => setTimeout(resolve, 1))
        waitedMs += 1
        if (waitedMs >= realPatienceMs) this.#waitedFor = calls
        continue
      }
      turns = this.clock.activity === before ? turns + 1 : 0
    }
  }
}
