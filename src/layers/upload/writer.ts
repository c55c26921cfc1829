// The only writer of an upload: it took over the timeline under a new epoch, so pending writes of an earlier one are refused.
// Bytes become chunks as they arrive; a step makes the received bytes durable and visible, in one commit with the state that
// counts them. Further bytes are received while a step is in progress.

import { type TimelineId, toHex } from '../../core/coordinate.ts'
import { isReprise } from '../../core/errors.ts'
import type { ManifestRecord } from '../../core/store/ports.ts'
import { ChunkOutput, writeContent } from '../../engine/snapshot/chunk-output.ts'
import { stateIo } from '../../engine/snapshot/kernel-io.ts'
import { ChunkHold } from '../../engine/storage/chunk-hold.ts'
import { type Kernel, submit } from '../../engine/storage/kernel.ts'
import { GrowingStream, noCut, StreamReader } from '../../engine/writing/growing-stream.ts'
import { type Publication, StateTimeline } from '../../engine/writing/state-timeline.ts'
import type { CommitExtras } from '../../engine/writing/writer.ts'
import { applyUpload, type UploadEvent, type UploadState } from './rules/state.ts'
import { foldVersion, resumeUpload, type StoredUpload } from './stored-upload.ts'
import { headOf, queueOf, retention } from './upload-head.ts'

/** Checkpoints accumulate to this number before unneeded ones are removed. */
const recordsMax = 8
const putBytesMax = 4 * 1024 * 1024
const putBytesMin = 256 * 1024
/** Total bytes that the uploads of a process may buffer on their way into the store. */
const sharedPutBytes = 64 * 1024 * 1024

export interface Step {
  readonly events: readonly UploadEvent[]
  /** Type of the entry. Default: that of the last event. */
  readonly type?: string
  /** Data of the entry, in addition to that of every step. */
  readonly data?: Readonly<Record<string, unknown>>
  readonly extras?: CommitExtras
  readonly reused?: Publication['reusedChunks']
  /** Releases the timeline afterwards. */
  readonly release?: boolean
  /** Removes all earlier checkpoints in this commit: their bytes are no longer needed. */
  readonly forgetsBytes?: boolean
}

/** The writers of this process, which share the buffer limit. */
export interface Sharing {
  writers: number
}

export class UploadWriter {
  readonly timeline: TimelineId
  readonly #kernel: Kernel
  readonly #taken: StateTimeline
  readonly #sharing: Sharing
  #stream: GrowingStream
  #state: UploadState | null
  #record: ManifestRecord | null
  #records: number
  #chunks: { readonly output: ChunkOutput; readonly hold: ChunkHold } | null = null
  #inFlight: Promise<void> = Promise.resolve()
  #isOver = false

  private constructor(
    kernel: Kernel,
    taken: StateTimeline,
    sharing: Sharing,
    start: { readonly stored: StoredUpload | null; readonly stream: GrowingStream; readonly records: number },
  ) {
    this.#kernel = kernel
    this.#taken = taken
    this.#sharing = sharing
    this.timeline = taken.id
    this.#stream = start.stream
    this.#state = start.stored?.state ?? null
    this.#record = start.stored?.record ?? null
    this.#records = start.records
    sharing.writers += 1
  }

  /** A new upload: its first step creates the timeline. */
  static async create(kernel: Kernel, timeline: TimelineId, sharing: Sharing): Promise<UploadWriter> {
    const taken = await StateTimeline.create(kernel, timeline)
    return new UploadWriter(kernel, taken, sharing, { stored: null, stream: GrowingStream.empty(), records: 0 })
  }

  /** Takes over from the current owner. Null: no such upload. */
  static async take(kernel: Kernel, timeline: TimelineId, sharing: Sharing): Promise<UploadWriter | null> {
    return await UploadWriter.#resume(
      kernel,
      await StateTimeline.take(kernel, timeline, { takeover: true, mustExist: true }),
      sharing,
    )
  }

  /** A claimed upload. */
  static async adopt(
    kernel: Kernel,
    head: Parameters<typeof StateTimeline.adopt>[1],
    sharing: Sharing,
  ): Promise<UploadWriter | null> {
    return await UploadWriter.#resume(kernel, StateTimeline.adopt(kernel, head), sharing)
  }

  static async #resume(kernel: Kernel, taken: StateTimeline, sharing: Sharing): Promise<UploadWriter | null> {
    const damaged: { readonly record: ManifestRecord; readonly why: string }[] = []
    try {
      const resumed = await resumeUpload(kernel, taken.id, (record, why) => damaged.push({ record, why }))
      if (!resumed) {
        await taken.release()
        return null
      }
      for (const { record, why } of damaged) await taken.mark({ id: record.id, invalid: why })
      const records = (await taken.records()).length
      return new UploadWriter(kernel, taken, sharing, { ...resumed, records })
    } catch (error) {
      await taken.release().catch(() => undefined)
      throw error
    }
  }

  /** The durable state. */
  get state(): UploadState {
    return this.#state!
  }

  /** Received bytes, durable or not. */
  get arrived(): number {
    return this.#stream.size
  }

  get id(): string {
    return this.timeline.slice(this.timeline.lastIndexOf('/') + 1)
  }

  async append(bytes: Uint8Array): Promise<void> {
    const { output } = await this.#output()
    await this.#stream.append(bytes, output)
  }

  /** Appends the bytes of other uploads by referencing their chunks, without reading them. Returns the referenced digests. */
  async join(others: readonly StoredUpload[]): Promise<Uint8Array[]> {
    const { output, hold } = await this.#output()
    const reused: Uint8Array[] = []
    for (const { parts } of others) {
      await this.#stream.cutHere(output)
      const reader = new StreamReader(parts, stateIo(this.#kernel))
      if (reader.count === 0) {
        for await (const piece of reader.read(0, reader.size)) await this.#stream.append(piece, output)
        continue
      }
      let batch: Uint8Array[] = []
      for await (const { ref, size } of reader.chunks()) {
        this.#stream.join(ref, size, output)
        batch.push(ref.digest)
        if (output.isPauseDue) await output.pause()
        if (batch.length < 1000) continue
        await hold.reuse(batch)
        reused.push(...batch)
        batch = []
      }
      await hold.reuse(batch)
      reused.push(...batch)
    }
    return reused
  }

  /** Etag of the received bytes: equal only for equal bytes that were chunked in the same way. */
  etag(): string {
    const io = stateIo(this.#kernel)
    const scratch = new ChunkOutput({ ...io, blobs: { ...io.blobs, put: async () => undefined } })
    const { root, size } = new StreamReader(this.#stream.snapshot(scratch).parts, io)
    return toHex(this.#kernel.hash(this.#kernel.codec.encode([size, root]))).slice(0, 40)
  }

  /** Begins to make the received bytes durable; when it resolves, the previous step is durable. */
  async begin(step: Step): Promise<void> {
    await this.#inFlight
    const { output, hold } = await this.#output()
    this.#chunks = null
    const state = step.events.reduce<UploadState | null>(
      (before, event) => applyUpload(before as UploadState, event),
      this.#state,
    )!
    if (step.forgetsBytes) this.#stream = GrowingStream.empty()
    const { parts, cut, storedBytes } = this.#stream.snapshot(output)
    this.#inFlight = this.#publish(
      step,
      state,
      { parts, cut: step.forgetsBytes ? noCut : cut, storedBytes },
      output,
      hold,
    )
    this.#inFlight.catch(() => undefined)
  }

  /** Resolves when all steps begun are durable. */
  async settle(): Promise<void> {
    await this.#inFlight
  }

  async step(step: Step): Promise<void> {
    await this.begin(step)
    await this.settle()
  }

  /**
   * Releases the timeline and drops bytes that are not durable. A refusal because another process has taken over is ignored.
   */
  async close(): Promise<void> {
    if (this.#isOver) return
    this.#isOver = true
    this.#sharing.writers -= 1
    this.#chunks?.hold.end()
    await this.#inFlight.catch(() => undefined)
    if (this.#record === null || this.#isReleased) return
    if (!this.#taken.broken) await this.#taken.release().catch(() => undefined)
    else if (!isReprise(this.#taken.broken, 'FENCED', 'NOT_FOUND')) await this.#release()
  }

  /** The outcome of the last commit is unknown; the release is submitted in any case. */
  async #release(): Promise<void> {
    const guard = { timeline: this.timeline, epoch: this.#taken.head.epoch }
    await submit(this.#kernel, { guard, release: true }).catch(() => undefined)
  }

  #isReleased = false

  /** A pinned savepoint keeps its bytes until it is released. */
  async #droppable(): Promise<ManifestRecord['id'][]> {
    return (await this.#taken.records()).filter(({ isPinned }) => !isPinned).map(({ id }) => id)
  }

  async #output(): Promise<{ readonly output: ChunkOutput; readonly hold: ChunkHold }> {
    if (this.#chunks) return this.#chunks
    const hold = await ChunkHold.begin(this.#kernel)
    const share = Math.floor(sharedPutBytes / this.#sharing.writers)
    const putBytes = Math.min(putBytesMax, Math.max(putBytesMin, share))
    this.#chunks = { hold, output: new ChunkOutput(stateIo(this.#kernel, hold), { inlineBytes: 2048, putBytes }) }
    return this.#chunks
  }

  async #publish(
    { events, type, data, extras, reused, release = false, forgetsBytes = false }: Step,
    state: UploadState,
    stream: ReturnType<GrowingStream['snapshot']>,
    output: ChunkOutput,
    hold: ChunkHold,
  ): Promise<void> {
    try {
      const stored = { ...state, cut: stream.cut }
      const plain = this.#kernel.codec.encode({ shape: 'value', value: stored })
      const main = await writeContent(plain, new Map(), output)
      await output.finish()
      const { attributes, wakeup, status } = headOf(state)
      const entryType = type ?? events.at(-1)!.type
      const before = forgetsBytes ? await this.#droppable() : []
      this.#record = await this.#taken.publish({
        entry: { type: entryType, data: { offset: state.offset, ...data } },
        parts: [{ kind: 'value', name: null, content: main.content }, ...stream.parts],
        foldVersion,
        totalBytes: stream.storedBytes + main.bytes,
        addedBytes: output.addedBytes,
        addedChunks: output.added,
        ...(reused && { reusedChunks: reused }),
        hold,
        baseId: forgetsBytes ? null : (this.#record?.id ?? null),
        trigger: 'upload',
        extras: {
          ...extras,
          ...{ status, attributes, queue: queueOf(this.timeline) },
          ...(extras?.wakeup === undefined && {
            wakeup: wakeup === 0 ? this.#kernel.worker.now(this.timeline) : wakeup,
          }),
          ...(before.length > 0 && { drop: before }),
          ...(release && { release: true }),
        },
      })
      this.#isReleased = release
      this.#state = stored
      this.#records = forgetsBytes ? 1 : this.#records + 1
    } finally {
      hold.end()
    }
    if (this.#records >= recordsMax || (release && this.#records > 2)) {
      await this.#taken.retain(retention, foldVersion)
      this.#records = 2
    }
  }
}
