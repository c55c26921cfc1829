// Where projections and process managers get their events: the feed of one or more kinds of aggregates, decoded and
// brought up to today's versions, in one order that never skips an event that commits late.

import { upcast } from '../../core/fold.ts'
import type { FeedPosition } from '../../core/ports.ts'
import { systemPrefix } from '../../engine/definition.ts'
import { FeedReader } from '../../engine/feed-reader.ts'
import type { Kernel } from '../../engine/kernel.ts'
import type { Model } from './aggregate.ts'
import { eventOf, fieldsOf, infoOf, layerPrefix, refusedType } from './envelope.ts'
import type { EventInfo, EventOf } from './types.ts'

/** What a projection needs of an aggregate's definition. */
export interface EventSource {
  readonly prefix: string
  readonly name: string
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

export interface Page {
  readonly events: readonly Occurrence[]
  readonly next: FeedPosition
  readonly isEnd: boolean
}

export class Events {
  readonly #reader: FeedReader
  readonly #sources: readonly EventSource[]
  readonly #wants: (occurrence: Occurrence) => boolean

  constructor(kernel: Kernel, sources: readonly EventSource[], wants: (occurrence: Occurrence) => boolean) {
    this.#reader = new FeedReader(
      kernel,
      sources.map(({ prefix }) => prefix),
    )
    this.#sources = sources
    this.#wants = wants
  }

  async page(after: FeedPosition, limit?: number): Promise<Page> {
    const { entries, next, isEnd } = await this.#reader.page(after, limit)
    const events: Occurrence[] = []
    for (const entry of entries) {
      const source = this.#sources.find(({ prefix }) => entry.timeline.startsWith(prefix))
      if (!source || entry.type.startsWith(systemPrefix)) continue
      const isOurs = entry.type.startsWith(layerPrefix)
      if (isOurs && entry.type !== refusedType) continue
      const current = isOurs ? entry : upcast(entry, source.model.upcasters)
      const at = { ...infoOf(current, source.prefix), aggregate: source.name }
      const event = isOurs ? { ...(fieldsOf(entry) as object), type: entry.type } : eventOf(current)
      const occurrence = { type: current.type, event, at }
      if (this.#wants(occurrence)) events.push(occurrence)
    }
    return { events, next, isEnd }
  }

  reset(): void {
    this.#reader.reset()
  }
}

/** The same aggregate always falls into the same partition. */
export function partitionOf(timeline: string, partitions: number): number {
  let hash = 0x811c9dc5
  for (let i = 0; i < timeline.length; i++) hash = Math.imul(hash ^ timeline.charCodeAt(i), 0x01000193)
  return (hash >>> 0) % partitions
}
