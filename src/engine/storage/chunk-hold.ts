// Protects chunks between their put and the publication that names them. Every publication is checked in its own
// transaction:
// if a collector may have removed chunks since the first of them was put, it is refused, and the chunks are touched (or
// made again if they are missing) before the publication is retried. This keeps a checkpoint complete, however long the
// process was suspended. To avoid repeating a long capture, it is also announced: with the heartbeat, and at once when
// it is large.
// Collectors keep the chunks that a live worker has announced. docs/decisions/collection.md

import type { Digest } from '../../core/coordinate.ts'
import { isSignal, SignalError } from '../../core/errors.ts'
import type { Blobs } from '../../core/store/ports.ts'
import { forwardBlobs } from '../../core/store/store-wrapper.ts'
import type { Kernel } from './kernel.ts'

/** A capture of this size is announced before its second batch of chunks: a heartbeat costs little in comparison. */
const announceBytes = 1024 * 1024
const attemptsMax = 20

/** @example const hold = await ChunkHold.begin(kernel); try { … } finally { hold.end() } */
export class ChunkHold {
  readonly #kernel: Kernel
  /** Everything put under this hold is at least this young. Rises when the chunks are touched again. */
  #since: number
  /** As announced to other processes. Never rises, so that they never read too late a time. */
  readonly announcedSince: number
  #putBytes = 0
  #isAnnounced = false
  readonly blobs: Blobs
  readonly #place: Blobs

  private constructor(kernel: Kernel, place: Blobs) {
    this.#kernel = kernel
    this.#place = place
    this.#since = kernel.worker.earliest()
    this.announcedSince = this.#since
    this.blobs = forwardBlobs(place, { put: (chunks, at = 0) => this.#put(chunks, at) })
  }

  /**
   * Call before the first put: captures are announced in the worker's row, and its heartbeat reads the time. `place`:
   * where the chunks are put. Default: the store's own place.
   */
  static async begin(kernel: Kernel, place: Blobs = kernel.store.blobs): Promise<ChunkHold> {
    await kernel.worker.register()
    const hold = new ChunkHold(kernel, place)
    kernel.worker.captures.add(hold)
    return hold
  }

  /**
   * Runs the commit that publishes the chunks, with the time to pass as `chunksSince`. `chunks`: all chunks that the
   * publication names and its base does not. Throws SWEPT if some were removed: the capture must be made again.
   */
  async publish<T>(chunks: readonly Digest[], commit: (chunksSince: number) => Promise<T>): Promise<T> {
    const { worker, graceMs, planted } = this.#kernel
    for (let attempt = 1; ; attempt++) {
      // Collectors of earlier versions raise no mark; they sweep chunks older than the grace period.
      if (worker.now() - this.#since > graceMs / 2) await this.#renew(chunks)
      try {
        return await commit(planted.has('publish-unchecked') ? Number.MAX_SAFE_INTEGER : this.#since)
      } catch (error) {
        if (!isSignal(error, 'SWEPT') || attempt >= attemptsMax) throw error
        await this.#renew(chunks)
      }
    }
  }

  /** Touches stored chunks to be named, so that they are as young as a new put. Throws SWEPT if one is missing. */
  async reuse(chunks: readonly Digest[]): Promise<void> {
    const missing = await this.#kernel.store.blobs.touch(chunks, this.#since)
    if (missing.length === 0) return
    const what = `${missing.length} of ${chunks.length} chunks no longer exist`
    throw new SignalError('SWEPT', what, { missing: missing.length })
  }

  end(): void {
    this.#kernel.worker.captures.remove(this)
  }

  async #put(chunks: Parameters<Blobs['put']>[0], at: number): Promise<void> {
    for (const { bytes } of chunks) this.#putBytes += bytes.length
    const put = this.#place.put(chunks, Math.max(at, this.#since))
    if (this.#putBytes < announceBytes || this.#isAnnounced) return await put
    await Promise.all([put, this.#announce()])
  }

  /** Touches the chunks, so that they are as young as a new put. */
  async #renew(chunks: readonly Digest[]): Promise<void> {
    const { worker, store, events } = this.#kernel
    await this.#announce()
    const since = Math.max(worker.earliest(), await store.sweepMark())
    const missing = await store.blobs.touch(chunks, since)
    events.emit('chunks-renewed', { chunks: chunks.length, missing: missing.length })
    if (missing.length > 0) {
      const what = `${missing.length} of ${chunks.length} chunks were collected before the checkpoint was published`
      throw new SignalError('SWEPT', what, { missing: missing.length })
    }
    this.#since = since
  }

  /** A failed announcement costs only time: the publication is checked anyway. */
  async #announce(): Promise<void> {
    this.#isAnnounced = true
    await this.#kernel.worker.beatNow().catch(() => undefined)
  }
}
