// What one salvage works with, and what it says at its end.

import type { Hash } from '../../../core/store/ports.ts'
import type { StoreFault, StoreLoss } from '../../../core/store/store-facts.ts'
import type { Connection } from '../file/connection.ts'
import type { DamagedFile } from './source.ts'

export interface SalvageOptions {
  readonly hash: Hash
  /** Of whoever asks: its name is known if the file no longer tells. */
  readonly namespace: string
  readonly now: number
  readonly path: string
  /** The name that the damaged file is going to have. */
  readonly kept: string
  /** How far the log had come when somebody was last told "durable"; 0: nobody knows. */
  readonly acknowledged: number
}

export interface Salvaged {
  readonly rebuilt: readonly StoreFault[]
  readonly lost: readonly StoreLoss[]
  /** The last row of the log. */
  readonly end: { readonly position: number; readonly body: Uint8Array }
}

/** What one salvage works with. */
export interface Salvage {
  readonly from: DamagedFile
  readonly to: Connection
  readonly options: SalvageOptions
  readonly rebuilt: StoreFault[]
  readonly lost: StoreLoss[]
}
