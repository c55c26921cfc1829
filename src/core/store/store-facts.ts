// Facts about a store: where and how it keeps data, and the findings of its own checks.

export interface StoreFacts {
  /** memory, sqlite, postgres, … */
  readonly kind: string
  /** For people; without credentials. */
  readonly location: string
  readonly schemaVersion: number
  /** Settings that determine durability, as read back from the store: { journal_mode: 'wal', synchronous: 'full' }. */
  readonly durability: Readonly<Record<string, string>>
  readonly isReadOnly: boolean
  /** Bytes on disk, where known. */
  readonly sizeBytes: number | null
  /** Places outside the store's reach where erased bytes may remain; in words, known beforehand. */
  readonly keepsErased?: readonly string[]
  /** Damage that the store reads around, since it has a second copy; in words. `Salvage.renew` puts it right. */
  readonly damage?: readonly string[]
  /** Only of PostgreSQL: whether the server archives its log. */
  readonly archive?: LogArchive
  /** Only of a store that is made of several: how far apart their clocks are, as the last heartbeat measured it. */
  readonly clocks?: readonly ShardClock[]
}

/** Archiving of a server's write-ahead log, by its settings and its archiver. */
export interface LogArchive {
  /** The major version of the server. */
  readonly major: number
  /** The account of this connection, and its database. */
  readonly user: string
  readonly database: string
  /** This account may take a base backup. */
  readonly mayReplicate: boolean
  readonly walLevel: string
  readonly walSendersMax: number
  readonly mode: string
  readonly command: string
  /** A segment is archived after this time even if it is not full; 0: never. */
  readonly timeoutMs: number
  /** The last success and the last failure of archive_command; null: none. */
  readonly archivedAt: number | null
  readonly failedAt: number | null
}

export interface ShardClock {
  readonly shard: number
  readonly location: string
  /** Ahead of the slowest clock of the set, in milliseconds. */
  readonly aheadMs: number
}

/** Progress of the store's own check. */
export interface Inspected {
  /** The part being checked: file, log, timelines, … */
  readonly part: string
  readonly done: number
  /** Null: unknown. */
  readonly total: number | null
  /** Found so far. */
  readonly faults: number
  /** For `Inspection.after`: a check that starts from it skips the parts already checked. */
  readonly mark: string
}

/** Options of the store's own check. */
export interface Inspection {
  readonly onProgress?: (at: Inspected) => void
  /** Aborts the check with ABORTED. */
  readonly signal?: AbortSignal
  /** A mark of an earlier check of this store: the check resumes there. An unknown mark is ignored. */
  readonly after?: string
}

/** A fault found by the store's own checks, beneath the digest chain. */
export interface StoreFault {
  readonly where: string
  readonly what: string
  /** The file itself is damaged, not only data in it: `Salvage.renew` rewrites it. */
  readonly isOfFile?: boolean
  /** The timeline it belongs to, if any. */
  readonly timeline?: string
  /** It can be read again, but incompletely: the affected timelines are reported separately (Salvage.renew). */
  readonly isIncomplete?: true
}

/** Data that was lost when the store's files were rewritten. */
export interface StoreLoss {
  readonly timeline: string | null
  readonly where: string
  readonly what: string
  /** Entries above this sequence were acknowledged, and may be among the lost ones. */
  readonly after?: number
  /** The row of the timeline is marked (lost-head.ts): until its model has rebuilt its head, verify names it. */
  readonly isUntilHead?: true
}

/** Files rewritten from their intact parts (Salvage.renew). */
export interface Renewal {
  /** Location of the old files. */
  readonly kept: string
  /** Damaged parts that were fully restored. */
  readonly rebuilt: readonly StoreFault[]
  readonly lost: readonly StoreLoss[]
}

/** The loss of one repair. The store keeps it until a person gives it up, so that no later verify omits it. */
export interface LossRecord {
  /** For `rp.acceptLoss`. */
  readonly id: string
  readonly at: number
  /** Where the damaged files are; null: they were not kept. */
  readonly kept: string | null
  readonly lost: readonly StoreLoss[]
}
