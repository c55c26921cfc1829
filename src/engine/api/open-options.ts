// The options of open(), checked before anything is opened or created: a refused open leaves no file, no folder and no
// schema behind.

import type { ClassCodec } from '../../core/codec/class-codec.ts'
import { Codec } from '../../core/codec/codec.ts'
import { type Duration, toMs } from '../../core/duration.ts'
import { RepriseError } from '../../core/errors.ts'
import { defaultLimits, type Limits } from '../../core/limits.ts'
import {
  aBoolean,
  aName,
  anObject,
  aText,
  checkOptions,
  checkValues,
  forEach,
  namesOf,
  texts,
} from '../../core/options.ts'
import { mirrorPath } from '../feed/mirror/policy.ts'
import { checkBlobs, checkNamespace } from '../storage/open-store.ts'
import { type KeyRing, Sealer } from '../storage/seal/seal.ts'
import { checkTiers, type TiersOptions } from '../storage/tier-policy.ts'
import { checkHousekeeping, type HousekeepingOptions } from '../tools/housekeeping/housekeeping.ts'

/** The default of `patience`, and of `--away-for` on the command line. */
export const defaultPatience: Duration = '30s'

export interface EngineOptions {
  /** Name of this worker, for people. Default: the host's name. */
  readonly worker?: string
  /** How long other processes wait for a heartbeat before they take over. Default: 15 seconds. */
  readonly lease?: Duration
  /** Encryption keys: new records are sealed with `current`, old records open with the key that sealed them. */
  readonly keys?: KeyRing
  /** Codecs for classes, by name. */
  readonly classes?: readonly ClassCodec[]
  readonly limits?: Partial<Limits>
  /**
   * How long the ids of read messages are kept, and, while a process of an earlier version works on the store, how long
   * a chunk that no checkpoint names is kept. Default: one hour.
   */
  readonly grace?: Duration
  /**
   * Refuse the clock, randomness and the outside to folds, `evolve` and projection handlers, with the offending line.
   * Drills always do so. Default: true unless NODE_ENV is production.
   */
  readonly guardFolds?: boolean
  /** How long commits, jobs and pipelines retry while a store does not answer. Default: 30 seconds. */
  readonly patience?: Duration
  /**
   * Parity for chunks and second copies of catalog entries; unnecessary on a disk with its own redundancy. Stored with
   * the store, and followed by every process that does not set this option. Default: true.
   */
  readonly redundancy?: boolean
}

export interface Options extends EngineOptions {
  readonly namespace?: string
  /** The addresses of the stores that make up this one, instead of one address: see docs/guides/shards.md. */
  readonly shards?: readonly string[]
  /** Where chunks are stored: a directory ('./chunks', 'file:./chunks') or 's3://bucket/prefix'. Default: in the store. */
  readonly blobs?: string
  /**
   * A second copy of history, in a folder on another disk: 'file:/mnt/other/app.mirror'. `verify --repair` repairs from
   * it.
   * Stored with the store, and followed by every process that does not set this option; false ends it. See
   * docs/guides/repair.md.
   */
  readonly mirror?: string | false
  /**
   * Colder tiers for the chunks of older checkpoints, by age, count or size: see docs/guides/tiers.md. Stored with the
   * store, and followed by every process that does not set this option; false ends the moving, not the reading.
   */
  readonly tiers?: TiersOptions | false
  readonly readOnly?: boolean
  /**
   * Opens a store whose restore has not finished, to resume or abandon it (`rp.changes()`). Default: false; such a
   * store is refused with CHANGE_UNFINISHED, because it has only some of its timelines.
   */
  readonly evenUnfinished?: boolean
  /**
   * Automatic housekeeping while this program runs, by one process at a time: see docs/guides/housekeeping.md. False:
   * none. The sweep of chunks in a directory that another store uses, or has used, needs `collect`. Default: on.
   */
  readonly housekeeping?: HousekeepingOptions | false
  /** False: recoveries, drills, failed checkpoints and similar events are not kept in the store's log (`rp.log()`). */
  readonly log?: false
}

const known = namesOf<Options>()(
  'worker lease keys classes limits grace guardFolds patience redundancy namespace shards blobs mirror tiers readOnly evenUnfinished housekeeping log',
)
const isFalse: readonly [string, (value: unknown) => boolean] = ['false', (value) => value === false]
const values = {
  ...forEach('guardFolds redundancy readOnly evenUnfinished', aBoolean),
  ...forEach('worker namespace blobs', aName),
  ...forEach('keys limits', anObject),
  ...forEach('tiers housekeeping', anObject, isFalse),
  classes: [['a list of codecs', Array.isArray]],
  shards: [texts],
  mirror: [aText, isFalse],
  log: [isFalse],
} satisfies Parameters<typeof checkValues>[2]
const knownLimits = new Set(Object.keys(defaultLimits))
const knownKeys = new Set(['current', 'keys', 'hides', 'hashing'])
const knownHashing = new Set(['key', 'attributes'])

/** A checkpoint must be written within it. Only simulations, with virtual time, use less. */
const leastGraceMs = 1000

/** For a store that is about to be opened. */
export function checkOpenOptions(options: Options): void {
  checkEngineOptions(options)
  checkNamespace(options.namespace ?? 'default')
  if (options.blobs !== undefined) checkBlobs(options.blobs)
  if (options.mirror !== undefined && options.mirror !== false) mirrorPath(options.mirror)
  if (options.tiers !== undefined) checkTiers(options.tiers)
  if (options.grace !== undefined && toMs(options.grace, 'grace') < leastGraceMs) {
    const what = `grace must be at least ${leastGraceMs} ms: a checkpoint that takes half of it is abandoned (default: 1h)`
    throw new RepriseError('INVALID_ARGUMENT', what, { grace: options.grace })
  }
  if (options.housekeeping) checkHousekeeping(options.housekeeping)
}

/** The options of an engine over a store that is already open. */
export function checkEngineOptions(options: EngineOptions): void {
  checkOptions('open', options, known)
  checkValues('open', options, values)
  checkOptions('open: limits', options.limits, knownLimits)
  checkOptions('open: keys', options.keys, knownKeys)
  checkOptions('open: keys.hashing', options.keys?.hashing, knownHashing)
  for (const name of ['lease', 'patience', 'grace'] as const) checkDuration(name, options[name])
  for (const [name, value] of Object.entries(options.limits ?? {})) checkLimit(name, value)
  // Their constructors throw for invalid keys and codecs.
  const limits: Limits = { ...defaultLimits, ...options.limits }
  new Sealer({ limits, ...(options.keys && { keys: options.keys }) })
  new Codec({ limits, ...(options.classes && { classes: options.classes }) })
}

function checkDuration(name: string, given: Duration | undefined): void {
  if (given !== undefined) toMs(given, name)
}

function checkLimit(name: string, value: unknown): void {
  if (value === undefined || (typeof value === 'number' && value > 0)) return
  const what = `limits.${name} must be a number above 0 (got ${String(value)})`
  throw new RepriseError('INVALID_ARGUMENT', what, { limit: name })
}
