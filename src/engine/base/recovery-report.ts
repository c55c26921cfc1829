// The report that each recovery leaves (A7.1): what was chosen and skipped, how much was replayed, how long each
// phase took. Kept as plain data so that it can be shown, stored and compared.

export interface RecoveryReport {
  readonly timeline: string
  readonly seq: number
  readonly epoch: number
  /** The checkpoint that was used, or null when history was replayed from its origin. */
  readonly checkpoint: { readonly id: string; readonly seq: number } | null
  /** Checkpoints that were not used, newest first, and why. */
  readonly skipped: readonly { readonly id: string; readonly seq: number; readonly why: string }[]
  /** Chunks of it that were damaged or missing, and were rebuilt from their redundancy. */
  readonly healed: number
  readonly entriesReplayed: number
  readonly bytesRead: number
  /** Only with authority "state": saves that are newer than the one restored. */
  readonly entriesLost: number
  readonly planMs: number
  readonly restoreMs: number
  readonly replayMs: number
  readonly totalMs: number
}
