// A damaged place, as verify names it.

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
