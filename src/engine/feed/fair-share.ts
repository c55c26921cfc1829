// How processes share the parts of one reader (partitions of a projection, shards of a job): each takes its fair share and
// releases parts above it when another process joins. Epochs in the store decide ownership; this only keeps it even. Before
// `begin`, no other process knows of the parts (a generation that is being rebuilt), so their builder takes all of them.

import type { Kernel } from '../storage/kernel.ts'
import { pollEvery } from './wake-up.ts'

const pollMs = 1000

/** Decides whether this process may take a free part. */
export interface ShareGate {
  mayTake(): boolean
  shouldGiveUp(): boolean
}

/** For a reader with one part only: the first process that finds it free takes it. */
export const ungated: ShareGate = { mayTake: () => true, shouldGiveUp: () => false }

/**
 * The number of `parts` that one process may own. Processes are counted by their heartbeats. A process with another number of
 * parts (after a rescale) can take none of these: a share reserved for it would stay unowned.
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

  /** `key` identifies the reader in the heartbeat of a worker. */
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

  /** From here on, other processes know of the parts, and of this process as a member. */
  begin(): void {
    if (this.#stop) return
    const { worker, clock } = this.#kernel
    worker.describe(this.#key, this.#parts)
    this.#stop = this.#parts > 1 ? pollEvery(clock, pollMs, () => this.#look(), undefined, true) : () => undefined
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
    // A killed process counts until its lease expires, unless it is checked: on this host the check works at once.
    await this.#kernel.deadWorkers.retireGone()
    this.#share = await fairShare(this.#kernel, this.#key, this.#parts)
  }
}
