// What a store says about itself: where and how it keeps things, and what its own checks found.

export interface StoreFacts {
  /** memory, sqlite, postgres, … */
  readonly kind: string
  /** For people; without credentials. */
  readonly location: string
  readonly schemaVersion: number
  /** Settings that durability rests on, as read back from the store: { journal_mode: 'wal', synchronous: 'full' }. */
  readonly durability: Readonly<Record<string, string>>
  readonly isReadOnly: boolean
  /** Bytes on disk, where known. */
  readonly sizeBytes: number | null
  /** Where bytes that were erased may stay, beside what the store can reach; in words, known beforehand. */
  readonly keepsErased?: readonly string[]
  /** Damage that the store reads around, since it has a second copy; in words. `Store.renew` puts it right. */
  readonly damage?: readonly string[]
  /** Only of a store that is made of several: how far their clocks are apart, as the last heartbeat measured it. */
  readonly clocks?: readonly ShardClock[]
}

export interface ShardClock {
  readonly shard: number
  readonly location: string
  /** Ahead of the slowest clock of the set, in milliseconds. */
  readonly aheadMs: number
}

/** How far the store's own check is. */
export interface Inspected {
  /** In a word: file, log, timelines, … */
  readonly part: string
  readonly done: number
  /** Null: nobody knows. */
  readonly total: number | null
  /** Found so far. */
  readonly faults: number
  /** For `Inspection.after`: what was gone through by now need not be gone through again. */
  readonly mark: string
}

/** What whoever asks for the store's own check may want of it. */
export interface Inspection {
  readonly onProgress?: (at: Inspected) => void
  /** Ends it with ABORTED. */
  readonly signal?: AbortSignal
  /** A mark of an earlier check of this store: it goes on there. One that nobody knows counts for nothing. */
  readonly after?: string
}

/** A fault found by the store's own checks, beneath the digest chain. */
export interface StoreFault {
  readonly where: string
  readonly what: string
  /** The file itself is damaged, not only what lies in it: `Store.renew` writes it anew. */
  readonly isOfFile?: boolean
  /** Whose it is, where it is somebody's. */
  readonly timeline?: string
  /** It can be read again, without all that was in it: whose that was is told apart (Store.renew). */
  readonly isIncomplete?: true
}

/** What could not be had when the store's files were written anew. */
export interface StoreLoss {
  readonly timeline: string | null
  readonly where: string
  readonly what: string
  /** Entries above this sequence were acknowledged, and may be among what is lost. */
  readonly after?: number
  /** The row of the timeline is marked (lost-head.ts): until its model has made its head again, verify names it. */
  readonly isUntilHead?: true
}

/** Files written anew from what was sound in them (Store.renew). */
export interface Renewal {
  /** Where the old ones are. */
  readonly kept: string
  /** Was damaged, and is as it was. */
  readonly rebuilt: readonly StoreFault[]
  readonly lost: readonly StoreLoss[]
}

/** What one repair could not have. The store keeps it until a person gives it up, so that no later verify passes over it. */
export interface LossRecord {
  /** For `rp.acceptLoss`. */
  readonly id: string
  readonly at: number
  /** Where the damaged files are; null: nothing is kept of them. */
  readonly kept: string | null
  readonly lost: readonly StoreLoss[]
}
