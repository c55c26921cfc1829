// A controller: makes what is desired true. `reconcile` is called for an object whenever something happened to it or to what it
// owns, when it asks for it, and every now and then to find what drifted; with the object as it is, never with what changed. One
// process at a time does it: the owner of controller/<name>. Its reports are refused once another process has taken that.

import { type RatePolicy, resolveRate } from '../../core/calls/rate.ts'
import { type RetryPolicy, resolveRetry } from '../../core/calls/retry.ts'
import { type Duration, toMs } from '../../core/duration.ts'
import { RepriseError } from '../../core/errors.ts'
import { checkOptions, namesOf } from '../../core/options.ts'
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
  /** First the kind that is reconciled, then those whose changes concern it. */
  readonly watch: readonly [
    ResourceDefinition<Spec, Status> | Watched<Spec, Status>,
    ...(ResourceDefinition | Watched | ResourceDefinition<never, never> | Watched<never, never>)[],
  ]
  readonly reconcile: Reconcile<Spec, Status>
  /** Objects at once; 1 if left out. Never the same one twice. */
  readonly concurrency?: number
  readonly rate?: RatePolicy
  /** Default: again and again, after 1 second at first and 5 minutes at most. */
  readonly retry?: RetryPolicy
  /** Every object is looked at again after this time, to find what has drifted; never if left out. */
  readonly every?: Duration
}

const known = namesOf<ControllerOptions>({
  watch: true,
  reconcile: true,
  concurrency: true,
  rate: true,
  retry: true,
  every: true,
})
const knownWatched = namesOf<Watched>({ of: true, id: true, concerns: true })
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
  const { concurrency = 1, rate, every } = options
  if (!(Number.isSafeInteger(concurrency) && concurrency >= 1)) {
    const what = `controller ${name}: concurrency must be a whole number of at least 1 (got ${String(concurrency)})`
    throw new RepriseError('INVALID_ARGUMENT', what, { concurrency: String(concurrency) })
  }
  const settings: ControllerSettings = {
    concurrency,
    rate: rate ? resolveRate(rate) : null,
    retry: resolveRetry(options.retry, usualRetry),
    everyMs: every === undefined ? null : toMs(every, 'every'),
  }
  const watched = (options.watch as readonly (ResourceDefinition | Watched)[]).map((each) => {
    if ('of' in each) checkOptions(`controller ${name}: watch`, each, knownWatched)
    return 'of' in each ? each : ({ of: each } satisfies Watched)
  })
  if (watched.length === 0) {
    throw new RepriseError('INVALID_ARGUMENT', `controller ${name}: a kind to watch must be given`)
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
        // From here on whatever an earlier owner of this controller reports is refused.
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

  constructor(name: string, engine: Host, handles: readonly ResourceHandle[], leading: Leading) {
    super(name, `controller/${name}`, engine, handles, leading)
    this.#leading = leading
  }

  /** The newest events that were reported, of one object or of all; the newest last. Known where the work is done. */
  events(name?: string): ResourceEvent[] {
    const events = [...(this.#leading.open?.state.events.values() ?? [])]
    return name === undefined ? events : events.filter((each) => each.name === name)
  }
}
