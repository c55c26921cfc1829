// How processes share the parts of one reader (partitions of a projection, shards of a job): each takes its fair share and gives
// up what is above it when another process comes. Who owns what is decided by epochs in the store; this only keeps it even.
// Before `begin`, nobody else knows of the parts (a generation that is being rebuilt), so their builder takes all of them.

import type { Kernel } from '../storage/kernel.ts'
import { lookEvery } from './wake-up.ts'

const lookMs = 1000

/** Who may take a free part. */
export interface ShareGate {
  mayTake(): boolean
  shouldGiveUp(): boolean
}

/** For what has one part only: whoever finds it free takes it. */
export const ungated: ShareGate = { mayTake: () => true, shouldGiveUp: () => false }

/**
 * How many of `parts` one process may hold. Processes are counted by what they say of themselves with each heartbeat. One that
 * runs another number of parts (it was rescaled) can take none of these: with a share left for it, nobody would have that share.
 */
export async function fairShare({ store, worker }: Kernel, key: string, parts: number): Promise<number> {
  const rows = await store.workers()
  const isOther = ({ id, isAlive, isRetired, isGone, info }: (typeof rows)[number]) =>
    id !== worker.id && isAlive && !isRetired && !isGone && info[key] === parts
  return Math.ceil(parts / (rows.filter(isOther).length + 1))
}

export class FairShare implements ShareGate {
  readonly #kernel: Kernel
  readonly #key: string
  readonly #parts: number
  readonly #owned: () => number
  #stop: (() => void) | null = null
  #share: number

  /** `key` names the reader among all that a worker tells of itself. */
  constructor(kernel: Kernel, key: string, parts: number, owned: () => number) {
    this.#kernel = kernel
    this.#key = key
    this.#parts = parts
    this.#share = parts
    this.#owned = owned
  }

  get share(): number {
    return this.#share
  }

  /** Other processes know of the parts from here on, and of this process as a member. */
  begin(): void {
    if (this.#stop) return
    const { worker, clock } = this.#kernel
    worker.describe(this.#key, this.#parts)
    this.#stop = this.#parts > 1 ? lookEvery(clock, lookMs, () => this.#look(), undefined, true) : () => undefined
  }

  mayTake(): boolean {
    return this.#stop === null || this.#owned() < this.#share
  }

  shouldGiveUp(): boolean {
    return this.#stop !== null && this.#owned() > this.#share
  }

  stop(): void {
    this.#stop?.()
  }

  async #look(): Promise<void> {
    // Whoever was killed counts as long as its lease lasts, unless somebody looks: at once on this host.
    await this.#kernel.worker.retireGone()
    this.#share = await fairShare(this.#kernel, this.#key, this.#parts)
  }
}
