// The findings of a verify, and the check of one item: damage becomes a fault, and the verify continues.

import { RepriseError } from '../../../core/errors.ts'
import type { Head, StoreLoss } from '../../../core/store/ports.ts'
import { cannotTell } from '../../history/recover.ts'
import type { Fault, HealedFault } from '../../storage/fault.ts'

export interface Tally {
  readonly faults: Fault[]
  readonly healed: HealedFault[]
  readonly cannotTell: Fault[]
  /** Items that this repair lost permanently: a later verify could not find that they ever existed. */
  readonly lost: StoreLoss[]
  readonly live: Set<string>
  timelines: number
  entries: number
  checkpoints: number
  readonly edited: { timeline: string; what: string }[]
}

export function newTally(): Tally {
  return {
    faults: [],
    healed: [],
    cannotTell: [],
    lost: [],
    live: new Set(),
    timelines: 0,
    entries: 0,
    checkpoints: 0,
    edited: [],
  }
}

export async function attempt(tally: Tally, head: Head, where: string, check: () => Promise<void>): Promise<boolean> {
  try {
    await check()
    return true
  } catch (error) {
    if (!(error instanceof RepriseError) || error.remedy === 'retry') throw error
    const seq = typeof error.data.seq === 'number' ? error.data.seq : null
    const list = cannotTell(error) ? tally.cannotTell : tally.faults
    list.push({ timeline: head.timeline, seq, where, what: error.message, code: error.code })
    return false
  }
}
