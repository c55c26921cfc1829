// Artifacts of build tools: bytes under a key, streamed in and out in bounded memory. An artifact is visible once all of
// it is written, read back and verified against the promised digest; an interrupted upload leaves nothing. A damaged
// artifact is a miss and is removed, so that it can be uploaded again.

import { createHash } from 'node:crypto'
import type { Content } from '../../core/checkpoint/manifest.ts'
import type { TimelineId } from '../../core/coordinate.ts'
import { isReprise, isSignal, RepriseError } from '../../core/errors.ts'
import type { ManifestRecord } from '../../core/store/ports.ts'
import type { Host } from '../../engine/host/host.ts'
import { ChunkHold } from '../../engine/storage/chunk-hold.ts'
import type { Kernel } from '../../engine/storage/kernel.ts'
import { type CacheKeep, forgetEntry, Pruner } from '../../engine/tools/cache/retention.ts'
import { Uses, usedAttribute } from '../../engine/tools/cache/uses.ts'
import { StateTimeline } from '../../engine/writing/state-timeline.ts'
import {
  readStream,
  readValue,
  removeAllRotten,
  removeRotten,
  type StoredParts,
  writeValue,
} from '../../engine/writing/stored-value.ts'
import { artifactCache, artifactKind, foldVersion } from './model.ts'
import { type ArtifactPlace, checkPlace } from './place.ts'

/** The client's description of an artifact. */
export interface About {
  readonly type: string
  /** The uploader: the name of a token. */
  readonly by: string
  /** How long the task that produced it took. */
  readonly tookMs?: number
  /** The client's signature, returned unchanged. */
  readonly tag?: string
}

export interface ArtifactMeta extends About {
  readonly size: number
  /** The digest of all its bytes, in hexadecimal. */
  readonly sha256: string
  readonly at: number
}

export interface Artifact {
  readonly timeline: TimelineId
  readonly meta: ArtifactMeta
  read(): AsyncGenerator<Uint8Array>
}

export interface Upload {
  readonly about: About
  /** The bytes must have this digest. */
  readonly sha256?: string
  /** Reject with EXISTS if the artifact exists. */
  readonly isNew?: boolean
  /** A larger upload is rejected with LIMIT_EXCEEDED. */
  readonly bytesMax: number
  readonly signal?: AbortSignal
}

/** How long to wait for another process that publishes the same key at the same time. */
const takeWait = '10s'
/** Uploads up to this size are kept in memory, to write them again if a damaged chunk is found. */
const heldBytes = 1024 * 1024
const attemptsMax = 20
const damage = ['CHUNK_MISSING', 'CHUNK_DAMAGED', 'CHECKPOINT_DAMAGED', 'MALFORMED', 'UNRECOVERABLE'] as const

export class Artifacts {
  readonly #host: Host
  /**
   * The current or last publication in this process by timeline: a process that takes a timeline twice would fence
   * itself.
   */
  readonly #publishing = new Map<TimelineId, Promise<unknown>>()
  readonly #uses: Uses
  readonly #pruner: Pruner

  constructor(host: Host, keep: CacheKeep = {}) {
    this.#host = host
    this.#uses = new Uses(host)
    this.#pruner = new Pruner(host, artifactCache, undefined, keep)
    host.declare(artifactKind)
  }

  /** Verifies all bytes before it resolves. Null if there is no artifact in this place. */
  async get(place: ArtifactPlace): Promise<Artifact | null> {
    const timeline = checkPlace(place)
    const record = await this.#newest(timeline)
    if (!record) return null
    try {
      const { value, stream } = await readValue(this.#kernel, record)
      this.#uses.note(timeline)
      return { timeline, meta: value as ArtifactMeta, read: () => readStream(this.#kernel, stream as Content) }
    } catch (error) {
      if (!isReprise(error, ...damage)) throw error
      await this.#drop(timeline, record, error)
      return null
    }
  }

  /** The metadata, without reading the bytes. */
  async about(place: ArtifactPlace): Promise<ArtifactMeta | null> {
    const timeline = checkPlace(place)
    const record = await this.#newest(timeline)
    if (!record) return null
    try {
      const { value } = await readValue(this.#kernel, record, { unverified: true })
      return value as ArtifactMeta
    } catch (error) {
      if (!isReprise(error, ...damage)) throw error
      await this.#drop(timeline, record, error)
      return null
    }
  }

  /** Replaces an existing artifact in one commit. The same bytes again change nothing. */
  async put(place: ArtifactPlace, body: AsyncIterable<Uint8Array>, upload: Upload): Promise<ArtifactMeta> {
    const timeline = checkPlace(place)
    const counted = new Counted(body, upload)
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#put(place, timeline, counted, upload)
      } catch (error) {
        if (!isSignal(error, 'SWEPT') && !isReprise(error, 'CHUNK_DAMAGED', 'CHUNK_MISSING')) throw error
        // A chunk shared with another artifact is damaged: it is removed, so that the upload stores a healthy copy.
        await removeRotten(this.#kernel, error)
        if (counted.isHeld && attempt < attemptsMax) continue
        // A larger upload is not kept in memory, so the client must send it again; by then, the damaged chunk has been removed.
        throw new RepriseError('CONTENDED', `${timeline} could not be stored: send it again`, {}, error)
      }
    }
  }

  /** Returns false if there is none, or it is being written. */
  remove(place: ArtifactPlace): Promise<boolean> {
    return forgetEntry(this.#host, checkPlace(place))
  }

  async close(): Promise<void> {
    await Promise.all([this.#uses.flush(), this.#pruner.settled()])
  }

  get #kernel(): Kernel {
    return this.#host.kernel
  }

  async #newest(timeline: TimelineId): Promise<ManifestRecord | null> {
    const records = await this.#kernel.store.checkpoints(timeline)
    return records.find(({ invalid, foldVersion: by }) => invalid === null && by === foldVersion) ?? null
  }

  async #put(place: ArtifactPlace, timeline: TimelineId, body: Counted, upload: Upload): Promise<ArtifactMeta> {
    const hold = await ChunkHold.begin(this.#kernel)
    try {
      let meta: ArtifactMeta | null = null
      const value = () => {
        meta = { ...upload.about, ...body.end(), at: this.#kernel.clock.now() }
        return meta
      }
      const written = await writeValue(this.#kernel, hold, body, value, { signal: upload.signal })
      return await this.#inTurn(timeline, () => this.#publish(place, timeline, written, meta!, upload))
    } finally {
      hold.end()
    }
  }

  /** Publishes one at a time in this process, and retries if another process took the timeline. */
  async #inTurn<T>(timeline: TimelineId, publish: () => Promise<T>): Promise<T> {
    const before = this.#publishing.get(timeline)
    const mine = (async () => {
      await before?.catch(() => undefined)
      for (let attempt = 1; ; attempt++) {
        try {
          return await publish()
        } catch (error) {
          if (!isReprise(error, 'FENCED', 'OWNED') || attempt === attemptsMax) throw error
        }
      }
    })()
    this.#publishing.set(timeline, mine)
    try {
      return await mine
    } finally {
      if (this.#publishing.get(timeline) === mine) this.#publishing.delete(timeline)
    }
  }

  async #publish(
    place: ArtifactPlace,
    timeline: TimelineId,
    written: StoredParts,
    meta: ArtifactMeta,
    { isNew = false }: Upload,
  ): Promise<ArtifactMeta> {
    const taken = await StateTimeline.take(this.#kernel, timeline, { wait: takeWait })
    try {
      const there = taken.head.seq === 0 ? null : await this.about(place)
      if (there && isNew) throw new RepriseError('EXISTS', `the artifact ${place.key} already exists`, {})
      if (there && there.sha256 === meta.sha256 && there.tag === meta.tag) return there
      await taken.publish({
        entry: { type: 'uploaded', data: { bytes: meta.size, by: meta.by } },
        ...written,
        foldVersion,
        baseId: null,
        trigger: 'artifact',
        extras: { attributes: { [usedAttribute]: meta.at } },
      })
      if (taken.head.seq > 1) await taken.retain({ checkpoints: 1, history: 'needed' }, foldVersion)
      this.#pruner.stored()
      return meta
    } finally {
      await taken.release()
    }
  }

  /** A damaged artifact is useless, and its damaged chunks would block healthy copies of themselves. */
  async #drop(timeline: TimelineId, record: ManifestRecord, error: RepriseError): Promise<void> {
    const { events } = this.#kernel
    events.emit('checkpoint-damaged', { timeline, id: record.id, reason: error.message })
    try {
      await removeAllRotten(this.#kernel, record)
      if ((await this.#newest(timeline))?.id === record.id) await forgetEntry(this.#host, timeline)
    } catch (problem) {
      events.emit('problem', { where: timeline, error: problem })
    }
  }
}

/** Counts and digests the bytes as they pass. Keeps a small body in memory, so that it can be read again. */
class Counted implements AsyncIterable<Uint8Array> {
  readonly #body: AsyncIterable<Uint8Array>
  readonly #upload: Upload
  readonly #hash = createHash('sha256')
  #held: Uint8Array[] | null = []
  #size = 0
  #sha256: string | null = null

  constructor(body: AsyncIterable<Uint8Array>, upload: Upload) {
    this.#body = body
    this.#upload = upload
  }

  get isHeld(): boolean {
    return this.#held !== null && this.#sha256 !== null
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array> {
    if (this.#sha256 !== null) {
      yield* this.#held ?? []
      return
    }
    const { bytesMax } = this.#upload
    for await (const piece of this.#body) {
      this.#size += piece.length
      if (this.#size > bytesMax) {
        const what = `an artifact must have at most ${bytesMax} bytes`
        throw new RepriseError('LIMIT_EXCEEDED', what, { limit: 'artifactBytes', max: bytesMax })
      }
      this.#hash.update(piece)
      if (this.#size > heldBytes) this.#held = null
      this.#held?.push(piece)
      yield piece
    }
  }

  end(): { readonly size: number; readonly sha256: string } {
    this.#sha256 ??= this.#hash.digest('hex')
    const { sha256: wanted = this.#sha256 } = this.#upload
    if (wanted !== this.#sha256) {
      const what = `the body has the digest ${this.#sha256}, and ${wanted} was promised`
      throw new RepriseError('INVALID_ARGUMENT', what, {})
    }
    return { size: this.#size, sha256: this.#sha256 }
  }
}
