// Checkpoints of a paged table: the changes since the last one, page by page, published with the coordinate at which they
// were frozen. The rows switch to the new pages only after it is published. If the last checkpoint is no longer in the
// catalog, its pages are not retained, and all pages are rewritten.

import { encodeManifest } from '../../core/checkpoint/manifest.ts'
import type { RetentionPolicy } from '../../core/checkpoint/retention.ts'
import { type ManifestId, toHex } from '../../core/coordinate.ts'
import { isSignal } from '../../core/errors.ts'
import type { ManifestRecord } from '../../core/store/ports.ts'
import type { CheckpointRequest, PublishedCheckpoint } from '../../engine/checkpoint/checkpointer.ts'
import { retain } from '../../engine/checkpoint/retain.ts'
import { abandonCapture, captureState, writeCapture } from '../../engine/snapshot/capture.ts'
import { ChunkOutput } from '../../engine/snapshot/chunk-output.ts'
import { stateIo } from '../../engine/snapshot/kernel-io.ts'
import { verifyChunks } from '../../engine/snapshot/restore.ts'
import { ChunkHold } from '../../engine/storage/chunk-hold.ts'
import { type Kernel, newId } from '../../engine/storage/kernel.ts'
import { writeRows } from './page-writer.ts'
import type { OpenedPaged } from './paged-open.ts'

export class PagedCheckpointer<V> {
  readonly #kernel: Kernel
  readonly #opened: OpenedPaged<V>
  readonly #changedRows: number
  readonly #policy: RetentionPolicy
  readonly #version: string
  #base: OpenedPaged<V>['base']
  #underWay: Promise<unknown> | null = null
  #failuresInARow = 0
  /** Duration for which the last checkpoint blocked writers, while the rows were frozen. */
  #stallMs = 0

  /** `version`: of the fold. */
  constructor(kernel: Kernel, opened: OpenedPaged<V>, changedRows: number, policy: RetentionPolicy, version: string) {
    this.#version = version
    this.#kernel = kernel
    this.#opened = opened
    this.#base = opened.base
    this.#changedRows = changedRows
    this.#policy = policy
  }

  /** The checkpoint that the rows are based on. */
  get baseId(): ManifestId | null {
    return (this.#base?.id ?? null) as ManifestId | null
  }

  /** Resolves with the end of the checkpoint in progress, if any; never rejects. */
  async settled(): Promise<void> {
    await this.#underWay
  }

  /** Makes one checkpoint at a time. */
  async now(request: CheckpointRequest = {}): Promise<PublishedCheckpoint> {
    while (this.#underWay) await this.#underWay
    const made = this.#make(request)
    this.#underWay = made.then(
      () => {
        this.#underWay = null
        this.#failuresInARow = 0
      },
      () => {
        this.#underWay = null
        this.#failuresInARow += 1
      },
    )
    return await made
  }

  /** Begins a checkpoint if enough rows changed; resolves at once unless memory is full of changes. */
  async afterWrite(): Promise<void> {
    const { rows } = this.#opened
    if (rows.recent.size >= this.#changedRows && !this.#underWay) this.#begin()
    // Memory is bounded: a writer that is faster than the checkpoint waits here.
    if (rows.stats.changedRows > 4 * this.#changedRows) await this.#underWay
  }

  /** Rewrites rows of an older version in the background, so that the next opening need not migrate them again. */
  settleMigration(): void {
    if (this.#opened.rows.isMigrating && !this.#underWay) this.#begin()
  }

  #begin(): void {
    void this.now().catch((error) => {
      const { id: timeline } = this.#opened.open
      this.#kernel.events.emit('checkpoint-failed', { timeline, error, failuresInARow: this.#failuresInARow + 1 })
    })
  }

  async #make(request: CheckpointRequest): Promise<PublishedCheckpoint> {
    const { open } = this.#opened
    const { clock } = this.#kernel
    const startedAt = clock.elapsed()
    this.#stallMs = 0
    const record = await this.#recordOf(request)
    return {
      id: record.id,
      coordinate: { timeline: open.id, seq: record.seq, epoch: record.epoch, digest: toHex(record.digest) },
      totalBytes: record.totalBytes,
      addedBytes: record.addedBytes,
      ms: clock.elapsed() - startedAt,
      longestStallMs: this.#stallMs,
      kind: record.baseId === null ? 'full' : 'incremental',
    }
  }

  async #recordOf(request: CheckpointRequest): Promise<ManifestRecord> {
    const { open } = this.#opened
    const base = (await this.#kernel.store.checkpoints(open.id)).find(({ id }) => id === this.baseId)
    // No entries since the base: it is the current checkpoint. A second one of the same sequence would be redundant, and
    // retention, which keeps one of them, might keep the wrong one.
    const { isMigrating } = this.#opened.rows
    if (base?.invalid === null && base.seq === open.coordinate.seq && !isMigrating && !request.full) {
      const { pin, label } = request
      if (pin || label !== undefined)
        await open.mark({ id: base.id, ...(pin && { isPinned: true }), ...(label !== undefined && { label }) })
      return base
    }
    try {
      // Pages of an older version are all rewritten: all rows of a checkpoint have one version.
      return await this.#attempt(
        isMigrating || (this.#base !== null && base === undefined) || request.full === true,
        request,
      )
    } catch (error) {
      if (!isSignal(error, 'BASE_GONE', 'SWEPT')) throw error
      return await this.#attempt(true, request)
    }
  }

  /** `isFull`: reuses no earlier pages. */
  async #attempt(isFull: boolean, request: CheckpointRequest): Promise<ManifestRecord> {
    const hold = await ChunkHold.begin(this.#kernel)
    try {
      return await this.#attemptUnder(hold, isFull, request)
    } finally {
      hold.end()
    }
  }

  async #attemptUnder(hold: ChunkHold, isFull: boolean, request: CheckpointRequest): Promise<ManifestRecord> {
    const { open, rows } = this.#opened
    if (isFull) this.#base = null
    const io = stateIo(this.#kernel, hold)
    // Frozen synchronously with the coordinate: no entry can be applied in between.
    const frozenAt = this.#kernel.clock.elapsed()
    const { coordinate, digest } = open
    const frozen = rows.freeze()
    const { expiry, pending, offsets } = open.state
    const others = { 'value.expiry': expiry, 'value.pending': pending, 'value.offsets': offsets }
    const capture = captureState({ shape: 'object', value: {}, ...others }, this.#base?.capture ?? null, io)
    this.#stallMs = this.#kernel.clock.elapsed() - frozenAt
    try {
      const rest = await writeCapture(capture, io)
      const output = new ChunkOutput(io)
      const written = await writeRows(rows, frozen, output, this.#changedRows, isFull)
      await output.finish()
      const parts = [...rest.parts, written.part]
      const added = [...rest.addedChunks, ...output.added]
      await verifyChunks({ parts }, io, added)
      const body = encodeManifest({ ...coordinate, digest, foldVersion: this.#version, parts })
      const now = this.#kernel.worker.now()
      const record: ManifestRecord = {
        ...{ id: newId(this.#kernel.random) as ManifestId, seq: coordinate.seq, epoch: coordinate.epoch, digest },
        ...{ body, bodyDigest: this.#kernel.hash(body), baseId: this.baseId },
        ...{ createdAt: now, trigger: request.trigger ?? 'pages', foldVersion: this.#version },
        ...{ label: request.label ?? null, isPinned: request.pin ?? false },
        totalBytes: rest.totalBytes + written.bytes,
        addedBytes: rest.addedBytes + output.addedBytes,
        ...{ verifiedAt: now, invalid: null, drilledAt: null, drill: null },
      }
      await hold.publish(added, (chunksSince) => open.publish({ ...record, chunksSince }))
      written.settle()
      this.#base = { id: record.id, capture: rest.base }
      const [head] = await this.#kernel.store.head([open.id])
      if (head?.epoch === open.epoch) await retain(this.#kernel, head, this.#policy, this.#version)
      return record
    } catch (error) {
      abandonCapture(capture)
      if (rows.frozen) rows.thaw()
      throw error
    }
  }
}
