// Where projections and process managers get their events: the feed of one or more kinds of aggregates, decoded and
// brought up to today's versions, in one order that never skips an event that commits late.

import { timelineId } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import { currentType, isPathError, type Upcasters, upcast } from '../../core/history/fold.ts'
import { isWithin } from '../../core/history/scope.ts'
import type { FeedPosition } from '../../core/store/ports.ts'
import { FeedReader } from '../../engine/feed/reader.ts'
import type { Reading } from '../../engine/feed/subscription.ts'
import { type Entry, entryAt } from '../../engine/history/history.ts'
import { systemPrefix } from '../../engine/model/definition.ts'
import { rolledBackType } from '../../engine/model/rollback-report.ts'
import type { Kernel } from '../../engine/storage/kernel.ts'
import { layerPrefix, metaOf, refusedType } from './envelope.ts'
import type { EventInfo, EventOf, Model } from './types.ts'

/** What a projection needs of an aggregate's definition. */
export interface EventSource {
  readonly prefix: string
  readonly name: string
  /** @internal */
  readonly model: Pick<Model<never>, 'upcasters'>
  readonly evolve: unknown
}

export type EventFrom<Source> = Source extends { readonly evolve: infer Evolve } ? EventOf<Evolve> : never

/** One function an event type; types that are not named are passed over. */
export type Handlers<State, Sources extends readonly EventSource[], Result, At = EventAt> = {
  readonly [Type in EventFrom<Sources[number]>['type']]?: (
    state: State,
    event: Extract<EventFrom<Sources[number]>, { readonly type: Type }>,
    at: At,
  ) => Result
}

export interface EventAt extends EventInfo {
  /** Name of the aggregate's definition. */
  readonly aggregate: string
}

export interface Occurrence {
  readonly type: string
  readonly event: { readonly type: string }
  readonly at: EventAt
}

/** A rollback undid entries of this timeline; the branch that it made begins at `position`. */
export type OnRolledBack = (entry: Entry, position: FeedPosition) => Promise<void>

export class Events implements Reading<Occurrence> {
  readonly #kernel: Kernel
  readonly #reader: FeedReader
  readonly #sources: readonly EventSource[]
  readonly #wantsType: (type: string) => boolean
  readonly #wants: (occurrence: Occurrence) => boolean
  readonly #onRolledBack: OnRolledBack | undefined

  constructor(
    kernel: Kernel,
    sources: readonly EventSource[],
    wantsType: (type: string) => boolean,
    wants: (occurrence: Occurrence) => boolean = () => true,
    forks = false,
    onRolledBack?: OnRolledBack,
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
  }

  async page(after: FeedPosition, limit?: number) {
    const { runs, next, isEnd } = await this.#reader.page(after, limit)
    // Before anything of the page is applied: a reader that dies here finds the note.
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
    // Neighbours are often of the same aggregate: what its id says is worked out once.
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
      const occurrence = occurrenceOf({ type, data }, at, current === entry)
      if (this.#wants(occurrence)) items.push(occurrence)
    }
    return items
  }

  /** POSITION_GONE if the store no longer has what was read last. */
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

/** Brought up to today. An upcaster that throws concerns its own event only. */
function currentOf(entry: Entry, upcasters: Upcasters): Entry {
  try {
    return upcast(entry, upcasters)
  } catch (error) {
    if (isPathError(error)) throw error
    return { ...entry, type: currentType(entry, upcasters), data: new Unread(error) }
  }
}

/** Fields that were decoded for us alone may take the type; those of an upcaster are the author's. */
function occurrenceOf({ type, data }: Pick<Entry, 'type' | 'data'>, at: EventAt, isOwn: boolean): Occurrence {
  const fields = Array.isArray(data) ? (data[0] as unknown) : null
  if (typeof fields === 'object' && fields !== null) {
    return { type, event: isOwn ? Object.assign(fields, { type }) : { ...fields, type }, at }
  }
  // An entry of another shape is poison for whoever handles it; the events beside it are read.
  return {
    type,
    at,
    get event(): never {
      if (data instanceof Unread) throw data.error
      throw new RepriseError('MALFORMED', `the entry at ${at.timeline}@${at.seq} (${type}) is not an event`, { ...at })
    },
  }
}

/** Of projections and process managers. */
export const poisonValues = { poison: ['stop', 'quarantine'] }

/** For those without a compiler: what is missing is said at once, not by a loop that cannot begin. */
export function checkReading(name: string, options: { readonly from: unknown; readonly on: unknown }): void {
  const { from, on } = options ?? {}
  const isSource = (each: unknown) => typeof (each as EventSource | null | undefined)?.prefix === 'string'
  if (!Array.isArray(from) || from.length === 0 || !from.every(isSource)) {
    throw new RepriseError('INVALID_ARGUMENT', `${name}: from must be a list of aggregates, such as [account]`, {
      name,
    })
  }
  const isHandlers = typeof on === 'object' && on !== null && Object.values(on).every((each) => isHandler(each))
  if (!isHandlers) {
    throw new RepriseError('INVALID_ARGUMENT', `${name}: on must hold one function per event type`, { name })
  }
}

function isHandler(given: unknown): boolean {
  return given === undefined || typeof given === 'function'
}

/** The same aggregate always falls into the same partition. */
export function partitionOf(timeline: string, partitions: number): number {
  let hash = 0x811c9dc5
  for (let i = 0; i < timeline.length; i++) hash = Math.imul(hash ^ timeline.charCodeAt(i), 0x01000193)
  return (hash >>> 0) % partitions
}
