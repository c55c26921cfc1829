// The events for projections and process managers: the feed of one or more kinds of aggregates, decoded and upgraded to
// the current versions, in one order that never skips an event that commits late.

import { timelineId } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import { currentType, isPathError, type Upcasters, upcast } from '../../core/history/fold.ts'
import { isWithin } from '../../core/history/scope.ts'
import { checkText } from '../../core/options.ts'
import type { FeedPosition } from '../../core/store/ports.ts'
import { textHash } from '../../core/text-hash.ts'
import { fingerprintOf } from '../../engine/feed/entry-fingerprint.ts'
import { FeedReader } from '../../engine/feed/reader.ts'
import type { Reading } from '../../engine/feed/subscription.ts'
import { type Entry, entryAt } from '../../engine/history/history.ts'
import { systemPrefix } from '../../engine/model/definition.ts'
import { rolledBackType } from '../../engine/model/rollback-report.ts'
import type { Kernel } from '../../engine/storage/kernel.ts'
import { layerPrefix, metaOf, refusedType } from './envelope.ts'
import type { AggregateModel, EventInfo, EventOf } from './types.ts'

/** The parts of an aggregate's definition that a projection uses. */
export interface EventSource {
  readonly prefix: string
  readonly name: string
  /** @internal */
  readonly model: Pick<AggregateModel<never>, 'upcasters'>
  readonly evolve: unknown
}

export type EventFrom<Source> = Source extends { readonly evolve: infer Evolve } ? EventOf<Evolve> : never

/** One function per event type; other types are skipped. */
export type Handlers<State, Sources extends readonly EventSource[], Result, At = EventAt> = {
  readonly [Type in EventFrom<Sources[number]>['type']]?: (
    state: State,
    event: Extract<EventFrom<Sources[number]>, { readonly type: Type }>,
    at: At,
  ) => Result
}

export interface EventAt extends EventInfo {
  /** The name of the aggregate's definition. */
  readonly aggregate: string
}

export interface Occurrence {
  readonly type: string
  readonly event: { readonly type: string }
  readonly at: EventAt
  /** @internal Distinguishes the event from every other at its sequence; only where the reader needs it. */
  readonly fingerprint?: string
}

/** A rollback undid entries of this timeline; the branch that it made begins at `position`. */
export type OnRolledBack = (entry: Entry, position: FeedPosition) => Promise<void>

export interface EventsOptions {
  /** Default: all events of the wanted types. */
  readonly wants?: (occurrence: Occurrence) => boolean
  /** Default: false. */
  readonly forks?: boolean | undefined
  readonly onRolledBack?: OnRolledBack
  /** Computes the fingerprint of each event. Default: false. */
  readonly fingerprints?: boolean
}

export class Events implements Reading<Occurrence> {
  readonly #kernel: Kernel
  readonly #reader: FeedReader
  readonly #sources: readonly EventSource[]
  readonly #wantsType: (type: string) => boolean
  readonly #wants: (occurrence: Occurrence) => boolean
  readonly #onRolledBack: OnRolledBack | undefined
  readonly #fingerprints: boolean

  constructor(
    kernel: Kernel,
    sources: readonly EventSource[],
    wantsType: (type: string) => boolean,
    { wants = () => true, forks = false, onRolledBack, fingerprints = false }: EventsOptions = {},
  ) {
    this.#kernel = kernel
    this.#wantsType = wantsType
    this.#reader = new FeedReader(
      kernel,
      sources.map(({ prefix }) => prefix),
      { forks },
    )
    this.#sources = sources
    this.#wants = wants
    this.#onRolledBack = onRolledBack
    this.#fingerprints = fingerprints
  }

  async page(after: FeedPosition, limit?: number) {
    const { runs, next, isEnd } = await this.#reader.page(after, limit)
    // Runs before any event of the page is applied, so that the note survives if the reader dies here.
    for (const { entries, position } of this.#onRolledBack ? runs : []) {
      const undone = entries.find(({ type }) => type === rolledBackType)
      if (undone) await this.#onRolledBack?.(undone, position)
    }
    const parts = runs.map(({ entries, position }) => ({ items: this.#read(entries), next: position }))
    return { items: parts.flatMap(({ items }) => items), next, isEnd, parts }
  }

  async at(timeline: string, seq: number): Promise<Occurrence | null> {
    const entry = await entryAt(this.#kernel, timelineId(timeline), seq)
    return (entry && this.#read([entry])[0]) ?? null
  }

  #read(entries: readonly Entry[]): readonly Occurrence[] {
    const items: Occurrence[] = []
    // Consecutive events often belong to the same aggregate, so its id is parsed once.
    let timeline = ''
    let source: EventSource | undefined
    let id = ''
    for (const entry of entries) {
      if (entry.timeline !== timeline) {
        timeline = entry.timeline
        source = this.#sources.find(({ prefix }) => isWithin(prefix, timeline))
        id = source ? timeline.slice(source.prefix.length) : ''
      }
      if (!source || entry.type.startsWith(systemPrefix)) continue
      const isOurs = entry.type.startsWith(layerPrefix)
      if (isOurs && entry.type !== refusedType) continue
      const current = isOurs ? entry : currentOf(entry, source.model.upcasters)
      const { type, version, data, seq, epoch, time, key } = current
      if (!this.#wantsType(type)) continue
      const at: EventAt = { timeline, id, seq, epoch, time, version, key, meta: metaOf(entry), aggregate: source.name }
      // First: the event may take the decoded data of the entry.
      const fingerprint = this.#fingerprints ? fingerprintOf(this.#kernel, entry) : undefined
      const occurrence = occurrenceOf({ type, data }, at, current === entry, fingerprint)
      if (this.#wants(occurrence)) items.push(occurrence)
    }
    return items
  }

  /** Rejects with POSITION_GONE if the store no longer has the entry that was read last. */
  confirm(): Promise<void> {
    return this.#reader.confirm()
  }

  reset(): void {
    this.#reader.reset()
  }
}

/** The data of an entry whose upcaster threw. */
class Unread {
  readonly error: unknown

  constructor(error: unknown) {
    this.error = error
  }
}

/** Upgrades an entry to the current version. An upcaster that throws affects its own event only. */
function currentOf(entry: Entry, upcasters: Upcasters): Entry {
  try {
    return upcast(entry, upcasters)
  } catch (error) {
    if (isPathError(error)) throw error
    return { ...entry, type: currentType(entry, upcasters), data: new Unread(error) }
  }
}

/** Fields that were decoded for this call only may take the type; an upcaster's fields belong to the author. */
function occurrenceOf(
  { type, data }: Pick<Entry, 'type' | 'data'>,
  at: EventAt,
  isOwn: boolean,
  fingerprint: string | undefined,
): Occurrence {
  const fields = Array.isArray(data) ? (data[0] as unknown) : null
  if (typeof fields === 'object' && fields !== null) {
    const event = isOwn ? Object.assign(fields, { type }) : { ...fields, type }
    return { type, event, at, ...(fingerprint !== undefined && { fingerprint }) }
  }
  // An entry with another shape is poison for its handler; the other events are read.
  return {
    type,
    at,
    get event(): never {
      if (data instanceof Unread) throw data.error
      throw new RepriseError('MALFORMED', `the entry at ${at.timeline}@${at.seq} (${type}) is not an event`, { ...at })
    },
  }
}

/** Allowed values, for projections and process managers. */
export const poisonValues = { poison: ['stop', 'quarantine'] }

/** For users without a compiler: missing options are reported at once, before a loop that cannot begin. */
export function checkReading(name: string, options: { readonly from: unknown; readonly on: unknown }): void {
  const { from, on } = options ?? {}
  const isSource = (each: unknown) => typeof (each as EventSource | null | undefined)?.prefix === 'string'
  if (!Array.isArray(from) || from.length === 0 || !from.every(isSource)) {
    throw new RepriseError('INVALID_ARGUMENT', `${name}: from must be a list of aggregates, such as [account]`, {
      name,
    })
  }
  const isHandlers =
    typeof on === 'object' && on !== null && Object.values(on).every((each) => typeof each === 'function')
  if (!isHandlers) {
    throw new RepriseError('INVALID_ARGUMENT', `${name}: on must hold one function per event type`, { name })
  }
}

/** The same aggregate is always in the same partition. */
export function partitionOf(timeline: string, partitions: number): number {
  checkText('the timeline of partitionOf()', timeline)
  return textHash(timeline) % partitions
}
