// The report of one recovery (A7.1): the checkpoint chosen, those skipped, the entries replayed, the time of each
// phase.
// Plain data, so that it can be shown, stored and compared.

export interface RecoveryReport {
  readonly timeline: string
  readonly seq: number
  readonly epoch: number
  /** The restored checkpoint. Null: history was replayed from its origin. */
  readonly checkpoint: { readonly id: string; readonly seq: number } | null
  /** Checkpoints that were skipped, newest first, with the reasons. */
  readonly skipped: readonly { readonly id: string; readonly seq: number; readonly why: string }[]
  /** Chunks of the checkpoint that were damaged or missing, and were rebuilt from their redundancy. */
  readonly healed: number
  readonly entriesReplayed: number
  readonly bytesRead: number
  /** Only with authority "state": saves newer than the restored one. */
  readonly entriesLost: number
  readonly planMs: number
  readonly restoreMs: number
  readonly replayMs: number
  readonly totalMs: number
}
