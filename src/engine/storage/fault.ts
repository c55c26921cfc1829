// A fault, as verify reports it.

import type { LossRecord } from '../../core/store/ports.ts'
import type { StoreChange } from './store-change.ts'

export interface Fault {
  readonly timeline: string | null
  readonly seq: number | null
  /** The file, table or chunk. */
  readonly where: string
  readonly what: string
  readonly code: string
}

export interface HealedFault extends Fault {
  /**
   * The source of the intact copy: 'parity', 'copy', 'rest' (the fault is in redundancy itself), or a place passed to
   * repair.
   */
  readonly from: string
  /** Put back by `repair`. Otherwise it is read from its copy, as long as that exists. */
  readonly isPutRight: boolean
  /** The place is intact again, but not all of its content could be recovered: the losses have faults of their own. */
  readonly isIncomplete?: true
}

/** The part verified by earlier, interrupted calls, and not again by this one (`resume`). Times: ms since 1970. */
export interface EarlierVerify {
  /** When the first of them began. */
  readonly from: number
  /** When they had verified the part reported here. Later damage to unwritten data is not detected. */
  readonly to: number
  /** They had verified the timelines up to this one, in id order. Null: none. */
  readonly upTo: string | null
  /** How many of those were not written since, and were skipped. */
  readonly timelines: number
  /** How many of those were written since, or are new, and were verified again. */
  readonly again: number
  /** The time of the last check of the store's own structures, if this call did not repeat it. */
  readonly structuresAt: number | null
}

export interface VerifyReport {
  /** There is no fault; after a repair: none is left. */
  readonly ok: boolean
  readonly faults: readonly Fault[]
  /** Damaged or missing without a loss: there is an intact copy. */
  readonly healed: readonly HealedFault[]
  /** Data that this process could not read because it lacks keys, classes, a higher limit, or the folder of the chunks. */
  readonly cannotTell: readonly Fault[]
  readonly timelines: number
  readonly entries: number
  readonly checkpoints: number
  readonly chunks: number
  /** Chunks that no checkpoint needs: collect() removes them. Not a fault. */
  readonly orphans: number
  /** Forks that were made with edits, at most the first hundred. Not a fault. */
  readonly edited: readonly { readonly timeline: string; readonly what: string }[]
  /** Long changes of the store that have not finished. `ok` is false while one is interrupted, or a restore is running. */
  readonly unfinished: readonly StoreChange[]
  /** The losses of repairs, including this one, that were not given up (`rp.acceptLoss`). `ok` is false while there is one. */
  readonly losses: readonly LossRecord[]
  /** Null: all of it was verified by this call. */
  readonly earlier: EarlierVerify | null
}
