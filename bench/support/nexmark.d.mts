import type * as pipelineLayer from '../../src/layers/pipeline/index.ts'

export interface NexmarkEvent {
  readonly kind: 'person' | 'auction' | 'bid'
  readonly at: number
}

export interface NexmarkQuery {
  draw(
    lib: typeof pipelineLayer,
    all: pipelineLayer.Stream<NexmarkEvent>,
  ): pipelineLayer.Stream<Readonly<Record<string, unknown>>>
  plain(all: readonly NexmarkEvent[]): readonly Readonly<Record<string, unknown>>[]
  /** When a record happened, where that is not its own time. */
  time?(): number
  /** Only the last result of each of these is compared. */
  last?(result: Readonly<Record<string, unknown>>): unknown
  /** The sums of these are compared. */
  sums?(result: Readonly<Record<string, unknown>>): readonly [key: unknown, value: number]
}

export interface NexmarkGenerator {
  event(n: number): NexmarkEvent
  events(count: number): NexmarkEvent[]
}

/** Events at so many per second of event time. Default: 10,000. */
export function generator(perSecond?: number): NexmarkGenerator
export function event(n: number): NexmarkEvent
export function events(count: number): NexmarkEvent[]
export const queries: Readonly<Record<string, NexmarkQuery>>
