// A damaged place, as verify names it.

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
  /** Where its sound copy is: 'parity', 'copy', 'rest' (it is redundancy itself), or the place that was named. */
  readonly from: string
  /** By `repair`. What is not is read from its copy, as long as that is there. */
  readonly isPutRight: boolean
  /** The place is sound again, and not all that was in it is there: whose that was is told by its own fault. */
  readonly isIncomplete?: true
}

/** What was verified by earlier calls that were interrupted, and not again by this one (`resume`). Times: ms since 1970. */
export interface EarlierVerify {
  /** When the first of them began. */
  readonly from: number
  /** Up to when they verified what is told here. Damage that came later to what nobody wrote is not known. */
  readonly to: number
  /** They had gone through the timelines up to this one, in the order of ids; null: through none. */
  readonly upTo: string | null
  /** Of those: so many were not written since, and were passed over … */
  readonly timelines: number
  /** … and so many were written since, or are new, and were verified again. */
  readonly again: number
  /** When the store's own structures were checked, if that was not done again. */
  readonly structuresAt: number | null
}

export interface VerifyReport {
  /** There is no fault; after a repair: none is left. */
  readonly ok: boolean
  readonly faults: readonly Fault[]
  /** Damaged or missing, and nothing is lost: there is a sound copy. */
  readonly healed: readonly HealedFault[]
  /** What this process could not read because it lacks something: keys, classes, a higher limit, the folder of the chunks. */
  readonly cannotTell: readonly Fault[]
  readonly timelines: number
  readonly entries: number
  readonly checkpoints: number
  readonly chunks: number
  /** Chunks that no checkpoint needs: collect() removes them. Not a fault. */
  readonly orphans: number
  /** Forks that were made with edits, the first hundred of them. Not a fault. */
  readonly edited: readonly { readonly timeline: string; readonly what: string }[]
  /** Long changes of the store that have not finished. `ok` is false while one was interrupted, or a restore is at work. */
  readonly unfinished: readonly StoreChange[]
  /** What repairs lost, this one included, and nobody has given up (`rp.acceptLoss`). `ok` is false while there is one. */
  readonly losses: readonly LossRecord[]
  /** Null: all of it was verified by this call. */
  readonly earlier: EarlierVerify | null
}
