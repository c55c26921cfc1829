// Processes on one store in memory, for tests in which one of them dies: a dead process gets no answers, its timers never fire,
// and the next process finds its worker dead.

import type { Clock, Store } from '../../core/store/ports.ts'
import { createEngine } from '../../engine/api/open.ts'
import type { Reprise } from '../../engine/api/reprise.ts'
import { sha256, systemClock } from '../../engine/base/platform.ts'
import { hostOf } from '../../engine/host/host.ts'
import { createWorld, openMemory } from '../../stores/memory/index.ts'

export class JobProcesses {
  readonly #world = createWorld()
  readonly #dead = new Set<string>()
  readonly #live = new Set<JobProcess>()
  #started = 0

  start(): JobProcess {
    this.#started += 1
    const name = `process-${this.#started}`
    const started = new JobProcess(this.#world, name, this.#dead)
    this.#live.add(started)
    return started
  }

  async close(): Promise<void> {
    for (const each of this.#live) await each.close()
  }
}

export class JobProcess {
  readonly rp: Reprise
  readonly #name: string
  readonly #dead: Set<string>
  readonly #died: Promise<'died'>
  readonly #onDeath: (() => void)[] = []
  #isAlive = true

  constructor(world: ReturnType<typeof createWorld>, name: string, dead: Set<string>) {
    this.#name = name
    this.#dead = dead
    this.#died = new Promise((resolve) => this.#onDeath.push(() => resolve('died')))
    const isAlive = () => this.#isAlive
    const store = openMemory({ namespace: 'test', hash: sha256, world })
    this.rp = createEngine(
      {
        store: mortal(store, isAlive),
        clock: clockOf(isAlive, (call) => this.onDeath(call)),
        identity: { host: 'test', process: name },
        isGone: (other) => dead.has(other.process),
      },
      { worker: 'test' },
    )
  }

  isAlive(): boolean {
    return this.#isAlive
  }

  onDeath(call: () => void): void {
    this.#onDeath.push(call)
  }

  die(): void {
    if (!this.#isAlive) return
    this.#isAlive = false
    this.#dead.add(this.#name)
    hostOf(this.rp).kernel.worker.abandon()
    for (const call of this.#onDeath) call()
  }

  /** The result, or 'died' if the process died before. */
  async outlive<R>(work: Promise<R>): Promise<R | 'died'> {
    work.catch(() => undefined)
    return await Promise.race([work, this.#died])
  }

  async close(): Promise<void> {
    if (this.#isAlive) await this.rp.close()
  }
}

function mortal(store: Store, isAlive: () => boolean): Store {
  const never = new Promise<never>(() => undefined)
  return new Proxy(store, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name, target)
      if (typeof member !== 'function') return member
      if (name === 'listen') return (wake: () => void) => target.listen(() => isAlive() && wake())
      return async (...args: unknown[]) => {
        if (!isAlive()) return await never
        const answer = await (member as (...args: unknown[]) => unknown).apply(target, args)
        return isAlive() ? answer : await never
      }
    },
  })
}

/** When the process dies, its pending timers end too: they would keep the program of the tests alive. */
function clockOf(isAlive: () => boolean, onDeath: (call: () => void) => void): Clock {
  const pending = new Set<() => void>()
  onDeath(() => {
    for (const cancel of pending) cancel()
  })
  const ifAlive = (call: () => void) => () => {
    if (isAlive()) call()
  }
  return {
    now: () => systemClock.now(),
    elapsed: () => systemClock.elapsed(),
    after(delayMs, call, isAwaited) {
      if (!isAlive()) return () => undefined
      const stop = systemClock.after(
        delayMs,
        () => {
          pending.delete(stop)
          call()
        },
        isAwaited,
      )
      pending.add(stop)
      return () => {
        pending.delete(stop)
        stop()
      }
    },
    soon: (call) => systemClock.soon(ifAlive(call)),
    next: (call) => systemClock.next(ifAlive(call)),
  }
}
