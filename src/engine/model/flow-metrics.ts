// What flows through a timeline that processes streams, for people: its parts, how they are joined, and how busy each was in
// the last seconds.

export interface FlowPart {
  readonly name: string
  readonly kind: 'source' | 'operator' | 'sink'
  /** The parts that it gives its records to. */
  readonly to: readonly string[]
  /** In this run: read by a source, taken by the others. */
  readonly records: number
  readonly perSecond: number
  /** Shares of the span, which make 1 together. Busy: it computes, or the flow waits for it. */
  readonly busy: number
  /** Held back by what comes after it. */
  readonly backpressured: number
  readonly idle: number
  /** Null: it has none, or its input is at its end. */
  readonly watermark: number | null
  /** Of a source: how old the newest record that it read is, by the clock. */
  readonly lagMs: number | null
  readonly keys: number
  readonly inFlight: number
  readonly isEnded: boolean
}

/** As it was at one moment. */
export interface FlowMoment {
  readonly at: number
  /** What shares and rates are of: so long before that moment. */
  readonly spanMs: number
  readonly lateRecords: number
  readonly parts: readonly FlowPart[]
}

export interface FlowCheckpoint {
  readonly checkpoint: number
  readonly kind: string
  readonly at: number
  /** Null: it was read from the store, which does not say. */
  readonly ms: number | null
  readonly bytes: number
  readonly addedBytes: number
  readonly longestStallMs: number | null
}

export interface FlowView extends FlowMoment {
  /** 'process': it runs in this process, and this is now. 'checkpoint': it was noted with its last checkpoint. */
  readonly from: 'process' | 'checkpoint'
  /** The newest. */
  readonly checkpoint: FlowCheckpoint | null
  /** Checkpoints that failed in a row since. */
  readonly failures: number
  readonly lastFailure: string | null
  /** Of one that several processes share: the timelines whose figures were added up. */
  readonly tasks: readonly string[]
}
