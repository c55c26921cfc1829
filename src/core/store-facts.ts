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
}

/** A fault found by the store's own checks, beneath the digest chain. */
export interface StoreFault {
  readonly where: string
  readonly what: string
}
