// What protects chunks between the moment they are put and the publication that names them. Every publication is checked in
// its own transaction: if a collector may have taken chunks since the first of them was put, it is refused, and they are
// touched (or, where they are gone, made again) before it is tried once more. That is what keeps a checkpoint whole, however
// long this process was away. So that a long capture need not be done twice, it is announced as well: with the heartbeat,
// and at once when it is large. Collectors leave alone what a live worker has announced. docs/decisions/collection.md

import type { Digest } from '../../core/coordinate.ts'
import { isReprise, RepriseError } from '../../core/errors.ts'
import { forwardBlobs } from '../../core/store/forward.ts'
import type { Blobs } from '../../core/store/ports.ts'
import type { Kernel } from './kernel.ts'

/** One of this size is announced before its second batch of chunks: a heartbeat costs little beside it. */
const announceBytes = 1024 * 1024
const attemptsMax = 20

/** @example const hold = await ChunkHold.begin(kernel); try { … } finally { hold.end() } */
export class ChunkHold {
  readonly #kernel: Kernel
  /** Everything put under it is as young as this. Rises when what was put is touched again. */
  #since: number
  /** As others know it: stays what it was, so that what they read is never too late. */
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
   * Before the first chunk is put: the worker's row is where captures are announced, and its beat tells the time. `place`:
   * where they are put, the store's own if left out.
   */
  static async begin(kernel: Kernel, place: Blobs = kernel.store.blobs): Promise<ChunkHold> {
    await kernel.worker.register()
    const hold = new ChunkHold(kernel, place)
    kernel.worker.captures.add(hold)
    return hold
  }

  /**
   * Runs the commit that publishes what was put, with the time that it has to pass on as `chunksSince`. `chunks`: all that
   * the publication names and its base does not. SWEPT if some were taken: then the capture has to be made again.
   */
  async publish<T>(chunks: readonly Digest[], commit: (chunksSince: number) => Promise<T>): Promise<T> {
    const { worker, graceMs, planted } = this.#kernel
    for (let attempt = 1; ; attempt++) {
      // A collector of an earlier version raises no mark; what it sweeps is older than the grace period.
      if (worker.now() - this.#since > graceMs / 2) await this.#renew(chunks)
      try {
        return await commit(planted.has('publish-unchecked') ? Number.MAX_SAFE_INTEGER : this.#since)
      } catch (error) {
        if (!isReprise(error, 'SWEPT') || attempt >= attemptsMax) throw error
        await this.#renew(chunks)
      }
    }
  }

  /** Chunks that lie in the store already and are to be named: as young as what is put from now on. SWEPT if one is gone. */
  async reuse(chunks: readonly Digest[]): Promise<void> {
    const missing = await this.#kernel.store.blobs.touch(chunks, this.#since)
    if (missing.length === 0) return
    const what = `${missing.length} of ${chunks.length} chunks are no longer there`
    throw new RepriseError('SWEPT', what, { missing: missing.length })
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

  /** What was put counts as put now. */
  async #renew(chunks: readonly Digest[]): Promise<void> {
    const { worker, store, events } = this.#kernel
    await this.#announce()
    const since = Math.max(worker.earliest(), await store.sweepMark())
    const missing = await store.blobs.touch(chunks, since)
    events.emit('chunks-renewed', { chunks: chunks.length, missing: missing.length })
    if (missing.length > 0) {
      const what = `${missing.length} of ${chunks.length} chunks were collected before the checkpoint was published`
      throw new RepriseError('SWEPT', what, { missing: missing.length })
    }
    this.#since = since
  }

  /** Failing to announce harms nothing but the time that it takes: the publication is checked. */
  async #announce(): Promise<void> {
    this.#isAnnounced = true
    await this.#kernel.worker.tell().catch(() => undefined)
  }
}
