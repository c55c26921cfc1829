// Reads saves: the newest intact one, any older one, and the differences between two of them. Every chunk is checked against
// its digest before it is used. Reading needs no ownership.

import type { ChunkRef } from '../../core/checkpoint/manifest.ts'
import { type ManifestId, type TimelineId, toHex } from '../../core/coordinate.ts'
import { isReprise, RepriseError } from '../../core/errors.ts'
import { type Validity, whyInvalid } from '../../core/history/validity.ts'
import type { ManifestRecord } from '../../core/store/ports.ts'
import { refuseThenable } from '../../core/synchronous.ts'
import { callPure } from '../../engine/base/guard/zone.ts'
import { readManifest } from '../../engine/history/recover.ts'
import { openedAs } from '../../engine/model/model.ts'
import { stateIo } from '../../engine/snapshot/kernel-io.ts'
import { ChunkInput } from '../../engine/snapshot/restore-input.ts'
import type { Kernel } from '../../engine/storage/kernel.ts'
import { readStream, readValue } from '../../engine/writing/stored-value.ts'
import { differences } from '../../lib/differences.ts'

/** One line of the list of saves. */
export interface SavedInfo {
  readonly id: string
  readonly seq: number
  readonly savedAt: Date
  readonly label: string | null
  readonly isPinned: boolean
  /** Total stored bytes, and the bytes that this save added. */
  readonly totalBytes: number
  readonly addedBytes: number
  /** The reason why it cannot be used; null if it can. */
  readonly damage: string | null
}

export interface Loaded<T> extends SavedInfo {
  readonly value: T
  /** The format it was written in, before upcasters. */
  readonly format: number
  readonly kind: 'value' | 'bytes'
  /** Bytes of a stream; 0 for a value. */
  readonly size: number
  /** The bytes of a stream, checked piece by piece. */
  stream(): AsyncGenerator<Uint8Array>
  /** Newer saves that could not be used, with reasons. */
  readonly skipped: readonly { readonly id: string; readonly why: string }[]
}

/** A path at which two saved values differ. */
export interface Difference {
  readonly path: string
  readonly kind: 'added' | 'removed' | 'changed'
}

const differencesMax = 100

export interface SaveComparison {
  readonly chunksSame: number
  readonly chunksOnlyInFirst: number
  readonly chunksOnlyInSecond: number
  /** Stored bytes. */
  readonly bytesSame: number
  readonly bytesOnlyInFirst: number
  readonly bytesOnlyInSecond: number
  /** For two values: their differences, at most a hundred. */
  readonly differences: readonly Difference[]
}

/** The stored record around the value. */
export interface Envelope {
  readonly format: number
  readonly savedAt: number
  readonly kind: 'value' | 'bytes'
  readonly value: unknown
}

export interface SaveModel {
  readonly name: string
  readonly prefix: string
  readonly format: number
  readonly keep: number
  readonly upcasters: Readonly<Record<number, (value: unknown) => unknown>>
  readonly valid: Validity<unknown> | undefined
  /** Null: no bound was declared. */
  readonly loseAtMostMs: number | null
}

const damageCodes = ['CHUNK_MISSING', 'CHUNK_DAMAGED', 'CHECKPOINT_DAMAGED', 'MALFORMED'] as const

/** Maximum number of reads while a writer keeps saving. */
const looksMax = 10

export class SaveReader<T> {
  readonly timeline: TimelineId
  protected readonly kernel: Kernel
  protected readonly model: SaveModel

  /** @internal */
  constructor(kernel: Kernel, model: SaveModel, timeline: TimelineId) {
    this.kernel = kernel
    this.model = model
    this.timeline = timeline
  }

  /** The id the series was opened with. Default: its name. */
  get id(): string {
    return openedAs(this.model.prefix, this.timeline, this.model.name)
  }

  protected async records(): Promise<readonly ManifestRecord[]> {
    return await this.kernel.store.checkpoints(this.timeline)
  }

  /** Newest first, including damaged ones. */
  async list(): Promise<SavedInfo[]> {
    return (await this.records()).map(infoOf)
  }

  /** The newest intact save; damaged ones are skipped and listed in `skipped`. NOT_FOUND if nothing was saved. */
  async latest(): Promise<Loaded<T>> {
    for (let look = 1; ; look++) {
      const found = await this.#latestOnce(look === looksMax)
      if (found) return found
    }
  }

  /** Null: a save was removed during the read, because newer ones replaced it. */
  async #latestOnce(isLast: boolean): Promise<Loaded<T> | null> {
    const skipped: { id: string; why: string }[] = []
    for (const record of await this.records()) {
      if (record.invalid !== null) {
        skipped.push({ id: record.id, why: record.invalid })
        continue
      }
      try {
        const loaded = await this.#load(record, skipped)
        const why = this.whyInvalid(loaded.value)
        if (why === null) return loaded
        // Its bytes are intact, so it is not marked: another version of the application may find it valid.
        skipped.push({ id: record.id, why: `not valid: ${why}` })
      } catch (error) {
        if (!isReprise(error, ...damageCodes)) throw error
        if (!isLast && !(await this.#isThere(record))) return null
        skipped.push({ id: record.id, why: error.message })
        await this.noteDamage(record, error.message)
      }
    }
    if (skipped.length === 0) throw new RepriseError('NOT_FOUND', `nothing was saved in ${this.timeline} yet`)
    throw new RepriseError('UNRECOVERABLE', `every save in ${this.timeline} is damaged or not valid`, { skipped })
  }

  async #isThere({ id }: ManifestRecord): Promise<boolean> {
    return (await this.records()).some((record) => record.id === id)
  }

  /** One save by its id, valid or not. Damage is an error: no other save replaces it. */
  async load(id: string): Promise<Loaded<T>> {
    return await this.#load(await this.find(id), [])
  }

  /** The common chunks and the differences of two saves; chunks of common parts are not read. */
  async compare(first: string, second: string): Promise<SaveComparison> {
    const [a, b] = [await this.find(first), await this.find(second)]
    const [inA, inB] = [await this.#refs(a), await this.#refs(b)]
    const count = (refs: Map<string, ChunkRef>, other: Map<string, ChunkRef>, wantsShared: boolean) => {
      let chunks = 0
      let bytes = 0
      for (const [name, ref] of refs) {
        if (other.has(name) !== wantsShared) continue
        chunks += 1
        bytes += ref.bytes
      }
      return { chunks, bytes }
    }
    const [same, onlyA, onlyB] = [count(inA, inB, true), count(inA, inB, false), count(inB, inA, false)]
    const [left, right] = [await this.#load(a, []), await this.#load(b, [])]
    return {
      chunksSame: same.chunks,
      chunksOnlyInFirst: onlyA.chunks,
      chunksOnlyInSecond: onlyB.chunks,
      bytesSame: same.bytes,
      bytesOnlyInFirst: onlyA.bytes,
      bytesOnlyInSecond: onlyB.bytes,
      differences: left.kind === 'value' && right.kind === 'value' ? this.#differences(left.value, right.value) : [],
    }
  }

  #differences(first: T, second: T): Difference[] {
    const { codec } = this.kernel
    const found = differences(first, second, { most: differencesMax, dataOf: (value) => codec.dataOf(value) })
    return found.map(({ path, kind }) => ({ path, kind }))
  }

  /** Null: the value is valid, or no `valid` is declared. */
  protected whyInvalid(value: unknown): string | null {
    const { valid } = this.model
    const ask = () => whyInvalid(valid, value)
    return valid ? callPure(this.kernel.guardsFolds(), `valid of ${this.timeline}`, ask) : null
  }

  /** The owner of the timeline overrides this to record damage in the catalog. */
  protected async noteDamage(_record: ManifestRecord, _why: string): Promise<void> {}

  protected async find(id: string): Promise<ManifestRecord> {
    const found = (await this.records()).find((record) => record.id === (id as ManifestId))
    if (!found) throw new RepriseError('NOT_FOUND', `${this.timeline} has no save ${id}`, { id })
    return found
  }

  async #load(record: ManifestRecord, skipped: Loaded<T>['skipped']): Promise<Loaded<T>> {
    const { value: envelope, stream } = await readValue(this.kernel, record)
    const value = envelope as Envelope
    return {
      ...infoOf(record),
      savedAt: new Date(value.savedAt),
      value: this.#upcast(value) as T,
      format: value.format,
      kind: value.kind,
      size: stream?.size ?? 0,
      stream: () => readStream(this.kernel, stream),
      skipped,
    }
  }

  /** A format that this code cannot read is an error, never a reason to fall back: that would lose work silently. */
  #upcast({ format, value, kind }: Envelope): unknown {
    if (format > this.model.format) {
      throw new RepriseError(
        'INCOMPATIBLE_VERSION',
        `saved in format ${format}, this code supports ${this.model.format}`,
        {
          format,
          known: this.model.format,
        },
      )
    }
    if (kind === 'bytes' && format === this.model.format) return value
    let current = value
    for (let at = format; at < this.model.format; at++) {
      const step = this.model.upcasters[at]
      if (!step) {
        throw new RepriseError('UPCAST_MISSING', `no upcaster of ${this.model.name} from format ${at}`, { format, at })
      }
      current = step(current)
      refuseThenable(
        current,
        `the upcaster of ${this.model.name} from format ${at}`,
        'compute the new value from the old alone',
      )
    }
    return current
  }

  async #refs(record: ManifestRecord): Promise<Map<string, ChunkRef>> {
    const input = new ChunkInput(stateIo(this.kernel))
    const found = new Map<string, ChunkRef>()
    for (const part of readManifest(this.kernel, record).parts) {
      if (part.kind === 'keyed') continue
      const refs = await (part.kind === 'stream'
        ? input.streamRefs(part.content, part.name)
        : input.dataRefs(part.content, part.name, () => undefined))
      for (const ref of refs) found.set(toHex(ref.digest), ref)
    }
    return found
  }
}

export function infoOf(record: ManifestRecord): SavedInfo {
  const { id, seq, createdAt, label, isPinned, totalBytes, addedBytes, invalid } = record
  return { id, seq, savedAt: new Date(createdAt), label, isPinned, totalBytes, addedBytes, damage: invalid }
}
