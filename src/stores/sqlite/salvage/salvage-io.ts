// The input and the result of one salvage.

import type { Hash } from '../../../core/store/ports.ts'
import type { StoreFault, StoreLoss } from '../../../core/store/store-facts.ts'
import type { Connection } from '../file/connection.ts'
import type { DamagedFile } from './source.ts'

export interface SalvageOptions {
  readonly hash: Hash
  /** The caller's namespace: its name is known even if the file no longer contains it. */
  readonly namespace: string
  readonly now: number
  readonly path: string
  /** The new name of the damaged file. */
  readonly kept: string
  /** The log position of the last commit that was reported as durable; 0: unknown. */
  readonly acknowledged: number
}

export interface Salvaged {
  readonly rebuilt: readonly StoreFault[]
  readonly lost: readonly StoreLoss[]
  /** The last row of the log. */
  readonly end: { readonly position: number; readonly body: Uint8Array }
}

/** The working state of one salvage. */
export interface Salvage {
  readonly from: DamagedFile
  readonly to: Connection
  readonly options: SalvageOptions
  readonly rebuilt: StoreFault[]
  readonly lost: StoreLoss[]
}
