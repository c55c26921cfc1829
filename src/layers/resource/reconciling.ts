// The work of a controller while this process owns it: when each object is reconciled, and the context it receives.

import { toHex } from '../../core/coordinate.ts'
import { toMs } from '../../core/duration.ts'
import { isReprise, RepriseError } from '../../core/errors.ts'
import { checkObject, checkText } from '../../core/options.ts'
import { refuseThenable } from '../../core/synchronous.ts'
import type { EffectCall, EffectOptions, KeyedBy } from '../../engine/history/effects.ts'
import type { Host } from '../../engine/host/host.ts'
import { checkDefinition, opens } from '../../engine/model/definition.ts'
import type { OpenTimeline } from '../../engine/writing/timeline.ts'
import { letterOf } from './follower-handle.ts'
import type { FollowerState } from './follower-state.ts'
import { Following } from './following.ts'
import type { ResourceHandle } from './handle.ts'
import type { Session } from './leading.ts'
import type { ControllerSettings, Reconcile, ReconcileContext, Watched } from './reconcile-context.ts'
import type { ResourceDefinition } from './resource.ts'
import type { ResourceObject, StatusChange } from './rules/object.ts'
import { failureNotes, Runner } from './runner.ts'
import type { Fence } from './shared-resource.ts'
import type { WatchEvent } from './watch.ts'

const specDigits = 16

type ObjectEvent = Exclude<WatchEvent, { type: 'bookmark' }>

export interface ReconcilingOptions {
  readonly handles: readonly ResourceHandle[]
  readonly watched: readonly Watched[]
  readonly reconcile: Reconcile
  readonly settings: ControllerSettings
  readonly open: OpenTimeline<FollowerState>
  readonly fence: Fence
  readonly lost: (error: unknown) => void
}

export class Reconciling implements Session {
  readonly #options: ReconcilingOptions
  readonly #engine: Host
  readonly #runner: Runner
  readonly #following: readonly Following[]
  readonly #known = new Map<string, Pick<ResourceObject, 'uid' | 'generation'>>()

  constructor(engine: Host, options: ReconcilingOptions) {
    this.#engine = engine
    this.#options = options
    const { kernel } = engine
    const { open, settings, lost, handles } = options
    this.#runner = new Runner(
      kernel,
      {
        call: (name, attempt, signal) => this.#reconcile(name, attempt, signal),
        ...failureNotes(kernel, open),
        giveUp: (name, attempts, error) => this.#giveUp(name, attempts, error),
        isOver: (error) => {
          const isOver = open.broken !== null || isFencedOut(error, options.fence)
          if (isOver) lost(error)
          return isOver
        },
      },
      settings,
    )
    this.#following = handles.map(
      (handle, i) =>
        new Following(kernel, handle, {
          event: (event, isInitial) => (i === 0 ? this.#changed(event, isInitial) : this.#concerned(event, i)),
          listed: () => (i === 0 ? this.#lookAtLetters() : undefined),
          failed: (error) => void kernel.failures.failed(open.id, error),
        }),
    )
  }

  hasDone(revisions: readonly number[]): boolean {
    return this.#following.every(({ seen }, i) => seen >= revisions[i]!) && this.#runner.pending === 0
  }

  redriven(keys: readonly string[]): void {
    for (const key of keys) this.#runner.add(key, true)
  }

  async stop(): Promise<void> {
    await Promise.all(this.#following.map((each) => each.stop()))
    await this.#runner.stop()
  }

  get #primary(): ResourceHandle {
    return this.#options.handles[0]!
  }

  #changed(event: ObjectEvent, isInitial: boolean): void {
    const { type, object } = event
    const { name, generation, uid } = object
    const before = this.#known.get(name)?.generation
    // A deleted object is known until its end was reconciled.
    this.#known.set(name, { uid, generation })
    // The desired state has changed, which may fix the failure, so the object does not wait for its retry pause.
    this.#runner.add(name, !isInitial && (type !== 'modified' || before !== generation))
  }

  /**
   * An object that was deleted while no process was watching has only its letter left: reconcile it so that the letter is
   * removed.
   */
  #lookAtLetters(): void {
    for (const name of this.#options.open.state.letters.keys()) if (!this.#primary.peek(name)) this.#runner.add(name)
  }

  #concerned({ object }: ObjectEvent, i: number): void {
    const { concerns } = this.#options.watched[i]!
    const { kind } = this.#primary
    const owners = () => object.owners.flatMap((owner) => (owner.kind === kind ? [owner.name] : []))
    const names = concerns ? concerns(object) : owners()
    refuseThenable(names, 'concerns', 'derive the names from the changed object alone; reconcile may wait')
    for (const name of names) this.#runner.add(name)
  }

  async #reconcile(name: string, attempt: number, signal: AbortSignal): Promise<number | null> {
    const known = this.#known.get(name)
    const object = await this.#primary.get(name)
    const answer = await this.#options.reconcile(this.#context(name, object, attempt, signal))
    const { open } = this.#options
    const { letters } = open.state
    if (letters.has(name)) {
      await open.write([{ type: 'redriven', data: { keys: [name] } }], { attributes: { dead: letters.size - 1 } })
    }
    if (answer) return toMs(answer.requeueAfter, 'requeueAfter')
    if (!object && this.#known.get(name) === known) this.#known.delete(name)
    // A deleted object does not drift.
    return object ? null : Number.NaN
  }

  #context(name: string, object: ResourceObject | undefined, attempt: number, signal: AbortSignal): ReconcileContext {
    const { open, fence, handles, watched } = this.#options
    const primary = this.#primary
    return {
      name,
      object,
      attempt,
      signal,
      report: async (status: Omit<StatusChange, 'observedGeneration'>) => {
        if (!object) throw new RepriseError('NOT_FOUND', `there is no ${primary.kind} ${name} to report on`, { name })
        const { uid } = object
        const isPlanted = this.#engine.planted.has('status-of-now')
        const { generation } = isPlanted ? ((await primary.get(name)) ?? object) : object
        const change = { ...status, name, uid, observedGeneration: generation }
        // The report returns as an event: one more reconcile, which finds nothing to do. Distinguishing it from a concurrent
        // change of another writer would cost more than it saves.
        return await primary.reportAs(fence, change)
      },
      effect: <T>(what: string, call: (effect: EffectCall) => Promise<T> | T, options: EffectOptions<T> = {}) => {
        checkText('the name of an effect', what)
        checkObject('the options of an effect', options)
        const { id, by } = this.#identify(name, object, options.id ?? what)
        return open.effects.run(what, call, { signal, ...options, id }, by)
      },
      event: async (reason, message, type = 'Normal') => {
        await open.write([{ type: 'event', data: { name, type, reason, message } }])
      },
      of: <S, T>(definition: ResourceDefinition<S, T>) => {
        checkDefinition(definition, opens, 'ctx.of()')
        const at = watched.findIndex(({ of }) => of.name === definition.name)
        if (at >= 0) return handles[at] as unknown as ResourceHandle<S, T>
        const what = `the controller does not watch ${definition.name}: name it in watch`
        throw new RepriseError('INVALID_ARGUMENT', what, { name: definition.name })
      },
    }
  }

  /**
   * An effect is about one spec of one object. A recreated object has another uid and a changed one another generation; after a
   * restore or a rollback of the kind, another spec may have the same generation. Effects that were recorded by their
   * generation alone keep their ids.
   */
  #identify(name: string, object: ResourceObject | undefined, own: string): { id: string; by?: KeyedBy } {
    const { hash, codec, planted } = this.#engine
    const uid = object?.uid ?? this.#known.get(name)?.uid ?? this.#options.open.state.letters.get(name)?.uid
    if (!object) {
      const id = uid ? `${uid}/gone/${own}` : `${this.#primary.kind} ${name}/${own}`
      return uid ? { id, by: { intent: [id], otherwise: ['gone'] } } : { id }
    }
    const place = `${object.uid}/${object.generation}`
    const spec = toHex(hash(codec.encode(object.spec)))
    const former = `${place}/${own}`
    const id = this.#options.open.effects.get(former) ? former : `${place}.${spec.slice(0, specDigits)}/${own}`
    return { id, by: { intent: [former], otherwise: planted.has('spec-left-out') ? [] : ['spec', spec] } }
  }

  async #giveUp(name: string, attempts: number, error: unknown): Promise<void> {
    const { open } = this.#options
    const object = this.#primary.peek(name)
    const at = { revision: object?.revision ?? 0, uid: object?.uid ?? this.#known.get(name)?.uid ?? '' }
    const letter = letterOf(name, object ?? { name, deleted: true }, at, attempts, error, this.#engine.clock.now())
    const { letters } = open.state
    const dead = letters.size + (letters.has(name) ? 0 : 1)
    await open.write([{ type: 'gaveUp', data: { letter } }], { attributes: { dead } })
    void this.#engine.failures.failed(open.id, error)
    // The letter has its uid from here on.
    if (!object) this.#known.delete(name)
  }
}

/** True if this controller's own fence refused the write, not the fence of another resource the reconcile wrote to. */
function isFencedOut(error: unknown, { by }: Fence): boolean {
  return isReprise(error, 'FENCED') && (error.data as { readonly by?: string }).by === by
}
