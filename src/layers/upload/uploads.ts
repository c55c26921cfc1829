// The uploads of one definition in one process: the active writers, and all operations. A request for an upload that is being
// written stops its writer, which makes the received bytes durable and releases the timeline. A writer in another process, or
// one that does not react, is fenced by the next epoch.

import { createHash } from 'node:crypto'
import { equalBytes, type TimelineId, timelineId, toHex } from '../../core/coordinate.ts'
import { isReprise, RepriseError } from '../../core/errors.ts'
import type { Host } from '../../engine/host/host.ts'
import type { Kernel } from '../../engine/storage/kernel.ts'
import { StateTimeline } from '../../engine/writing/state-timeline.ts'
import { within } from '../../lib/waiting.ts'
import { ReprDigests } from './repr-digest.ts'
import { type ChecksumAlgorithm, isUploadId } from './rules/headers.ts'
import {
  isWhole,
  type Refusal,
  refuseAppend,
  refuseGone,
  tooLarge,
  type UploadEvent,
  type UploadState,
} from './rules/state.ts'
import { loadUpload, type StoredUpload } from './stored-upload.ts'
import { type Sharing, UploadWriter } from './writer.ts'

export interface UploadSettings {
  readonly name: string
  readonly bytesMax: number
  /** Null: never. */
  readonly expiresMs: number | null
  readonly hasHandler: boolean
  /** Bytes between two steps. Bytes received after the last durable step are lost when the process is killed. */
  readonly stepBytes?: number
}

export interface NewUpload {
  readonly length: number | null
  readonly metadata: Readonly<Record<string, string>>
  readonly metadataHeader: string | null
  readonly isPart: boolean
  readonly by: string | null
}

/** Bytes being received. */
export interface Incoming {
  readonly pieces: AsyncIterable<Uint8Array>
  /** Announced number of bytes. */
  readonly bytes: number | null
  /** The total length, if sent now. */
  readonly length: number | null
  readonly checksum: { readonly algorithm: ChecksumAlgorithm; readonly digest: Uint8Array } | null
}

const defaultStepBytes = 8 * 1024 * 1024
const stepMs = 1000
/** Time for a writer to stop before it is fenced. */
const stopMs = 5000
const newIdBytes = 20

interface Active {
  readonly stop: AbortController
  readonly over: Promise<unknown>
}

export class Uploads {
  readonly settings: UploadSettings
  readonly kernel: Kernel
  readonly sharing: Sharing = { writers: 0 }
  readonly digests = new ReprDigests()
  readonly #active = new Map<TimelineId, Active>()

  constructor(host: Host, settings: UploadSettings) {
    this.kernel = host.kernel
    this.settings = settings
    host.onClose(() => this.stopAll())
  }

  /** NOT_FOUND for an invalid id. */
  timelineOf(id: string): TimelineId {
    if (!isUploadId(id)) throw missing()
    return timelineId(`upload/${this.settings.name}/${id}`)
  }

  /** By the clock of the database that holds this upload: its expiry is set by that clock. */
  nowOf(id: string): number {
    return this.kernel.worker.now(this.timelineOf(id))
  }

  /** The durable state, even while it is being written. */
  async find(id: string): Promise<StoredUpload> {
    const stored = await loadUpload(this.kernel, this.timelineOf(id))
    if (!stored) throw missing()
    return stored
  }

  /** Creates an upload, with its first bytes if the request has any. */
  async create(
    newUpload: NewUpload,
    incoming: Incoming | null,
  ): Promise<{ readonly id: string; readonly state: UploadState }> {
    const { bytesMax } = this.settings
    if ((newUpload.length ?? 0) > bytesMax) throw refused(tooLarge(bytesMax))
    const id = toHex(this.kernel.random.bytes(newIdBytes))
    const timeline = this.timelineOf(id)
    const event = this.#createdEvent(timeline, newUpload, newUpload.isPart ? 'part' : 'whole', [])
    const made = await this.#writing(
      timeline,
      () => UploadWriter.create(this.kernel, timeline, this.sharing),
      (writer, stop) => this.#receive(writer, incoming ?? nothing(), stop, event),
    )
    return { id, state: made }
  }

  /** Creates an upload from complete parts, in this order. */
  async concat(newUpload: Omit<NewUpload, 'length' | 'isPart'>, ids: readonly string[]) {
    const parts: StoredUpload[] = []
    for (const id of ids) parts.push(await this.find(id))
    for (const [i, { state }] of parts.entries()) {
      const gone = refuseGone(state, this.nowOf(ids[i]!))
      if (gone) throw refused(gone)
      if (state.status === 'part') continue
      throw new RepriseError('INVALID_ARGUMENT', 'Upload-Concat must name complete parts', {})
    }
    const length = parts.reduce((sum, { state }) => sum + state.offset, 0)
    if (length > this.settings.bytesMax) throw refused(tooLarge(this.settings.bytesMax))
    const id = toHex(this.kernel.random.bytes(newIdBytes))
    const timeline = this.timelineOf(id)
    const event = this.#createdEvent(timeline, { ...newUpload, length, isPart: false }, 'final', ids)
    const make = () => UploadWriter.create(this.kernel, timeline, this.sharing)
    const state = await this.#writing(timeline, make, async (writer) => {
      const reused = await writer.join(parts)
      const events: UploadEvent[] = [event, this.#receivedEvent(writer, length), this.#filledEvent(writer)]
      await writer.step({ events, type: 'created', reused, release: true })
      return writer.state
    })
    return { id, state }
  }

  /** Appends bytes under a new epoch. The received bytes of a truncated body are kept. */
  async append(id: string, from: number, incoming: Incoming): Promise<UploadState> {
    const timeline = this.timelineOf(id)
    await this.#stop(timeline)
    return await this.#writing(
      timeline,
      () => this.#take(timeline),
      async (writer, stop) => {
        const { bytes, length } = incoming
        const { bytesMax } = this.settings
        const refusal = refuseAppend(writer.state, { from, length, bytes }, this.nowOf(id), bytesMax)
        if (refusal && !this.kernel.planted.has('upload-any-offset')) throw refused(refusal)
        // A repeated request for bytes that are already durable: nothing is left to do.
        if (isWhole(writer.state)) return writer.state
        return await this.#receive(writer, incoming, stop, null)
      },
    )
  }

  /** Stops the writer and returns the durable state: the client continues from there. */
  async rest(id: string): Promise<UploadState> {
    const timeline = this.timelineOf(id)
    await this.#stop(timeline)
    const [head] = await this.kernel.store.head([timeline])
    if (head?.owner && head.status === 'receiving') {
      const taken = await StateTimeline.take(this.kernel, timeline, { takeover: true, mustExist: true })
      await taken.release()
    }
    return (await this.find(id)).state
  }

  /** Ends the upload and drops its bytes. */
  async end(id: string, by: 'terminated' | 'expired'): Promise<void> {
    const timeline = this.timelineOf(id)
    await this.#stop(timeline)
    await this.#writing(
      timeline,
      () => this.#take(timeline),
      async (writer) => {
        const gone = writer.state.status === 'removed' ? refuseGone(writer.state, this.nowOf(id)) : null
        if (gone) throw refused(gone)
        await writer.step({ events: [{ type: 'ended', by }], data: { by }, release: true, forgetsBytes: true })
      },
    )
  }

  async stopAll(): Promise<void> {
    await Promise.all([...this.#active.keys()].map((timeline) => this.#stop(timeline)))
  }

  async #take(timeline: TimelineId): Promise<UploadWriter> {
    try {
      const writer = await UploadWriter.take(this.kernel, timeline, this.sharing)
      if (writer) return writer
    } catch (error) {
      if (!isReprise(error, 'NOT_FOUND')) throw error
    }
    throw missing()
  }

  /** Writes as the only writer of this process, and releases the timeline in any case. */
  async #writing<T>(
    timeline: TimelineId,
    open: () => Promise<UploadWriter>,
    write: (writer: UploadWriter, stop: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const stop = new AbortController()
    const work = (async () => {
      const writer = await open()
      try {
        return await write(writer, stop.signal)
      } finally {
        await writer.close()
      }
    })()
    const active: Active = { stop, over: work.catch(() => undefined) }
    this.#active.set(timeline, active)
    try {
      return await work
    } finally {
      if (this.#active.get(timeline) === active) this.#active.delete(timeline)
    }
  }

  async #stop(timeline: TimelineId): Promise<void> {
    const active = this.#active.get(timeline)
    if (!active) return
    active.stop.abort()
    await within(this.kernel.clock, stopMs, active.over)
  }

  /** `first`: the event of the first step, which creates the upload. */
  async #receive(
    writer: UploadWriter,
    { pieces, length: lengthNow, checksum }: Incoming,
    stop: AbortSignal,
    first: UploadEvent | null,
  ): Promise<UploadState> {
    const { clock, planted } = this.kernel
    const length = (first?.type === 'created' ? first.length : writer.state.length) ?? lengthNow
    const { stepBytes = defaultStepBytes, bytesMax } = this.settings
    const bound = length ?? bytesMax
    const hash = checksum && createHash(checksum.algorithm)
    let made = first
    let steppedAt = { bytes: writer.arrived, ms: clock.elapsed() }
    const events = () => {
      const all = [...(made ? [made] : []), this.#receivedEvent(writer, length)]
      made = null
      return all
    }
    const typeOf = () => (made ? { type: 'created' } : {})
    try {
      for await (const piece of until(pieces, stop)) {
        if (writer.arrived + piece.length > bound) throw refused(tooLarge(bound))
        hash?.update(piece)
        await writer.append(piece)
        if (hash && !planted.has('upload-unchecked')) continue
        const { bytes, ms } = steppedAt
        if (writer.arrived - bytes < stepBytes && clock.elapsed() - ms < stepMs) continue
        await writer.begin({ ...typeOf(), events: events() })
        steppedAt = { bytes: writer.arrived, ms: clock.elapsed() }
      }
    } catch (error) {
      // The client disconnected or stalled, or another request took over: received bytes are kept, unless a checksum covers
      // only the whole request.
      if (isReprise(error, 'ABORTED', 'TIMEOUT') && !hash && !(made && writer.arrived === 0)) {
        await writer.step({ ...typeOf(), events: events(), release: true })
      }
      // Clients then read the offset again, as after a takeover by another process.
      if (stop.aborted && isReprise(error, 'ABORTED')) {
        throw new RepriseError('FENCED', 'another request took this upload over: read its offset', {}, error)
      }
      throw error
    }
    if (hash && !equalBytes(hash.digest(), checksum.digest)) {
      throw new RepriseError('CHECKSUM_MISMATCH', `the bytes do not match the ${checksum.algorithm} checksum`, {})
    }
    const isFilled = length !== null && writer.arrived === length
    const type = made ? 'created' : isFilled ? 'filled' : 'received'
    const all = [...events(), ...(isFilled ? [this.#filledEvent(writer)] : [])]
    if (planted.has('upload-lazy-step') && !isFilled && type === 'received') {
      return { ...writer.state, offset: writer.arrived }
    }
    await writer.step({ events: all, type, release: true })
    return writer.state
  }

  #createdEvent(
    timeline: TimelineId,
    newUpload: NewUpload,
    concat: UploadState['concat'],
    parts: readonly string[],
  ): UploadEvent {
    const { length, metadata, metadataHeader, by } = newUpload
    const at = this.kernel.worker.now(timeline)
    return { type: 'created', length, metadata, metadataHeader, concat, parts, by, at, expiresAt: this.#expiresAt(at) }
  }

  #receivedEvent(writer: UploadWriter, length: number | null): UploadEvent {
    const expiresAt = this.#expiresAt(this.kernel.worker.now(writer.timeline))
    return { type: 'received', offset: writer.arrived, length, expiresAt }
  }

  #filledEvent(writer: UploadWriter): UploadEvent {
    return { type: 'filled', etag: writer.etag(), hasHandler: this.settings.hasHandler }
  }

  #expiresAt(now: number): number | null {
    return this.settings.expiresMs === null ? null : now + this.settings.expiresMs
  }
}

function nothing(): Incoming {
  return { pieces: (async function* () {})(), bytes: 0, length: null, checksum: null }
}

/** Yields pieces until the end, or throws ABORTED on `stop`. */
async function* until(pieces: AsyncIterable<Uint8Array>, stop: AbortSignal): AsyncGenerator<Uint8Array> {
  const iterator = pieces[Symbol.asyncIterator]()
  const stopped = new Promise<never>((_, reject) => {
    const end = () => reject(new RepriseError('ABORTED', 'another request took this upload over', {}))
    if (stop.aborted) end()
    else stop.addEventListener('abort', end, { once: true })
  })
  stopped.catch(() => undefined)
  try {
    for (;;) {
      const step = await Promise.race([iterator.next(), stopped])
      if (step.done) return
      yield step.value
    }
  } finally {
    void iterator.return?.(undefined)?.catch?.(() => undefined)
  }
}

export function refused({ code, what }: Refusal): RepriseError {
  return new RepriseError(code, what, {})
}

function missing(): RepriseError {
  return new RepriseError('NOT_FOUND', 'there is no such upload', {})
}
