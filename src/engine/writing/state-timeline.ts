// A timeline with authority "state" (A1.2): each publication is one commit that appends an entry, publishes the
// manifest at that entry's coordinate, and applies the extras. State and position become visible together or not at
// all. For layers that capture by themselves: saves, projections.

import { assert } from '../../core/assert.ts'
import { encodeManifest, type Part } from '../../core/checkpoint/manifest.ts'
import type { RetentionPolicy } from '../../core/checkpoint/retention.ts'
import { type Coordinate, type Digest, type ManifestId, type TimelineId, toHex } from '../../core/coordinate.ts'
import { ignoring, isReprise, RepriseError } from '../../core/errors.ts'
import { originDigest, packEntries } from '../../core/history/entry-run.ts'
import type { Base, Commit, Head, ManifestMark, ManifestRecord } from '../../core/store/ports.ts'
import { Mutex } from '../../lib/waiting.ts'
import { refusalError } from '../base/refusal-error.ts'
import { retain } from '../checkpoint/retain.ts'
import { policyToStore } from '../checkpoint/stored-policy.ts'
import type { OpenOptions } from '../model/definition.ts'
import { takeTimeline } from '../ownership/take-timeline.ts'
import { stateIo } from '../snapshot/kernel-io.ts'
import { verifyChunks } from '../snapshot/restore.ts'
import type { ChunkHold } from '../storage/chunk-hold.ts'
import { type Kernel, newId, releaseLeft, submit } from '../storage/kernel.ts'
import { sealEntry } from '../storage/seal/entries.ts'
import type { NewEntry } from './timeline.ts'
import type { CommitExtras } from './writer.ts'

export interface Publication {
  readonly entry: NewEntry
  readonly parts: readonly Part[]
  readonly foldVersion: string
  readonly totalBytes: number
  readonly addedBytes: number
  /** Chunks that the manifest names and its base does not, put under `hold`. Read back first: nothing unverified is visible. */
  readonly addedChunks: readonly Digest[]
  /** Chunks of other timelines that it names: `hold` protects them like the added ones, but they are not read back. */
  readonly reusedChunks?: readonly Digest[]
  readonly hold?: ChunkHold
  /** Also read back reused chunks. */
  readonly readsBackAll?: boolean
  /** The checkpoint whose chunks are reused; BASE_GONE if it no longer exists. */
  readonly baseId: ManifestId | null
  readonly trigger: string
  readonly label?: string | undefined
  readonly pin?: boolean | undefined
  readonly extras?: CommitExtras
}

export class StateTimeline {
  readonly id: TimelineId
  readonly #kernel: Kernel
  #head: { readonly seq: number; readonly epoch: number; readonly digest: Digest }
  readonly #turns = new Mutex()
  #broken: RepriseError | null = null
  /** Part of the first commit, which creates the timeline. */
  #creation: Pick<Commit, 'take' | 'attributes'> | null = null

  private constructor(kernel: Kernel, id: TimelineId, head: StateTimeline['head']) {
    this.#kernel = kernel
    this.id = id
    this.#head = head
  }

  /** A timeline that does not exist yet: its first publication creates it, in the same commit. FENCED if it exists by then. */
  static async create(kernel: Kernel, id: TimelineId): Promise<StateTimeline> {
    const worker = await kernel.worker.register()
    const digest = originDigest(kernel.hash, id)
    const past = await kernel.identity.past(id)
    const made = new StateTimeline(kernel, id, { seq: 0, epoch: past.epoch + 1, digest })
    const attributes = policyToStore(kernel, id, null)
    made.#creation = { take: { worker, from: 'free', create: { digest } }, ...(attributes && { attributes }) }
    return made
  }

  /** The same for a fork. It is restored from its first publication alone, so it reads nothing of its parent. */
  static async fork(kernel: Kernel, id: TimelineId, base: Base): Promise<StateTimeline> {
    const worker = await kernel.worker.register()
    const { seq, digest } = base
    const past = await kernel.identity.past(id)
    const made = new StateTimeline(kernel, id, { seq, epoch: past.epoch + 1, digest })
    made.#creation = { take: { worker, from: 'free', create: { digest, base, floor: { seq, digest } } } }
    return made
  }

  /** A timeline that was claimed already, under the epoch of that claim. */
  static adopt(kernel: Kernel, { timeline, seq, epoch, digest }: Head): StateTimeline {
    return new StateTimeline(kernel, timeline, { seq, epoch, digest })
  }

  /** Takes ownership under a new epoch. Reads no state: the layer loads it. */
  static async take(kernel: Kernel, id: TimelineId, options: OpenOptions = {}): Promise<StateTimeline> {
    const { seq, epoch, digest } = await takeTimeline(kernel, id, options)
    return new StateTimeline(kernel, id, { seq, epoch, digest })
  }

  get head(): { readonly seq: number; readonly epoch: number; readonly digest: Digest } {
    return this.#head
  }

  get coordinate(): Coordinate {
    const { seq, epoch, digest } = this.#head
    return { timeline: this.id, seq, epoch, digest: toHex(digest) }
  }

  get broken(): RepriseError | null {
    return this.#broken
  }

  /** The catalog, newest first. */
  records(): Promise<ManifestRecord[]> {
    return this.#kernel.store.checkpoints(this.id)
  }

  /** One at a time, in call order. */
  publish(publication: Publication): Promise<ManifestRecord> {
    return this.#inTurn(() => this.#publish(publication))
  }

  async mark(mark: ManifestMark): Promise<void> {
    await this.#inTurn(() => this.#commit({ marks: [mark] }))
  }

  /** A commit without a publication: cursors, attributes, messages. */
  async write(extras: CommitExtras): Promise<void> {
    await this.#inTurn(() => this.#commit(extras))
  }

  /** An entry without a publication, for events between two of them. */
  async append(entry: NewEntry, extras: CommitExtras = {}): Promise<void> {
    await this.#inTurn(() => this.#commit(extras, this.#pack(entry)))
  }

  async retain(policy: RetentionPolicy, foldVersion: string): Promise<void> {
    const [head] = await this.#kernel.store.head([this.id])
    if (head?.epoch === this.#head.epoch) await retain(this.#kernel, head, policy, foldVersion)
  }

  /** Releases it, so that other processes can take it at once. */
  async release(extras: CommitExtras = {}): Promise<void> {
    await this.#turns.run(() => undefined)
    if (this.#broken) return await this.#releaseBroken(this.#broken, extras)
    await this.#commit({ ...extras, release: true }).catch(ignoring('FENCED', 'NOT_FOUND', 'CLOSED'))
    this.#broken = new RepriseError('CLOSED', `${this.id} was closed`, { timeline: this.id })
  }

  /**
   * It broke without being taken over: in the store, this process still owns it, and no other could take it while this
   * process lives.
   */
  async #releaseBroken(broken: RepriseError, extras: CommitExtras): Promise<void> {
    if (isReprise(broken, 'FENCED', 'NOT_FOUND', 'CLOSED')) return
    await releaseLeft(this.#kernel, { timeline: this.id, epoch: this.#head.epoch }, extras)
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    return this.#turns.run(async () => {
      if (this.#broken) throw this.#broken
      return await work()
    })
  }

  async #publish(publication: Publication): Promise<ManifestRecord> {
    const { entry, parts, foldVersion, addedChunks, reusedChunks = [], hold, extras } = publication
    await verifyChunks({ parts }, stateIo(this.#kernel), publication.readsBackAll ? undefined : addedChunks)
    const { seq, epoch } = this.#head
    const run = this.#pack(entry)
    const { digest } = run
    const body = encodeManifest({ timeline: this.id, seq: seq + 1, epoch, digest, foldVersion, parts })
    const record = this.#record(publication, { seq: seq + 1, epoch, digest, body })
    if (hold)
      await hold.publish(reusedChunks.length > 0 ? [...addedChunks, ...reusedChunks] : addedChunks, (since) =>
        this.#commit({ ...extras, publish: [{ ...record, chunksSince: since }] }, run),
      )
    else await this.#commit({ ...extras, publish: [record] }, run)
    return record
  }

  #pack(entry: NewEntry): ReturnType<typeof packEntries> {
    const { hash, codec, sealer, clock } = this.#kernel
    const { seq, epoch, digest: before } = this.#head
    const draft = {
      type: entry.type,
      version: entry.version ?? 1,
      time: entry.time ?? clock.now(),
      key: entry.key,
      data: codec.encode(entry.data),
    }
    return packEntries(hash, { before, first: seq + 1, epoch }, [sealEntry(sealer, draft, before, 0)])
  }

  #record(publication: Publication, place: Pick<ManifestRecord, 'seq' | 'epoch' | 'digest' | 'body'>): ManifestRecord {
    const now = this.#kernel.worker.now()
    const { baseId, trigger, foldVersion, totalBytes, addedBytes, label = null, pin = false } = publication
    return {
      id: newId(this.#kernel.random) as ManifestId,
      ...place,
      bodyDigest: this.#kernel.hash(place.body),
      ...{ baseId, trigger, foldVersion, totalBytes, addedBytes, label, isPinned: pin },
      createdAt: now,
      verifiedAt: now,
      invalid: null,
      drilledAt: null,
      drill: null,
    }
  }

  async #commit(extras: CommitExtras, run?: ReturnType<typeof packEntries>): Promise<void> {
    const { seq, epoch, digest } = this.#head
    const making = this.#creation
    const guard = { timeline: this.id, epoch: making ? epoch - 1 : epoch, seq, digest }
    const attributes = { ...extras.attributes, ...making?.attributes }
    try {
      const outcome = await submit(this.#kernel, {
        ...extras,
        ...(making && { take: making.take, attributes }),
        guard,
        ...(run && { run }),
      })
      if (!outcome.ok) throw refusalError(this.id, outcome)
      assert(outcome.seq === seq + (run?.count ?? 0), 'the head moves by the appended entries')
      this.#creation = null
      if (run) this.#head = { seq: outcome.seq, epoch, digest: run.digest }
    } catch (error) {
      if (
        isReprise(error, 'FENCED', 'NOT_FOUND', 'OUTCOME_UNKNOWN', 'STORE_MOVED') ||
        (isReprise(error, 'CONFLICT') && run)
      ) {
        this.#broken = error
      }
      throw error
    }
  }
}
