// A controller drives objects from their actual to their desired state. `reconcile` is called for an object after each change
// to it or to an object it owns, after a requeue, and at every resync (`every`). It always receives the current object, never
// the change. One process at a time does the work: the owner of controller/<name>. Reports of an earlier owner are refused.

import { type Duration, toMs } from '../../core/duration.ts'
import { RepriseError } from '../../core/errors.ts'
import { checkCount, checkOptions, namesOf } from '../../core/options.ts'
import { type RatePolicy, resolveRate } from '../../core/retry/rate.ts'
import { type RetryPolicy, resolveRetry } from '../../core/retry/retry.ts'
import { checkFunctions } from '../../core/synchronous.ts'
import type { Host } from '../../engine/host/host.ts'
import { checkName, type Entity, type OpenOptions, opens } from '../../engine/model/definition.ts'
import { type Described, describes } from '../../engine/model/model.ts'
import type { OpenTimeline } from '../../engine/writing/timeline.ts'
import { FollowerHandle } from './follower-handle.ts'
import { controllerKind, followerModel } from './follower-model.ts'
import type { FollowerState, ResourceEvent } from './follower-state.ts'
import type { ResourceHandle } from './handle.ts'
import { Leading } from './leading.ts'
import type { ControllerSettings, Reconcile, Watched } from './reconcile-context.ts'
import { Reconciling } from './reconciling.ts'
import type { ResourceDefinition } from './resource.ts'

export interface ControllerOptions<Spec = unknown, Status = unknown> {
  /** The reconciled kind first, then the kinds whose changes concern it. */
  readonly watch: readonly [
    ResourceDefinition<Spec, Status> | Watched<Spec, Status>,
    ...(ResourceDefinition | Watched | ResourceDefinition<never, never> | Watched<never, never>)[],
  ]
  readonly reconcile: Reconcile<Spec, Status>
  /** Maximum number of objects reconciled concurrently; a single object is never reconciled twice at once. Default: 1. */
  readonly concurrency?: number
  readonly rate?: RatePolicy
  /** Default: unlimited retries, with pauses growing from 1 second to 5 minutes. */
  readonly retry?: RetryPolicy
  /** Resync interval: every object is reconciled again after this time to detect drift. Default: never. */
  readonly every?: Duration
}

const known = namesOf<ControllerOptions>()('watch reconcile concurrency rate retry every')
const knownWatched = namesOf<Watched>()('of id concerns')
const usualRetry: RetryPolicy = { attempts: Number.POSITIVE_INFINITY, backoffMax: '5m' }

export interface ControllerDefinition extends Entity<ControllerHandle, undefined>, Described {
  readonly kind: 'controller'
  readonly name: string
}

/** @example const scaler = await rp.open(controller('scaler', { watch: [sites, pods], reconcile: async (context) => { … } })) */
export function controller<Spec = unknown, Status = unknown>(
  name: string,
  options: ControllerOptions<Spec, Status>,
): ControllerDefinition {
  checkName('controller', name)
  checkOptions(`controller ${name}`, options, known)
  checkFunctions(`controller ${name}`, options, ['reconcile'])
  const { concurrency = 1, rate, every } = options
  checkCount(`controller ${name}: concurrency`, concurrency)
  const settings: ControllerSettings = {
    concurrency,
    rate: rate ? resolveRate(rate) : null,
    retry: resolveRetry(options.retry, usualRetry),
    everyMs: every === undefined ? null : toMs(every, 'every'),
  }
  const watched = ((options.watch ?? []) as readonly (ResourceDefinition | Watched)[]).map((each) => {
    if ('of' in each) checkOptions(`controller ${name}: watch`, each, knownWatched)
    return 'of' in each ? each : ({ of: each } satisfies Watched)
  })
  if (watched.length === 0) {
    throw new RepriseError('INVALID_ARGUMENT', `controller ${name}: a kind to watch is required`)
  }
  const model = followerModel(controllerKind, name)
  return {
    [describes]: model,
    kind: 'controller',
    name,
    async [opens](engine: Host, _id: undefined, open: OpenOptions) {
      engine.declare(model)
      const handles = await Promise.all(watched.map(({ of, id }) => of[opens](engine, id, {})))
      const begin = async (held: OpenTimeline<FollowerState>, lost: (error: unknown) => void) => {
        // From here on, reports of an earlier owner of this controller are refused.
        const owned = { by: held.id as string, epoch: held.epoch }
        const raised = []
        for (const handle of handles) raised.push(await handle.shared.raiseFence(owned))
        const fence = raised[0]!
        const reconcile = options.reconcile as Reconcile
        return new Reconciling(engine, { handles, watched, reconcile, settings, open: held, fence, lost })
      }
      return new ControllerHandle(name, engine, handles, new Leading(engine, `controller/${name}`, begin, open))
    },
  }
}

export class ControllerHandle extends FollowerHandle {
  readonly #leading: Leading

  /** @internal */
  constructor(name: string, engine: Host, handles: readonly ResourceHandle[], leading: Leading) {
    super(name, `controller/${name}`, engine, handles, leading)
    this.#leading = leading
  }

  /** The newest reported events of one object or of all objects, oldest first. Only the process that does the work has them. */
  events(name?: string): ResourceEvent[] {
    const events = [...(this.#leading.open?.state.events.values() ?? [])]
    return name === undefined ? events : events.filter((each) => each.name === name)
  }
}
