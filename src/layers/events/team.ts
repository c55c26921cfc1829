// How processes share the partitions of a projection: each takes its fair part of them and gives up what is above it when
// another process comes. Who owns what is decided by epochs in the store; this only keeps it even. A generation that is
// being rebuilt is not shared: nobody else knows of it yet, so its builder takes all of it.

import type { WorkerRow } from '../../core/ports.ts'
import type { Reprise } from '../../engine/reprise.ts'

const lookMs = 1000

/** Who may take a free partition. */
export interface Gate {
  mayTake(): boolean
  shouldGiveUp(): boolean
}

export class Team implements Gate {
  readonly #engine: Reprise
  readonly #key: string
  readonly #partitions: number
  readonly #owned: () => number
  #cancel: () => void = () => undefined
  #members = 1
  #isShared = false

  constructor(engine: Reprise, name: string, partitions: number, owned: () => number) {
    this.#engine = engine
    this.#key = `projection ${name}`
    this.#partitions = partitions
    this.#owned = owned
  }

  get share(): number {
    return Math.ceil(this.#partitions / this.#members)
  }

  /** The generation is the live one: other processes know of it, and of this one as a member. */
  begin(): void {
    if (this.#isShared) return
    this.#isShared = true
    const { worker, clock } = this.#engine.kernel
    worker.describe(this.#key, this.#partitions)
    let cancelTimer = () => {}
    let isOver = false
    const look = () => {
      void this.#look()
        .catch(() => undefined)
        .finally(() => {
          if (!isOver) cancelTimer = clock.after(lookMs, look)
        })
    }
    if (this.#partitions > 1) look()
    this.#cancel = () => {
      isOver = true
      cancelTimer()
    }
  }

  mayTake(): boolean {
    return !this.#isShared || this.#owned() < this.share
  }

  shouldGiveUp(): boolean {
    return this.#isShared && this.#owned() > this.share
  }

  stop(): void {
    this.#cancel()
  }

  async #look(): Promise<void> {
    const { worker } = this.#engine.kernel
    // Whoever was killed counts as long as its lease lasts, unless somebody looks: at once on this host.
    await worker.retireGone()
    const rows = await this.#engine.workers()
    // One that still runs another number of partitions (it was rescaled) can take none of these: with a part left for it,
    // nobody would have that part.
    const isMember = ({ info }: WorkerRow) => info[this.#key] === this.#partitions
    const others = rows.filter(
      (row) => row.isAlive && !row.isRetired && !row.isGone && row.id !== worker.id && isMember(row),
    )
    this.#members = others.length + 1
  }
}
