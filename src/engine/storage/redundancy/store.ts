// A store in which one damaged place loses no checkpoint: chunks have parity (blobs.ts), catalog entries a second copy
// (catalog-copies.ts). Damaged or missing data is read from there, reported to the listener, and restored where possible. All
// other calls are forwarded.

import type { ManifestId, TimelineId } from '../../../core/coordinate.ts'
import { ignoring, isReprise } from '../../../core/errors.ts'
import { newestFirst } from '../../../core/history/recovery.ts'
import type { Commit, Hash, ManifestRecord, Outcome, Store } from '../../../core/store/ports.ts'
import { forwardStore } from '../../../core/store/store-wrapper.ts'
import { type MendedChunk, RedundantBlobs } from './blobs.ts'
import { CatalogLines, isSoundLine } from './catalog-copies.ts'

export interface MendedLine {
  readonly timeline: string
  readonly id: string
  readonly from: string
}

export interface RedundancyListener {
  chunk(mended: MendedChunk): void
  line(mended: MendedLine): void
}

export interface Examined {
  readonly records: readonly ManifestRecord[]
  readonly mended: readonly ManifestId[]
}

export interface RedundantStore extends Store {
  readonly blobs: RedundantBlobs
  /** False: redundancy is no longer written, and the existing one is removed gradually (redundancy-choice.ts). */
  isOn: boolean
  /** The catalog, and its damaged or missing entries, which are read from their copies. */
  examine(timeline: TimelineId): Promise<Examined>
  /** Stores the copy of an entry that was found elsewhere, and reads the entry from it. False: the copy is damaged. */
  restoreLine(timeline: TimelineId, record: ManifestRecord, from: string): Promise<boolean>
  /**
   * Creates the missing copies of this timeline's catalog; `isState`: every entry needs one. Called when the store is
   * swept.
   */
  tendCatalog(timeline: TimelineId, isState: boolean): Promise<void>
}

/** @example const store = withRedundancy(await openStore(url, {}), sha256, { chunk: console.log, line: console.log }) */
export function withRedundancy(
  store: Store,
  hash: Hash,
  listener: RedundancyListener,
  planted: ReadonlySet<string> = new Set(),
): RedundantStore {
  const blobs = new RedundantBlobs(store.blobs, hash, (mended) => listener.chunk(mended), planted)
  const catalog = new RedundantCatalog(store, hash, (mended) => listener.line(mended))
  const wrapped = forwardStore(store, {
    blobs,
    commit: (commits) => catalog.commit(commits),
    checkpoints: (timeline) => catalog.checkpoints(timeline),
    async close() {
      await catalog.settled()
      await store.close()
    },
  })
  const more = {
    get isOn() {
      return blobs.isOn
    },
    set isOn(isOn) {
      blobs.isOn = isOn
      catalog.isOn = isOn
    },
    examine: (timeline: TimelineId) => catalog.examine(timeline),
    restoreLine: (timeline: TimelineId, record: ManifestRecord, from: string) =>
      catalog.restoreLine(timeline, record, from),
    tendCatalog: (timeline: TimelineId, isState: boolean) => catalog.tend(timeline, isState),
  }
  return Object.defineProperties(wrapped, Object.getOwnPropertyDescriptors(more)) as RedundantStore
}

/** The store of another engine, already wrapped. */
export function isRedundant(store: Store): store is RedundantStore {
  return typeof (store as Partial<RedundantStore>).tendCatalog === 'function'
}

class RedundantCatalog {
  readonly #store: Store
  readonly #hash: Hash
  readonly #lines: CatalogLines
  readonly #report: (mended: MendedLine) => void
  readonly #damageReported = new Set<string>()
  #queue: { readonly timeline: TimelineId; readonly records: readonly ManifestRecord[] }[] = []
  isOn = true
  #putting: Promise<void> = Promise.resolve()

  constructor(store: Store, hash: Hash, report: (mended: MendedLine) => void) {
    this.#store = store
    this.#hash = hash
    this.#report = report
    this.#lines = new CatalogLines(store.blobs, hash)
  }

  commit(commits: readonly Commit[]): Outcome[] | Promise<Outcome[]> {
    return commits.some(isOfCatalog) ? this.#commit(commits) : this.#store.commit(commits)
  }

  async checkpoints(timeline: TimelineId): Promise<ManifestRecord[]> {
    const { records, mended } = await this.examine(timeline)
    for (const id of mended) this.#noteMended(timeline, id)
    return [...records]
  }

  async examine(timeline: TimelineId): Promise<Examined> {
    const rows = await this.#rows(timeline)
    const isWhole = !(rows instanceof Error) && rows.every((row) => isSoundLine(this.#hash, row))
    if (isWhole && this.#store.countsCheckpoints) return { records: rows, mended: [] }
    const copies = await this.#copies(timeline)
    if (copies.length === 0) {
      if (rows instanceof Error) throw rows
      return { records: rows, mended: [] }
    }
    const sound = rows instanceof Error ? [] : rows.filter((row) => isSoundLine(this.#hash, row))
    const held = new Set(sound.map(({ id }) => id))
    const [head] = await this.#store.head([timeline])
    const lost = copies.filter(({ id, seq }) => !held.has(id) && head && seq <= head.seq)
    const isNamed = new Set(lost.map(({ id }) => id))
    const broken = rows instanceof Error ? [] : rows.filter((row) => !held.has(row.id) && !isNamed.has(row.id))
    const records = [...sound, ...lost, ...broken].sort(newestFirst)
    return { records, mended: lost.map(({ id }) => id) }
  }

  /**
   * Without access to the chunks, or without their key, this returns no copies: the process gets the error when it
   * needs them.
   */
  async #copies(timeline: TimelineId): Promise<ManifestRecord[]> {
    try {
      return await this.#lines.load(timeline)
    } catch (error) {
      if (isReprise(error, 'CHUNKS_ELSEWHERE', 'KEY_MISSING', 'DECRYPT_FAILED')) return []
      throw error
    }
  }

  async restoreLine(timeline: TimelineId, record: ManifestRecord, from: string): Promise<boolean> {
    if (!isSoundLine(this.#hash, record)) return false
    await this.#lines.put(timeline, [record])
    this.#noteMended(timeline, record.id, from)
    return true
  }

  /** Resolves once all requested copies are written, or have failed. */
  async settled(): Promise<void> {
    await this.#putting
  }

  async tend(timeline: TimelineId, isState = false): Promise<void> {
    const [head] = await this.#store.head([timeline])
    const rows = await this.#rows(timeline)
    if (!head || rows instanceof Error) return
    if (!this.isOn) {
      // Only for existing entries: a copy without its entry is the only remnant of it.
      await this.#lines.leave(
        timeline,
        rows.map(({ id }) => id),
        async () => [],
      )
      return
    }
    const isTruth = isState || (await this.#lines.isTruth(timeline))
    if (isTruth || head.floor > 0) await this.#lines.protect(timeline, rows, isTruth)
    // In a store that detects missing entries, a copy without an entry is a leftover.
    if (this.#store.countsCheckpoints) await this.#lines.forgetOthers(timeline, rows)
  }

  async #rows(timeline: TimelineId): Promise<ManifestRecord[] | Error> {
    try {
      return await this.#store.checkpoints(timeline)
    } catch (error) {
      if (isReprise(error, 'STORE_DAMAGED')) return error
      throw error
    }
  }

  async #commit(commits: readonly Commit[]): Promise<Outcome[]> {
    // A process without access to the chunks has no copies either; commits that need none continue.
    await this.#before(commits).catch(ignoring('CHUNKS_ELSEWHERE'))
    const outcomes = await this.#store.commit(commits)
    for (const [i, commit] of commits.entries()) {
      const timeline = commit.guard?.timeline
      const outcome = outcomes[i]
      if (!timeline || !outcome) continue
      if (!outcome.ok) {
        if (commit.drop) await this.#quietly(() => this.tend(timeline))
        continue
      }
      // Published with its own entry: the timeline has authority "state".
      if (commit.publish && commit.run) this.#copy(timeline, commit.publish)
      if (commit.branch)
        for (const each of [commit.branch.archive, timeline]) await this.#quietly(() => this.tend(each))
      if (commit.forget) await this.#quietly(() => this.#lines.removeAll(timeline))
      if (commit.marks?.some(isLasting))
        await this.#renew(
          timeline,
          commit.marks.map(({ id }) => id),
        )
    }
    return outcomes
  }

  /** Copies are made before anything depends on them, and removed before their entry is. */
  async #before(commits: readonly Commit[]): Promise<void> {
    for (const { guard, trim, drop, branch } of commits) {
      if (!guard || (!trim && !drop && !branch)) continue
      const { timeline } = guard
      await this.settled()
      if (trim && this.isOn) {
        const rows = await this.#rows(timeline)
        if (!(rows instanceof Error)) await this.#lines.protect(timeline, rows, await this.#lines.isTruth(timeline))
      }
      // The entries move to another timeline: until then, no entry may be treated as lost by this timeline.
      if (branch) await this.#lines.removeAll(timeline)
      if (drop) {
        await this.#lines.leave(timeline, drop, async () => {
          const rows = await this.#rows(timeline)
          return rows instanceof Error ? await this.#lines.load(timeline) : rows
        })
      }
    }
  }

  /**
   * In the background: an acknowledged commit does not wait for its second copy. A failed copy is made when the store
   * is tended.
   */
  #copy(timeline: TimelineId, records: readonly ManifestRecord[]): void {
    if (!this.isOn) return
    const isIdle = this.#queue.length === 0
    this.#queue.push({ timeline, records })
    if (!isIdle) return
    this.#putting = this.#putting.then(() => {
      const batch = this.#queue
      this.#queue = []
      return this.#quietly(() => this.#lines.putAll(batch))
    })
  }

  /** Copies are replaced as a whole, because a put does not overwrite an existing name. */
  async #renew(timeline: TimelineId, ids: readonly ManifestId[]): Promise<void> {
    await this.settled()
    await this.#quietly(async () => {
      const copied = (await this.#lines.load(timeline)).some(({ id }) => ids.includes(id))
      if (!copied) return
      const isTruth = await this.#lines.isTruth(timeline)
      const rows = await this.#rows(timeline)
      if (rows instanceof Error) return
      await this.#lines.leave(timeline, ids, async () => rows)
      if (this.isOn) await this.#lines.protect(timeline, rows, isTruth)
    })
  }

  /** The commit succeeded: a failure of its copies must not fail it. */
  async #quietly(work: () => Promise<void>): Promise<void> {
    try {
      await work()
    } catch (error) {
      if (!isReprise(error)) throw error
    }
  }

  #noteMended(timeline: TimelineId, id: ManifestId, from = 'copy'): void {
    const name = `${timeline} ${id} ${from}`
    if (this.#damageReported.has(name)) return
    this.#damageReported.add(name)
    this.#report({ timeline, id, from })
  }
}

function isOfCatalog({ publish, run, drop, trim, branch, forget, marks }: Commit): boolean {
  return (
    (publish !== undefined && run !== undefined) ||
    drop !== undefined ||
    trim !== undefined ||
    branch !== undefined ||
    Boolean(forget) ||
    (marks?.some(isLasting) ?? false)
  )
}

/** True for a mark that a restore from a copy needs. */
function isLasting({ isPinned, label, invalid }: NonNullable<Commit['marks']>[number]): boolean {
  return isPinned !== undefined || label !== undefined || invalid !== undefined
}
