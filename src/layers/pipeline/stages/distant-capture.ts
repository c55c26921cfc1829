// The capture of one table in a worker thread, as the main thread reads it: the blocks of a small table arrive with the capture,
// those of a large one are pulled one by one, so that only one of them is in memory here.

import { RepriseError } from '../../../core/errors.ts'
import type { DistantCapture, EncodedBlock } from '../run/named-table.ts'
import type { CapturedHere } from './messages.ts'

interface Thread {
  pull(): void
  settle(isPublished: boolean): void
}

interface Pulling {
  resolve(block: EncodedBlock | undefined): void
  reject(error: unknown): void
}

export class TableInThread implements DistantCapture {
  readonly isFull: boolean
  readonly size: number
  readonly builtOn: number
  readonly promised: CapturedHere['promised']
  readonly #thread: Thread
  readonly #blocks: EncodedBlock[] | null
  #pulling: Pulling | null = null
  #isSettled = false

  constructor({ isFull, size, builtOn, promised, blocks }: CapturedHere, thread: Thread) {
    this.isFull = isFull
    this.size = size
    this.builtOn = builtOn
    this.promised = promised
    this.#blocks = blocks && [...blocks]
    this.#thread = thread
  }

  async pull(): Promise<EncodedBlock | undefined> {
    if (this.#blocks) return this.#blocks.shift()
    return await new Promise((resolve, reject) => {
      this.#pulling = { resolve, reject }
      this.#thread.pull()
    })
  }

  /** The pulled block arrived; null: there is no further one. */
  arrived(block: EncodedBlock | null): void {
    this.#pulling?.resolve(block ?? undefined)
    this.#pulling = null
  }

  publish(): void {
    this.#settle(true)
  }

  abandon(): void {
    this.#settle(false)
    this.fail(new RepriseError('ABORTED', 'the checkpoint was abandoned'))
  }

  fail(error: unknown): void {
    this.#pulling?.reject(error)
    this.#pulling = null
  }

  #settle(isPublished: boolean): void {
    if (this.#isSettled) return
    this.#isSettled = true
    this.#thread.settle(isPublished)
  }
}
