// Bounds the disk usage while a program runs: when retention has dropped half as much as is in use, unreferenced chunks
// are swept, without waiting for the daily round. One process at a time, elected by the timeline of the housekeeping;
// each sweep is followed by a longer rest, unless garbage accumulates faster than that.

import type { Host } from '../../host/host.ts'

/** Less garbage is not worth a scan of the store. */
export const leastSweepBytes = 4 * 1024 * 1024
/** Share of the bytes in use. */
const sweepShare = 0.5
/** Rest time per unit of work time. */
const restFactor = 9
const firstPauseMs = 50
/** If a scan of the store takes longer than this, closing does not wait for one. */
const closingMs = 2000

export interface SweepResult {
  readonly liveBytes: number
}

/** Sweeps once. Null: another process does the housekeeping. */
export type SweepOnce = (isClosing: boolean) => Promise<SweepResult | null>

/** @example watchGarbage(rp, (isClosing) => sweepRound(rp, isClosing)) */
export function watchGarbage(engine: Host, sweepOnce: SweepOnce): void {
  const sweeper = new Sweeper(engine, sweepOnce)
  const offRetained = engine.events.on('retained', ({ freedBytes }) => sweeper.freed(freedBytes))
  const offDeleted = engine.events.on('deleted', ({ freedBytes }) => sweeper.freed(freedBytes))
  engine.onClose(async () => {
    offRetained()
    offDeleted()
    await sweeper.close()
  })
}

class Sweeper {
  readonly #engine: Host
  readonly #sweepOnce: SweepOnce
  /** An estimate: dropping a checkpoint frees the bytes it had added. */
  #garbageBytes = 0
  #liveBytes = 0
  #lastMs = 0
  #cancel: (() => void) | null = null
  #underWay: Promise<void> = Promise.resolve()
  #isSweeping = false
  #isClosed = false

  constructor(engine: Host, sweepOnce: SweepOnce) {
    this.#engine = engine
    this.#sweepOnce = sweepOnce
  }

  freed(bytes: number): void {
    this.#garbageBytes += bytes
    if (this.#garbageBytes < this.#threshold) return
    // More garbage ends a rest that was planned when there was little.
    if (this.#isUrgent && !this.#isSweeping) this.#cancelPlan()
    this.#plan(0)
  }

  /**
   * A program that ends with less garbage sweeps with a proportional probability: over many programs, the effect is the
   * same.
   */
  async close(): Promise<void> {
    this.#isClosed = true
    this.#cancel?.()
    await this.#underWay
    const share = this.#garbageBytes / this.#threshold
    if (this.#lastMs < closingMs && share > 0 && this.#engine.random.number() < share) await this.#sweep(true)
  }

  get #threshold(): number {
    return Math.max(leastSweepBytes, this.#liveBytes * sweepShare)
  }

  /** No rest while garbage accumulates faster than it is swept: disk space then matters more than time. */
  get #restMs(): number {
    return Math.max(firstPauseMs, this.#isUrgent ? 0 : this.#lastMs * restFactor)
  }

  get #isUrgent(): boolean {
    return this.#garbageBytes >= 2 * this.#threshold
  }

  #cancelPlan(): void {
    this.#cancel?.()
    this.#cancel = null
  }

  #plan(afterMs: number): void {
    if (this.#cancel || this.#isClosed) return
    this.#cancel = this.#engine.clock.after(afterMs, () => {
      this.#isSweeping = true
      this.#underWay = this.#sweep().finally(() => {
        this.#isSweeping = false
        this.#cancel = null
        if (this.#garbageBytes >= this.#threshold) this.#plan(this.#restMs)
      })
    })
  }

  async #sweep(isClosing = false): Promise<void> {
    const { clock, events } = this.#engine
    const started = clock.elapsed()
    const before = this.#garbageBytes
    try {
      const swept = await this.#sweepOnce(isClosing)
      if (!swept) return
      this.#garbageBytes -= before
      this.#liveBytes = swept.liveBytes
    } catch (error) {
      events.emit('problem', { where: 'sweeping chunks', error })
    } finally {
      this.#lastMs = clock.elapsed() - started
    }
  }
}
