// A store of which one damaged place loses no checkpoint: chunks have parity (blobs.ts), lines of the catalog a second copy
// (lines.ts). What is damaged or missing is read from there, told to whoever listens, and put back where that is possible.
// Every other call goes through as it is.

import type { ManifestId, TimelineId } from '../../../core/coordinate.ts'
import { isReprise } from '../../../core/errors.ts'
import { newestFirst } from '../../../core/history/recovery.ts'
import { forwardStore } from '../../../core/store/forward.ts'
import type { Commit, Hash, ManifestRecord, Outcome, Store } from '../../../core/store/ports.ts'
import { type MendedChunk, RedundantBlobs } from './blobs.ts'
import { CatalogLines, isSoundLine } from './lines.ts'

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
  /** False: nothing is written any more, and what there is is removed by and by (redundancy-choice.ts). */
  isOn: boolean
  /** The catalog, and which of its lines were damaged or missing and are told from their copies. */
  examine(timeline: TimelineId): Promise<Examined>
  /** The copy of a line that was found elsewhere: from now on it is told from there. False if it is not sound. */
  restoreLine(timeline: TimelineId, record: ManifestRecord, from: string): Promise<boolean>
  /** Gives the lines of this timeline their copies; `isState`: each of them is its own truth. Called when the store is swept. */
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
  const through = forwardStore(store, {
    commit: (commits) => catalog.commit(commits),
    checkpoints: (timeline) => catalog.checkpoints(timeline),
    async close() {
      await catalog.settled()
      await store.close()
    },
  })
  return {
    ...through,
    blobs,
    get isOn() {
      return blobs.isOn
    },
    set isOn(isOn) {
      blobs.isOn = isOn
      catalog.isOn = isOn
    },
    examine: (timeline) => catalog.examine(timeline),
    restoreLine: (timeline, record, from) => catalog.restoreLine(timeline, record, from),
    tendCatalog: (timeline, isState) => catalog.tend(timeline, isState),
  }
}

/** The store of another engine: once is enough. */
export function isRedundant(store: Store): store is RedundantStore {
  return typeof (store as Partial<RedundantStore>).tendCatalog === 'function'
}

class RedundantCatalog {
  readonly #store: Store
  readonly #hash: Hash
  readonly #lines: CatalogLines
  readonly #tell: (mended: MendedLine) => void
  readonly #told = new Set<string>()
  #queue: { readonly timeline: TimelineId; readonly records: readonly ManifestRecord[] }[] = []
  isOn = true
  #putting: Promise<void> = Promise.resolve()

  constructor(store: Store, hash: Hash, tell: (mended: MendedLine) => void) {
    this.#store = store
    this.#hash = hash
    this.#tell = tell
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

  /** A process that cannot see the chunks, or lacks their key, goes without: it is told so where it needs them itself. */
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

  /** Once all copies that were asked for are there, or could not be made. */
  async settled(): Promise<void> {
    await this.#putting
  }

  async tend(timeline: TimelineId, isState = false): Promise<void> {
    const [head] = await this.#store.head([timeline])
    const rows = await this.#rows(timeline)
    if (!head || rows instanceof Error) return
    if (!this.isOn) {
      // Only of lines that are there: a copy without its line is all that is left of it.
      await this.#lines.leave(
        timeline,
        rows.map(({ id }) => id),
        async () => [],
      )
      return
    }
    const isTruth = isState || (await this.#lines.isTruth(timeline))
    if (isTruth || head.floor > 0) await this.#lines.protect(timeline, rows, isTruth)
    // Where the store would tell that a line is missing, a copy without one is left over.
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
    await this.#before(commits).catch((error) => {
      // Who does not see the chunks sees no copies either; what needs none goes on.
      if (!isReprise(error, 'CHUNKS_ELSEWHERE')) throw error
    })
    const outcomes = await this.#store.commit(commits)
    for (const [i, commit] of commits.entries()) {
      const timeline = commit.guard?.timeline
      const outcome = outcomes[i]
      if (!timeline || !outcome) continue
      if (!outcome.ok) {
        if (commit.drop) await this.#quietly(() => this.tend(timeline))
        continue
      }
      // With an entry of its own: the state is its own truth.
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

  /** Copies are made before anything rests on them, and removed before their line is. */
  async #before(commits: readonly Commit[]): Promise<void> {
    for (const { guard, trim, drop, branch } of commits) {
      if (!guard || (!trim && !drop && !branch)) continue
      const { timeline } = guard
      await this.settled()
      if (trim && this.isOn) {
        const rows = await this.#rows(timeline)
        if (!(rows instanceof Error)) await this.#lines.protect(timeline, rows, await this.#lines.isTruth(timeline))
      }
      // They become another timeline's: until then nobody may take one for a line that this one has lost.
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
   * In the background: what was acknowledged does not wait for its second copy. One that fails is made when the store
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

  /** Copies are replaced as a whole: what is there under a name stays as it is. */
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

  /** The commit is done: that its copies are not must not make it fail. */
  async #quietly(work: () => Promise<void>): Promise<void> {
    try {
      await work()
    } catch (error) {
      if (!isReprise(error)) throw error
    }
  }

  #noteMended(timeline: TimelineId, id: ManifestId, from = 'copy'): void {
    const name = `${timeline} ${id} ${from}`
    if (this.#told.has(name)) return
    this.#told.add(name)
    this.#tell({ timeline, id, from })
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

/** A note that whoever restores from a copy has to know. */
function isLasting({ isPinned, label, invalid }: NonNullable<Commit['marks']>[number]): boolean {
  return isPinned !== undefined || label !== undefined || invalid !== undefined
}
