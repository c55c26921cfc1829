// Metrics of a timeline that processes streams, for people: its parts, their connections, and how busy each was in the
// last seconds.

export interface FlowPart {
  readonly name: string
  readonly kind: 'source' | 'operator' | 'sink'
  /** The parts that receive its records. */
  readonly to: readonly string[]
  /** In this run: read by a source, received by any other part. */
  readonly records: number
  readonly perSecond: number
  /** Shares of the span; together with the two below they add up to 1. Busy: the part computes, or the flow waits for it. */
  readonly busy: number
  /** Blocked by the parts after it. */
  readonly backpressured: number
  readonly idle: number
  /** Null: the part has none, or its input has ended. */
  readonly watermark: number | null
  /** For a source: the age of the newest record that it read. */
  readonly lagMs: number | null
  readonly keys: number
  readonly inFlight: number
  readonly isEnded: boolean
}

/** The metrics at one moment. */
export interface FlowMoment {
  readonly at: number
  /** The period before that moment over which shares and rates are measured. */
  readonly spanMs: number
  readonly lateRecords: number
  readonly parts: readonly FlowPart[]
}

export interface FlowCheckpoint {
  readonly checkpoint: number
  readonly kind: string
  readonly at: number
  /** Null: read from the store, which does not record it. */
  readonly ms: number | null
  readonly bytes: number
  readonly addedBytes: number
  readonly longestStallMs: number | null
}

export interface FlowView extends FlowMoment {
  /**
   * 'process': the timeline runs in this process, and the metrics are current. 'checkpoint': stored with the last
   * checkpoint.
   */
  readonly from: 'process' | 'checkpoint'
  /** The newest checkpoint. */
  readonly checkpoint: FlowCheckpoint | null
  /** Checkpoints that have failed in a row since then. */
  readonly failures: number
  readonly lastFailure: string | null
  /** For a pipeline that several processes share: the timelines whose metrics were added up. */
  readonly tasks: readonly string[]
}
