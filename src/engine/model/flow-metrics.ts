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

/** One stage of a pipeline in one thread. */
export interface FlowTask {
  /** @example 'stage 1 on thread 2' */
  readonly name: string
  /** Its parts, which call each other. */
  readonly parts: readonly string[]
  /** Why records cross to this stage. */
  readonly why: string
  /** Records received in this run; for the first stage, read by the sources. */
  readonly records: number
  readonly perSecond: number
  /** Shares of the span, as for a part. */
  readonly busy: number
  readonly backpressured: number
  readonly idle: number
  /** The share of the span in which a channel waited for the barrier of another one. */
  readonly aligning: number
  /** The channels that wait for a barrier now, of all its channels. */
  readonly waitingChannels: number
  readonly channels: number
  readonly watermark: number | null
}

/** The metrics at one moment. */
export interface FlowMoment {
  readonly at: number
  /** The period before that moment over which shares and rates are measured. */
  readonly spanMs: number
  readonly lateRecords: number
  readonly parts: readonly FlowPart[]
  /** The tasks of a run on several threads. Absent: all parts are in one thread. */
  readonly stages?: readonly FlowTask[]
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
