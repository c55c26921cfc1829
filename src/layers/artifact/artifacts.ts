// Artifacts of build tools: bytes under a key, streamed in and out in bounded memory. One is visible when all of it is
// written, read back and of the digest that was promised; an upload that ends early leaves nothing. What is damaged is a
// miss, and is taken away, so that the same artifact can come again.

import { createHash } from 'node:crypto'
import type { Content } from '../../core/checkpoint/manifest.ts'
import type { TimelineId } from '../../core/coordinate.ts'
import { isReprise, RepriseError } from '../../core/errors.ts'
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

/** What a client says of it. */
export interface About {
  readonly type: string
  /** Who put it: the name of a token. */
  readonly by: string
  /** How long the task took that made it. */
  readonly tookMs?: number
  /** A signature of the client's, given back as it came. */
  readonly tag?: string
}

export interface ArtifactMeta extends About {
  readonly size: number
  /** Of all of its bytes, in hexadecimal. */
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
  /** Its bytes must have this digest. */
  readonly sha256?: string
  /** EXISTS if there is one. */
  readonly isNew?: boolean
  /** LIMIT_EXCEEDED beyond. */
  readonly bytesMax: number
  readonly signal?: AbortSignal
}

/** Whoever publishes the same key at the same moment is waited for as long. */
const takeWait = '10s'
/** So much of an upload is held in memory, to write it again where a damaged chunk stood in the way. */
const heldBytes = 1024 * 1024
const attemptsMax = 20
const damage = ['CHUNK_MISSING', 'CHUNK_DAMAGED', 'CHECKPOINT_DAMAGED', 'MALFORMED', 'UNRECOVERABLE'] as const

export class Artifacts {
  readonly #host: Host
  /** Who publishes in this process now, or did last: whoever takes a timeline twice takes it from itself. */
  readonly #publishing = new Map<TimelineId, Promise<unknown>>()
  readonly #uses: Uses
  readonly #pruner: Pruner

  constructor(host: Host, keep: CacheKeep = {}) {
    this.#host = host
    this.#uses = new Uses(host)
    this.#pruner = new Pruner(host, artifactCache, undefined, keep)
    host.declare(artifactKind)
  }

  /** All of it was read and is whole when this resolves; null: there is none in this place. */
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

  /** What is known of it, without a look at its bytes. */
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

  /** Replaces what is there, in one commit. The same bytes again change nothing. */
  async put(place: ArtifactPlace, body: AsyncIterable<Uint8Array>, upload: Upload): Promise<ArtifactMeta> {
    const timeline = checkPlace(place)
    const counted = new Counted(body, upload)
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#put(place, timeline, counted, upload)
      } catch (error) {
        if (!isReprise(error, 'SWEPT', 'CHUNK_DAMAGED', 'CHUNK_MISSING')) throw error
        // A chunk that another artifact shares was damaged: it goes, and the healthy one comes.
        await removeRotten(this.#kernel, error)
        if (counted.isHeld && attempt < attemptsMax) continue
        // Whoever sent more than is held here sends it again, and then nothing stands in the way.
        throw new RepriseError('CONTENDED', `${timeline} could not be kept this time: send it again`, {}, error)
      }
    }
  }

  /** False: there was none, or it is written at this moment. */
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

  /** One after the other here; a process that took it over meanwhile is waited for. */
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
      if (there && isNew) throw new RepriseError('EXISTS', `there is an artifact ${place.key} already`, {})
      if (there && there.sha256 === meta.sha256 && there.tag === meta.tag) return there
      await taken.publish({
        entry: { type: 'uploaded', data: { bytes: meta.size, by: meta.by } },
        ...written,
        foldVersion,
        baseId: null,
        trigger: 'artifact',
        along: { attributes: { [usedAttribute]: meta.at } },
      })
      if (taken.head.seq > 1) await taken.retain({ checkpoints: 1, history: 'needed' }, foldVersion)
      this.#pruner.stored()
      return meta
    } finally {
      await taken.release()
    }
  }

  /** It serves nobody, and its damaged chunks stand in the way of their own healthy copies. */
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

/** The bytes as they pass: how many, and their digest. Few of them are held, so that they can pass once more. */
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
