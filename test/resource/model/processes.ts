// The processes of a random history: each an engine over the same store, with a controller and an informer, that can be cut off
// at any moment (a crash: its later calls have no effect) or paused (its next call happens later).

import { RepriseError } from '../../../src/core/errors.ts'
import type { Store } from '../../../src/core/store/ports.ts'
import { createEngine } from '../../../src/engine/api/open.ts'
import type { Reprise } from '../../../src/engine/api/reprise.ts'
import {
  type ControllerHandle,
  controller,
  type InformerHandle,
  informer,
  type ResourceHandle,
  resource,
} from '../../../src/layers/resource/index.ts'
import { hostOf } from '../../support/host.ts'
import type { Item, Reference, Spec, Status } from './reference.ts'

export const things = resource<Spec, Status>('things', { retain: { checkpoints: 1, history: 'needed' } })
const noPause = { backoff: 1, backoffMax: 2, jitter: 0 }
export const atOnce = 2

export interface Handled {
  readonly name: string
  readonly uid: string
  /** Null: its end. */
  readonly revision: number | null
  readonly by: string
}

/** Like an outside service that refuses an older request after a newer one: the controller's calls there are not fenced. */
export interface Made {
  readonly order: number
  readonly uid: string
  /** Null: it was taken away. */
  readonly n: number | null
  /** A finalizer sees to it that it is taken away. */
  readonly isHeld: boolean
}

/** The state outside of the store, which outlives every process. */
export interface Outside {
  readonly reference: Reference
  /** The controller's result for each object, and the number of its outside calls per key. */
  readonly made: Map<string, Made>
  readonly calls: Map<string, number>
  readonly handled: Handled[]
  readonly chance: () => number
  readonly planted: ReadonlySet<string>
}

export class Process {
  readonly name: string
  readonly rp: Reprise
  readonly #outside: Outside
  #isDead = false
  #gate: Promise<void> | null = null
  #open: () => void = () => undefined
  handle!: ResourceHandle<Spec, Status>
  scaler!: ControllerHandle
  mirror!: InformerHandle<Spec, Status>

  private constructor(name: string, store: Store, outside: Outside) {
    this.name = name
    this.#outside = outside
    this.rp = createEngine(
      { store: this.#wrapped(store), planted: outside.planted },
      { worker: name, limits: { watchedChanges: 8 } },
    )
  }

  static async start(name: string, store: Store, outside: Outside, takeover: boolean): Promise<Process> {
    const started = new Process(name, store, outside)
    started.handle = await started.rp.open(things)
    started.mirror = await started.rp.open(started.#informer(), undefined, { takeover })
    started.scaler = await started.rp.open(started.#controller(), undefined, { takeover })
    return started
  }

  get isDead(): boolean {
    return this.#isDead
  }

  get isPaused(): boolean {
    return this.#gate !== null
  }

  /** Cut off: its store answers nothing more. */
  crash(): void {
    this.#isDead = true
    hostOf(this.rp).kernel.worker.abandon()
    this.resume()
  }

  pause(): void {
    this.#gate ??= new Promise<void>((resolve) => {
      this.#open = resolve
    })
  }

  resume(): void {
    this.#gate = null
    this.#open()
  }

  async #awake(): Promise<void> {
    while (this.#gate) await this.#gate
    if (this.#isDead) throw new RepriseError('CLOSED', `${this.name} is dead`)
  }

  #wrapped<T extends object>(target: T): T {
    return new Proxy(target, {
      get: (held, name) => {
        const member: unknown = Reflect.get(held, name, held)
        if (name === 'blobs') return this.#wrapped(member as object)
        if (typeof member !== 'function') return member
        if (name === 'close' || name === 'listen') return member.bind(held)
        return async (...args: unknown[]) => {
          await this.#awake()
          const answer = await member.apply(held, args)
          // It may have been done, and the answer is lost.
          await this.#awake()
          return answer
        }
      },
    })
  }

  /** Somewhere in the middle of user code: time passes, the process may be paused or dead. */
  async #meanwhile(): Promise<void> {
    for (let i = Math.floor(this.#outside.chance() * 4); i > 0; i--)
      await new Promise((resolve) => setImmediate(resolve))
    await this.#awake()
  }

  #controller() {
    const { made, calls, chance, reference } = this.#outside
    return controller<Spec, Status>('scaler', {
      watch: [things],
      concurrency: atOnce,
      retry: noPause,
      reconcile: async ({ name, object, effect, report, of }) => {
        await this.#meanwhile()
        // A deleted object was cleaned up before its finalizer was removed; objects without one may stay.
        if (!object) return
        if (chance() < 0.1) throw new Error('not this time')
        await effect('call', ({ key }) => void calls.set(key, (calls.get(key) ?? 0) + 1))
        if (object.deletingAt !== undefined) {
          make(made, object, null)
          if (object.finalizers.length === 0) return
          reference.released.add(object.uid)
          await of(things).change(name, () => ({ finalizers: [] }), { uid: object.uid })
          return
        }
        make(made, object, object.spec.n)
        await this.#meanwhile()
        await report({ status: { n: object.spec.n, by: this.name } })
        // Another process may have changed it meanwhile, and that event arrives later.
        await this.#meanwhile()
      },
    })
  }

  #informer() {
    const { handled, chance } = this.#outside
    return informer<Spec, Status>('mirror', {
      of: things,
      indexes: { n: ({ spec }) => String(spec.n) },
      concurrency: atOnce,
      retry: { ...noPause, attempts: 2 },
      handle: async ({ name, uid, type, object }) => {
        await this.#meanwhile()
        if (chance() < 0.15) throw new Error('not this time')
        handled.push({ name, uid, revision: type === 'deleted' ? null : object!.revision, by: this.name })
        await this.#meanwhile()
      },
    })
  }
}

function make(made: Map<string, Made>, { name, uid, generation, finalizers }: Item, n: number | null): void {
  const order = Number(uid.slice(uid.indexOf('@') + 1)) * 1e6 + generation
  if (order < (made.get(name)?.order ?? 0)) return
  made.set(name, { order, uid, n, isHeld: finalizers.length > 0 })
}
