// Declares workers dead before their lease ends, so that their timelines can be taken over: workers of this host whose process
// is gone, workers without a heartbeat for a day, and workers whose session with the store is gone. The last are retired after a
// second check, because a process that just lost its connection reconnects.

import type { WorkerId } from '../../core/coordinate.ts'
import type { Clock, Store, WorkerRow } from '../../core/store/ports.ts'
import { sleep } from '../../lib/waiting.ts'
import type { Events } from '../base/events.ts'
import type { Worker } from '../base/worker.ts'
import type { WorkerRetirement } from '../storage/kernel.ts'

export interface DeadWorkersParts {
  readonly store: Store
  readonly clock: Clock
  readonly events: Events
  readonly worker: Worker
}

/** Time between the first check that misses a worker and the second, which decides. */
const recheckMs = 400
/** A worker whose lease expired this long ago is dead, or returns under a new identity. */
const silentMs = 24 * 3_600_000

export class DeadWorkers implements WorkerRetirement {
  readonly #parts: DeadWorkersParts
  #recheck: Promise<WorkerId[]> | null = null

  constructor(parts: DeadWorkersParts) {
    this.#parts = parts
  }

  async retireGone(): Promise<WorkerId[]> {
    const { store, worker } = this.#parts
    const others = (await store.workers()).filter((row) => !row.isRetired && row.id !== worker.id)
    const gone = others.filter((row) => worker.isGoneHere(row))
    await this.#retire(gone, 'its process on this host no longer exists')
    // No process of its host and no session can report it dead: its row would stay permanently.
    const silent = others.filter(
      (row) => row.beatAt + row.leaseMs + silentMs < worker.earliest() && !gone.includes(row),
    )
    await this.#retire(silent, 'it has sent no heartbeat for a day')
    const missed = others.filter((row) => row.isGone && !gone.includes(row) && !silent.includes(row))
    if (missed.length > 0 && !this.#recheck) {
      this.#recheck = this.#recheckMissing(missed).finally(() => {
        this.#recheck = null
      })
    }
    return [...gone, ...silent].map((row) => row.id)
  }

  async retiredSoon(): Promise<WorkerId[]> {
    return (await this.#recheck) ?? []
  }

  async #recheckMissing(missed: readonly WorkerRow[]): Promise<WorkerId[]> {
    const { store, clock, events, worker } = this.#parts
    try {
      await sleep(clock, recheckMs)
      if (worker.isClosed) return []
      // A worker with a newer heartbeat has reconnected.
      const before = new Map(missed.map((row) => [row.id, row.beatAt]))
      const gone = (await store.workers()).filter((row) => row.isGone && before.get(row.id) === row.beatAt)
      await this.#retire(gone, 'its session with the store has ended')
      return gone.map((row) => row.id)
    } catch (error) {
      if (!worker.isClosed) events.emit('problem', { where: 'workers', error })
      return []
    }
  }

  async #retire(rows: readonly WorkerRow[], because: string): Promise<void> {
    if (rows.length === 0) return
    const { store, events } = this.#parts
    await store.retire(rows.map((row) => row.id))
    for (const { id } of rows) events.emit('worker-retired', { worker: id, because })
  }
}
