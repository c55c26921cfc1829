// The colder tiers of a store, as recorded in the store itself: an attribute of the timeline `reprise/store`, which
// every process that opens it follows, tools included. A tier that was named once is read permanently; only the rules for
// moving chunks there change.

import { randomUUID } from 'node:crypto'
import { resolve } from 'node:path'
import { timelineId } from '../../core/coordinate.ts'
import { type Duration, toMs } from '../../core/duration.ts'
import { RepriseError } from '../../core/errors.ts'
import { checkCount, checkOptions } from '../../core/options.ts'
import type { Kernel } from './kernel.ts'
import { changeNotes } from './key-notes.ts'
import { checkBlobs, isObjectStore, openChunkFolder } from './open-store.ts'
import { sealedBlobs } from './seal/store.ts'
import type { OpenPlace, TierPlace, TierRequests } from './tiered-blobs.ts'

/** Which checkpoints move to a colder tier: those to which any of these applies. */
export interface TierOptions {
  /** A folder ('./warm', 'file:/mnt/warm') or 's3://bucket/prefix'. */
  readonly at: string
  /** Checkpoints older than this. */
  readonly after?: Duration
  /** All but this many of the newest checkpoints of each timeline. */
  readonly keep?: number
  /** The oldest checkpoints, as long as warmer tiers hold more than this many bytes. */
  readonly over?: number
  /** Also takes the history of timelines whose policy has `history: 'tiered'`. */
  readonly history?: boolean
}

export interface TiersOptions {
  readonly warm?: TierOptions
  readonly cold?: TierOptions
  /** Chunks read from a colder tier are put back into the store, and stay for at least an hour. */
  readonly pullBack?: boolean
}

/** The stored form. */
export interface TierRule {
  readonly name: string
  readonly at: string
  readonly mark: string
  /** Null: nothing is moved there any longer. */
  readonly rule: {
    readonly afterMs?: number
    readonly keep?: number
    readonly over?: number
    readonly history?: boolean
  } | null
}

interface Noted {
  readonly tiers: readonly TierRule[]
  readonly pullsBack: boolean
}

const storeTimeline = timelineId('reprise/store')
const attribute = '$tiers'
const names = ['warm', 'cold'] as const
const known = new Set<string>(['warm', 'cold', 'pullBack'])
const knownTier = new Set<string>(['at', 'after', 'keep', 'over', 'history'])

/** Throws INVALID_ARGUMENT. */
export function checkTiers(options: TiersOptions | false): void {
  if (options === false) return
  checkOptions('open: tiers', options, known)
  for (const name of names) if (options[name]) checkTier(name, options[name])
}

function checkTier(name: string, options: TierOptions): void {
  checkOptions(`open: tiers.${name}`, options, knownTier)
  checkBlobs(options.at)
  if (options.after !== undefined) toMs(options.after, `tiers.${name}.after`)
  for (const field of ['keep', 'over'] as const) {
    if (options[field] === undefined) continue
    checkCount(`tiers.${name}.${field}`, options[field], field === 'keep' ? 1 : 0)
  }
  if (options.history !== undefined && typeof options.history !== 'boolean') {
    const what = `tiers.${name}.history must be true or false (got ${String(options.history)})`
    throw new RepriseError('INVALID_ARGUMENT', what, { option: 'history' })
  }
  if (options.after === undefined && options.keep === undefined && options.over === undefined && !options.history) {
    const what = `tiers.${name} needs after, keep, over or history: the rule for moves to it`
    throw new RepriseError('INVALID_ARGUMENT', what, {})
  }
}

/** Called when a store is opened: records the requested tiers, and opens those of the store. */
export async function meetTiers(
  kernel: Kernel,
  wanted: TiersOptions | false | undefined,
  isReadOnly: boolean,
): Promise<void> {
  const stored = await notedTiers(kernel)
  const noted = wanted === undefined || isReadOnly ? stored : await note(kernel, stored, wanted)
  kernel.tiers.places = noted.tiers.map((rule) => placeOf(kernel, rule))
  kernel.tiers.pullsBack = noted.pullsBack && !isReadOnly
}

export async function notedTiers({ store }: Pick<Kernel, 'store'>): Promise<Noted> {
  const [head] = await store.head([storeTimeline])
  const text = head?.attributes[attribute]
  return typeof text === 'string' ? (JSON.parse(text) as Noted) : { tiers: [], pullsBack: false }
}

async function note(kernel: Kernel, stored: Noted, wanted: TiersOptions | false): Promise<Noted> {
  const given = wanted === false ? {} : wanted
  const tiers: TierRule[] = []
  for (const name of names) {
    const options = given[name]
    if (options) tiers.push(await ruleOf(kernel, name, options, stored))
  }
  // Earlier tiers are still read, after the current ones.
  for (const old of stored.tiers) if (!tiers.some(({ mark }) => mark === old.mark)) tiers.push({ ...old, rule: null })
  const noted: Noted = { tiers, pullsBack: given.pullBack ?? false }
  if (JSON.stringify(noted) === JSON.stringify(stored)) return stored
  await changeNotes(kernel, { [attribute]: JSON.stringify(noted) })
  const what = `tiers: ${tiers.map((tier) => `${tier.name} at ${shown(tier.at)}${tier.rule ? '' : ', read only'}`).join('; ')}`
  kernel.events.emit('report', { kind: 'declared', timeline: null, what, data: { from: stored, to: noted } })
  return noted
}

async function ruleOf(kernel: Kernel, name: string, options: TierOptions, stored: Noted): Promise<TierRule> {
  const at = isObjectStore(options.at) ? options.at : resolve(options.at.replace(/^file:(\/\/(?=\/))?/, ''))
  const { afterMs, keep, over, history } = {
    afterMs: options.after === undefined ? undefined : toMs(options.after, `tiers.${name}.after`),
    ...options,
  }
  const rule = {
    ...(afterMs !== undefined && { afterMs }),
    ...(keep !== undefined && { keep }),
    ...(over !== undefined && { over }),
    ...(history && { history }),
  }
  // A known tier is opened when a chunk there is requested: it may be unreachable while no chunk of it is needed.
  const known = stored.tiers.find((tier) => tier.at === at)
  if (known) return { name, at, mark: known.mark, rule }
  const folder = await openChunkFolder(at, kernel.namespace)
  const there = await folder.mark()
  if (there !== null && stored.tiers.some(({ mark }) => mark === there)) return { name, at, mark: there, rule }
  // The place holds chunks of another store, whose collector would not know which chunks this one needs.
  if (there !== null || (await folder.blobs.list(null, 1)).length > 0) {
    const what = `${shown(at)} holds chunks of another store: name an empty place for tiers.${name}`
    throw new RepriseError('INVALID_ARGUMENT', what, { tier: name })
  }
  await folder.make()
  const mark = await folder.setMark(randomUUID())
  await folder.setOwner(await ownerOf(kernel, mark))
  return { name, at, mark, rule }
}

function placeOf(kernel: Kernel, rule: TierRule): TierPlace {
  let opening: Promise<OpenPlace> | null = null
  let meter: TierRequests | null = null
  return {
    name: rule.name,
    at: rule.at,
    async open() {
      opening ??= openPlace(kernel, rule)
      try {
        const place = await opening
        meter = place.meter ?? null
        return place
      } catch (error) {
        // The next call tries again.
        opening = null
        throw error
      }
    },
    requests: () => meter,
  }
}

/** An unreachable tier, or one with other chunks, must not make this store's chunks look lost. */
async function openPlace(kernel: Kernel, { name, at, mark }: TierRule): Promise<OpenPlace> {
  const folder = await openChunkFolder(at, kernel.namespace)
  if ((await folder.mark()) !== mark) {
    const what = `${shown(folder.path)} held the ${name} chunks of this store: it is unavailable, or contains other chunks now`
    throw new RepriseError('CHUNKS_ELSEWHERE', what, { expected: shown(folder.path) })
  }
  const isOwn = (await folder.owner()) === (await ownerOf(kernel, mark))
  return { blobs: sealedBlobs(folder.blobs, kernel.sealer), isOwn, meter: folder.meter }
}

/** A copy of the database has another location: it reads the tier, and moves and sweeps nothing there. */
async function ownerOf({ store }: Kernel, mark: string): Promise<string> {
  return `${mark} ${(await store.upkeep.facts()).location}`
}

/** Without its query. */
export function shown(at: string): string {
  return at.replace(/\?.*/, '')
}
