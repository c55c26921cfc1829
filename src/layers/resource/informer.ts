// An informer: a local cache of a kind with indexes, and a handler that is called for each change of an object. The handled
// revision of each object is stored, so a restarted informer calls the handler only for objects that changed since. A handler
// that throws is retried under its policy; then its object becomes a dead letter. No event is lost: an object counts as
// handled only once that is durable.

import { isReprise } from '../../core/errors.ts'
import { checkCount, checkGivenOptions, namesOf } from '../../core/options.ts'
import { growingPause } from '../../core/retry/pause.ts'
import { type RatePolicy, resolveRate } from '../../core/retry/rate.ts'
import { type ResolvedRetry, type RetryPolicy, resolveRetry } from '../../core/retry/retry.ts'
import { checkFunctions } from '../../core/synchronous.ts'
import type { Host } from '../../engine/host/host.ts'
import { checkDefinition, checkName, type Entity, type OpenOptions, opens } from '../../engine/model/definition.ts'
import { type Described, describes } from '../../engine/model/model.ts'
import type { NewEntry, OpenTimeline, WriteOptions } from '../../engine/writing/timeline.ts'
import { sleep } from '../../lib/waiting.ts'
import { FollowerHandle, letterOf } from './follower-handle.ts'
import { followerModel, informerKind } from './follower-model.ts'
import type { FollowerState } from './follower-state.ts'
import { Following } from './following.ts'
import type { ResourceHandle } from './handle.ts'
import { type ResourceIndex, ResourceIndexes } from './indexes.ts'
import { isLoss, Leading, type Session } from './leading.ts'
import type { ResourceDefinition } from './resource.ts'
import type { ResourceObject } from './rules/object.ts'
import { type SelectorText, selectorOf } from './rules/selector.ts'
import { failureNotes, Runner } from './runner.ts'

export interface InformerEvent<Spec = unknown, Status = unknown> {
  readonly type: 'added' | 'modified' | 'deleted'
  readonly name: string
  readonly uid: string
  /** The current object. For a deleted object, its last state; undefined if it was deleted while no process was watching. */
  readonly object: ResourceObject<Spec, Status> | undefined
  /** 1 for the first attempt. */
  readonly attempt: number
  readonly signal: AbortSignal
}

export interface InformerOptions<Spec = unknown, Status = unknown> {
  readonly of: ResourceDefinition<Spec, Status>
  /** The id the resource is opened with, if any. */
  readonly id?: string
  readonly indexes?: Readonly<Record<string, ResourceIndex<Spec, Status>>>
  /** Called with the current object for every object that changed since it was last handled. */
  readonly handle?: (event: InformerEvent<Spec, Status>) => unknown
  /** Default: three attempts; then the object is a dead letter until it changes or is redriven. */
  readonly retry?: RetryPolicy
  /** Maximum number of objects handled concurrently; a single object is never handled twice at once. Default: 1. */
  readonly concurrency?: number
  readonly rate?: RatePolicy
}

const known = namesOf<InformerOptions>()('of id indexes handle retry concurrency rate')

export interface InformerDefinition<Spec = unknown, Status = unknown>
  extends Entity<InformerHandle<Spec, Status>, undefined>,
    Described {
  readonly kind: 'informer'
  readonly name: string
}

/** @example const cache = await rp.open(informer('sites', { of: sites, handle: ({ object }) => sync(object) })) */
export function informer<Spec = unknown, Status = unknown>(
  name: string,
  options: InformerOptions<Spec, Status>,
): InformerDefinition<Spec, Status> {
  checkName('informer', name)
  checkGivenOptions(`informer ${name}`, options, known)
  checkFunctions(`informer ${name}`, options, [], ['handle'])
  checkDefinition(options.of, opens, `informer ${name}: of`)
  const retry = resolveRetry(options.retry)
  const { concurrency = 1, rate } = options
  checkCount(`informer ${name}: concurrency`, concurrency)
  const settings = { concurrency, rate: rate ? resolveRate(rate) : null, retry, everyMs: null }
  const model = followerModel(informerKind, name)
  return {
    [describes]: model,
    kind: 'informer',
    name,
    async [opens](engine: Host, _id: undefined, open: OpenOptions) {
      engine.declare(model)
      const resource = await options.of[opens](engine, options.id, {})
      const plain = resource as unknown as ResourceHandle
      const work = (held: OpenTimeline<FollowerState>, lost: (error: unknown) => void) =>
        Promise.resolve(new Informing(engine, plain, options as InformerOptions, settings, held, lost))
      const leading = options.handle ? new Leading(engine, `informer/${name}`, work, open) : null
      return new InformerHandle<Spec, Status>(name, engine, resource, options.indexes ?? {}, leading)
    },
  }
}

export class InformerHandle<Spec = unknown, Status = unknown> extends FollowerHandle {
  readonly #resource: ResourceHandle<Spec, Status>
  readonly #indexes: ResourceIndexes
  readonly #unfollow: () => void

  /** @internal */
  constructor(
    name: string,
    engine: Host,
    resource: ResourceHandle<Spec, Status>,
    indexes: Readonly<Record<string, ResourceIndex<Spec, Status>>>,
    leading: Leading | null,
  ) {
    super(name, `informer/${name}`, engine, [resource as unknown as ResourceHandle], leading)
    this.#resource = resource
    this.#indexes = new ResourceIndexes(resource.shared, indexes as Readonly<Record<string, ResourceIndex>>)
    this.#unfollow = resource.shared.follow()
  }

  /** Reads from the cache: the object as this process last read it. */
  get(name: string): ResourceObject<Spec, Status> | undefined {
    return this.#resource.peek(name)
  }

  /** Reads from the cache, ordered by name. */
  list(selector: SelectorText = {}): ResourceObject<Spec, Status>[] {
    const wanted = selectorOf(selector)
    const found: ResourceObject[] = []
    for (const object of this.#resource.shared.state.objects.values({ prefix: wanted.prefix })) {
      if (wanted.matches(object)) found.push(this.#resource.shared.revisions.shown(object))
    }
    return found as ResourceObject<Spec, Status>[]
  }

  /** Reads from the cache: the objects that an index holds under this value. */
  by(index: string, value: string): ResourceObject<Spec, Status>[] {
    const { revisions } = this.#resource.shared
    return this.#indexes.by(index, value).map((object) => revisions.shown(object)) as ResourceObject<Spec, Status>[]
  }

  override async close(): Promise<void> {
    this.#unfollow()
    await super.close()
  }
}

const longestPauseMs = 5000

/** An entry about the object could not be stored: another process continues from here. */
class Unnoted extends Error {
  override readonly name: string = 'Unnoted'

  constructor(name: string, cause: unknown) {
    super(`the progress for ${name} could not be recorded`, { cause })
  }
}

interface Settings {
  readonly concurrency: number
  readonly rate: ReturnType<typeof resolveRate> | null
  readonly retry: ResolvedRetry
  readonly everyMs: number | null
}

/** The work of an informer while this process owns it. */
class Informing implements Session {
  readonly #resource: ResourceHandle
  readonly #options: InformerOptions
  readonly #open: OpenTimeline<FollowerState>
  readonly #runner: Runner
  readonly #following: Following
  /** Last states of deleted objects, until their deletion is handled. */
  readonly #gone = new Map<string, ResourceObject>()
  readonly #planted: Host['kernel']['planted']
  readonly #clock: Host['kernel']['clock']
  readonly #lost: (error: unknown) => void

  constructor(
    engine: Host,
    resource: ResourceHandle,
    options: InformerOptions,
    settings: Settings,
    open: OpenTimeline<FollowerState>,
    lost: (error: unknown) => void,
  ) {
    this.#resource = resource
    this.#options = options
    this.#open = open
    this.#planted = engine.planted
    const { kernel } = engine
    this.#clock = kernel.clock
    this.#lost = lost
    this.#runner = new Runner(
      kernel,
      {
        call: (name, attempt, signal) => this.#handle(name, attempt, signal),
        ...failureNotes(kernel, open),
        giveUp: async (name, attempts, error) => {
          await this.#giveUp(name, attempts, error, kernel.clock.now())
          void kernel.failures.failed(open.id, error)
        },
        isOver: (error) => error instanceof Unnoted,
      },
      settings,
    )
    this.#following = new Following(kernel, resource, {
      event: ({ type, object }) => {
        if (type === 'deleted') this.#gone.set(object.name, object)
        else this.#gone.delete(object.name)
        this.#consider(object.name)
      },
      // A handled object that is missing from the list was deleted while no process was watching.
      listed: () => {
        if (kernel.planted.has('relist-misses-deletions')) return
        const { handled, letters } = open.state
        for (const known of [handled, letters]) {
          for (const name of known.keys()) if (!resource.peek(name)) this.#consider(name)
        }
      },
      failed: (error) => void kernel.failures.failed(open.id, error),
    })
  }

  hasDone([revision = 0]: readonly number[]): boolean {
    return this.#following.seen >= revision && this.#runner.pending === 0
  }

  redriven(keys: readonly string[]): void {
    for (const key of keys) this.#runner.add(key, true)
  }

  async stop(): Promise<void> {
    await this.#following.stop()
    await this.#runner.stop()
  }

  #consider(name: string): void {
    if (this.#isDue(name)) this.#runner.add(name)
  }

  #isDue(name: string): boolean {
    const { handled, letters } = this.#open.state
    const object = this.#resource.peek(name)
    const last = handled.get(name)
    const letter = letters.get(name)
    if (letter && letter.revision === (object?.revision ?? 0)) return false
    // A letter alone proves that the handler was called: older informers wrote no `began` entry.
    return object ? last?.revision !== object.revision : last !== undefined || letter !== undefined
  }

  async #handle(name: string, attempt: number, signal: AbortSignal): Promise<null> {
    while (this.#isDue(name)) {
      const last = this.#open.state.handled.get(name)
      const object = this.#resource.peek(name)
      // The object was deleted and created again: the deletion is handled first.
      const isEnd = !object || (last !== undefined && last.uid !== object.uid)
      const uid = isEnd ? (last ?? this.#open.state.letters.get(name))!.uid : object.uid
      const type = isEnd ? 'deleted' : last && last.revision > 0 ? 'modified' : 'added'
      // If this process dies in the handler and the object is deleted meanwhile, that deletion must still be handled.
      if (!last && !this.#planted.has('begins-unnoted'))
        await this.#note({ type: 'began', data: { n: name, u: uid } }, name, signal)
      const gone = this.#gone.get(name)
      const given = isEnd ? (gone?.uid === uid ? gone : undefined) : object
      if (this.#planted.has('record-before-handler'))
        await this.#record(name, isEnd ? null : object.revision, uid, signal)
      await this.#options.handle!({ type, name, uid, object: given, attempt, signal })
      if (this.#planted.has('informer-unrecorded')) return null
      await this.#record(name, isEnd ? null : object.revision, uid, signal)
      if (isEnd && gone?.uid === uid) this.#gone.delete(name)
    }
    return null
  }

  /**
   * The outcome is stored before the next handler call in this slot: while the store is unreachable, at most `concurrency`
   * objects are handled again after a crash.
   */
  async #record(n: string, r: number | null, u: string, signal: AbortSignal): Promise<void> {
    const { letters } = this.#open.state
    const extras = letters.has(n) ? { attributes: { dead: letters.size - 1 } } : undefined
    await this.#note({ type: 'handled', data: { n, r, u } }, n, signal, extras)
  }

  async #note(entry: NewEntry, name: string, signal: AbortSignal, extras?: WriteOptions): Promise<void> {
    for (let failures = 1; ; failures++) {
      try {
        return void (await this.#open.write([entry], extras))
      } catch (error) {
        const mayPass = isReprise(error) && error.remedy === 'retry' && !isLoss(error) && !this.#open.broken
        if (mayPass && !signal.aborted) {
          await sleep(this.#clock, growingPause(failures, 20, longestPauseMs), { isAwaited: false })
          continue
        }
        this.#lost(error)
        throw new Unnoted(name, error)
      }
    }
  }

  async #giveUp(name: string, attempts: number, error: unknown, at: number): Promise<void> {
    const object = this.#resource.peek(name)
    const uid = object?.uid ?? this.#open.state.handled.get(name)?.uid ?? ''
    const letter = letterOf(
      name,
      object ?? { name, uid, deleted: true },
      { revision: object?.revision ?? 0, uid },
      attempts,
      error,
      at,
    )
    const { letters } = this.#open.state
    const dead = letters.size + (letters.has(name) ? 0 : 1)
    await this.#open.write([{ type: 'gaveUp', data: { letter } }], { attributes: { dead } })
  }
}
