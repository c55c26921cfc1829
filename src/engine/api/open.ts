// Opens an engine by the URL of its store.

import { Codec } from '../../core/codec/codec.ts'
import { toMs } from '../../core/duration.ts'
import { RepriseError } from '../../core/errors.ts'
import { defaultLimits, type Limits } from '../../core/limits.ts'
import { checkObject } from '../../core/options.ts'
import type { Clock, Hash, Random, Store } from '../../core/store/ports.ts'
import { Events } from '../base/events.ts'
import { installGuard } from '../base/guard/install.ts'
import {
  identifyProcess,
  type ProcessIdentity,
  permissionError,
  sha256,
  systemClock,
  systemRandom,
} from '../base/platform.ts'
import { Worker } from '../base/worker.ts'
import { DurableMarks, watchDurable } from '../feed/durable-marks.ts'
import { notingForgotten } from '../feed/forgotten-timelines.ts'
import { Mirror } from '../feed/mirror/mirror.ts'
import { meetMirror } from '../feed/mirror/policy.ts'
import { Host, hostOf } from '../host/host.ts'
import { ModelRegistry } from '../model/model-registry.ts'
import { DeadWorkers } from '../ownership/dead-workers.ts'
import { watchLostHeads, watchQuarantine } from '../ownership/lost-head.ts'
import { refusingComing } from '../storage/arriving-timeline.ts'
import { Committer } from '../storage/committer.ts'
import { FailureNotes } from '../storage/failure-notes.ts'
import { currentStatuses } from '../storage/former-statuses.ts'
import { type Kernel, submit } from '../storage/kernel.ts'
import { meetKeys } from '../storage/key-notes.ts'
import { watchLosses } from '../storage/losses.ts'
import { openPlaced, shardsUrl } from '../storage/open-store.ts'
import { isRedundant, type RedundancyListener, withRedundancy } from '../storage/redundancy/store.ts'
import { meetRedundancy } from '../storage/redundancy-choice.ts'
import { Sealer } from '../storage/seal/seal.ts'
import { sealedStore } from '../storage/seal/store.ts'
import { checkpointsOnly, Segments } from '../storage/segment-catalog.ts'
import { refuseUnfinished } from '../storage/store-change.ts'
import { Identity } from '../storage/store-identity.ts'
import { meetTiers } from '../storage/tier-policy.ts'
import { TieredBlobs, type TierRequests } from '../storage/tiered-blobs.ts'
import { ReportLog } from '../tools/drill/report-log.ts'
import { keepHouse } from '../tools/housekeeping/housekeeping.ts'
import { sealsWith, signOf } from '../tools/rekey.ts'
import { scheduleKind } from '../tools/timeline-groups/cut-schedule.ts'
import { cutKind, restoreKind } from '../tools/timeline-groups/records.ts'
import {
  checkEngineOptions,
  checkOpenOptions,
  defaultPatience,
  type EngineOptions,
  type Options,
} from './open-options.ts'
import { Reprise } from './reprise.ts'

export { openStore, renewStore } from '../storage/open-store.ts'
export type { EngineOptions, Options } from './open-options.ts'

/** Ports and test hooks for simulations. Default: the real ones. */
export interface Ports {
  readonly store: Store
  /** The namespace of the store. A repair searches for copies under the same name. Default: 'default'. */
  readonly namespace?: string
  /** Requests made to the object store of its chunks, if there is one. */
  readonly requests?: TierRequests
  readonly clock?: Clock
  readonly random?: Random
  readonly hash?: Hash
  readonly identity?: ProcessIdentity
  readonly isGone?: (other: ProcessIdentity, own: ProcessIdentity) => boolean
  /** @internal Bugs of the mutation gate. */
  readonly planted?: ReadonlySet<string>
}

/**
 * @example
 * const rp = await open('sqlite:./app.db')
 * const many = await open({ shards: ['postgres://a/app', 'postgres://b/app'] })
 */
export async function open(url?: string | Options, given: Options = {}): Promise<Reprise> {
  if (url !== undefined && typeof url !== 'string' && (typeof url !== 'object' || url === null)) {
    throw new RepriseError('INVALID_ARGUMENT', `open takes the address of a store as text (got ${String(url)})`, {})
  }
  const options = typeof url === 'object' ? url : given
  checkOpenOptions(options)
  try {
    return await openChecked(typeof url === 'object' ? undefined : url, options)
  } catch (error) {
    throw permissionError(error) ?? error
  }
}

async function openChecked(url: string | undefined, options: Options): Promise<Reprise> {
  const location = locationOf(url, options.shards)
  const { store, isAlone, requests } = await openPlaced(location, options)
  const engine = await orClosed(store, () =>
    createEngine({ store, namespace: options.namespace ?? 'default', ...(requests && { requests }) }, options),
  )
  let mirror: string | null = null
  let leaveLosses = () => {}
  try {
    const { kernel } = hostOf(engine)
    kernel.failures.warn = (words) => process.emitWarning(words, 'RepriseWarning')
    kernel.worker.describe(sealsWith, signOf(kernel.hash, kernel.sealer.keyId))
    await meetKeys(kernel, options.readOnly ?? false)
    if (!options.evenUnfinished) await refuseUnfinished(kernel)
    await kernel.identity.load(options.readOnly ?? false)
    await meetRedundancy(kernel, options.redundancy, options.readOnly ?? false)
    await meetTiers(kernel, options.tiers, options.readOnly ?? false)
    mirror = await meetMirror(kernel, options.mirror, options.readOnly ?? false)
    if (!options.readOnly) await watchLostHeads(kernel)
    leaveLosses = await watchLosses(kernel)
  } catch (error) {
    await engine.close()
    throw error
  }
  const stopWatching = watchQuarantine(hostOf(engine).kernel)
  hostOf(engine).onClosed(async () => {
    stopWatching()
    leaveLosses()
  })
  if (options.log !== false && !options.readOnly) keepLog(engine)
  if (mirror !== null && !options.readOnly && (options.mirror || options.housekeeping !== false)) {
    keepMirror(engine, mirror)
  }
  if (options.housekeeping !== false && !options.readOnly) {
    keepHouse(hostOf(engine), { collect: isAlone, ...options.housekeeping })
  }
  return engine
}

/** A failed open leaves nothing open. */
async function orClosed<T>(store: Store, make: () => T): Promise<T> {
  try {
    return make()
  } catch (error) {
    await store.close()
    throw error
  }
}

function locationOf(url: string | undefined, shards: Options['shards']): string {
  if (shards === undefined) return url ?? process.env.REPRISE_URL ?? 'sqlite:.reprise/reprise.db'
  if (url === undefined) return shardsUrl(shards)
  throw new RepriseError('INVALID_ARGUMENT', 'open takes an address or shards, not both', {})
}

/** For tools that open a store directly: keeps later events in the store's log. */
export function keepLog(engine: Reprise): void {
  const log = new ReportLog(hostOf(engine).kernel)
  hostOf(engine).onClosed(() => log.close())
}

function keepMirror(engine: Reprise, path: string): void {
  const mirror = new Mirror(hostOf(engine).kernel, path)
  mirror.start()
  hostOf(engine).onClosed(() => mirror.close())
}

/** An engine over a store that is already open: for simulations and for third-party stores. */
export function createEngine(ports: Ports, options: EngineOptions = {}): Reprise {
  checkEngineOptions(options)
  checkObject('the ports of createEngine()', ports)
  checkObject('the store of createEngine()', ports.store)
  const { clock = systemClock, random = systemRandom, hash = sha256 } = ports
  const limits: Limits = { ...defaultLimits, ...options.limits }
  const sealer = new Sealer({ limits, ...(options.keys && { keys: options.keys }) })
  const events = new Events()
  const { store, inner, redundancy, tiers } = layersOf(ports, options, { sealer, events, hash, clock })
  const identity = ports.identity ?? identifyProcess()
  const folds = foldGuard(options.guardFolds ?? process.env.NODE_ENV !== 'production')
  const planted = ports.planted ?? new Set<string>()
  const namespace = ports.namespace ?? 'default'
  const marks = new DurableMarks({ store, hash, planted })
  const committer = new Committer({
    ...{ store, clock, random, events, limits },
    onDurable: (commit) => marks.committed(commit),
    patienceMs: toMs(options.patience ?? defaultPatience, 'patience'),
  })
  const worker = new Worker({
    ...{ store, clock, random, events, identity },
    name: options.worker ?? identity.host.split('#')[0] ?? 'worker',
    leaseMs: toMs(options.lease ?? '15s', 'lease'),
    ...(ports.isGone && { isGone: ports.isGone }),
  })
  const failures = new FailureNotes({
    ...{ store, clock, worker, sealer, events },
    commit: (guard, attributes) => submit({ committer, random }, { guard, attributes, aside: true }),
  })
  const kernel: Kernel = {
    store,
    namespace,
    identity: new Identity({ store, namespace, hash, random, planted, now: () => clock.now() }),
    clock,
    random,
    hash,
    codec: new Codec({ limits, ...(options.classes && { classes: options.classes }) }),
    sealer,
    limits,
    events,
    committer,
    worker,
    deadWorkers: new DeadWorkers({ store, clock, events, worker }),
    failures,
    models: withStore(new ModelRegistry(planted)),
    redundancy,
    tiers,
    segments: new Segments(inner),
    planted,
    guardsFolds: folds.isOn,
    freeze: () => freeze(kernel, ports, options),
    restoring: new Set(),
    graceMs: toMs(options.grace ?? '1h', 'grace'),
  }
  watchDurable(kernel.identity, marks, worker, events)
  return new Reprise(
    new Host(kernel, async () => {
      folds.uninstall()
      await store.close()
    }),
  )
}

/** The store as the engine uses it: the given one with encryption, redundancy and tiers around it. */
function layersOf(
  ports: Ports,
  options: EngineOptions,
  { sealer, events, hash, clock }: Pick<Kernel, 'sealer' | 'events' | 'hash' | 'clock'>,
) {
  const sealed = sealedStore(ports.store, sealer)
  const redundancy = isRedundant(ports.store)
    ? null
    : withRedundancy(notingForgotten(sealed, hash), hash, reportOf(events), ports.planted)
  if (redundancy) redundancy.isOn = options.redundancy ?? true
  if (redundancy && ports.store.blobs.isDurable && options.redundancy === undefined) redundancy.blobs.isOn = false
  const inner: Store = redundancy ?? sealed
  const tiers = new TieredBlobs(inner.blobs, ports.requests ?? null)
  // Forwards everything, redundancy included, except that chunks are read from several tiers, and segments of history
  // are not checkpoints.
  const store: Store = Object.create(inner, {
    blobs: { value: tiers, enumerable: true },
    commit: { value: refusingComing(inner, clock), enumerable: true, writable: true, configurable: true },
    ...checkpointsOnly(inner),
    ...currentStatuses(inner),
  })
  return { store, inner, redundancy, tiers }
}

async function freeze(kernel: Kernel, ports: Ports, options: EngineOptions): Promise<Kernel | null> {
  const frozen = await ports.store.freeze()
  if (!frozen) return null
  const { store, inner, redundancy, tiers } = layersOf({ ...ports, store: frozen }, options, kernel)
  tiers.places = kernel.tiers.places
  return { ...kernel, store, redundancy, tiers, segments: new Segments(inner) }
}

function foldGuard(isWanted: boolean): { isOn(): boolean; uninstall(): void } {
  let held: (() => void) | null = null
  return {
    isOn() {
      if (isWanted) held ??= installGuard()
      return isWanted
    },
    uninstall: () => held?.(),
  }
}

function reportOf(events: Events): RedundancyListener {
  const report = (timeline: string | null, what: string, from: string, isPutBack: boolean) => {
    events.emit('healed', { what, from, isPutBack })
    const words = `${what} was damaged or missing, and was read from its ${from}${isPutBack ? ' and put back' : ''}`
    events.emit('report', { kind: 'repair', timeline, what: words, data: { what, from, isPutBack } })
  }
  return {
    chunk: ({ digest, from, isPutBack }) => report(null, `chunk ${digest}`, from, isPutBack),
    line: ({ timeline, id, from }) => report(timeline, `checkpoint ${id} of ${timeline}`, from, from !== 'copy'),
  }
}

/** The store keeps its own notes in timelines, whose whole history is retained. */
function withStore(models: ModelRegistry): ModelRegistry {
  for (const kind of [cutKind, scheduleKind, restoreKind]) models.declare(kind)
  models.declare({ kind: 'store', name: null, scope: 'reprise/', fold: null, policy: 'fixed' })
  return models
}
