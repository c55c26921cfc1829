// Changes the number of partitions of a state store. The new partitions are built beside the live ones, as a separate
// generation:
//
//   1. copy     every row to its new partition, while the live ones are read and written; then the rows changed meanwhile
//   2. take     over the live partitions: their writers are fenced, and the last changes are copied
//   3. end      them, in one batch: from here on they cannot be opened, and the rescale can only be finished
//   4. swap     the generation, in one commit; the old partitions are removed
//
// A crash before step 3 leaves the store unchanged; after it the rescale must be finished. A repeated call resumes with the
// rows already copied. During the copy, memory holds the store twice: the old and the new partitions.

import { equalBytes, timelineId } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import { Keyed } from '../../core/keyed-state/keyed.ts'
import type { Head } from '../../core/store/ports.ts'
import { throwIfAborted } from '../../engine/base/abortable-wait.ts'
import { refusalError } from '../../engine/base/refusal-error.ts'
import type { Replica } from '../../engine/feed/replica.ts'
import type { Entry } from '../../engine/history/history.ts'
import type { Host } from '../../engine/host/host.ts'
import type { Fold } from '../../engine/model/definition.ts'
import { giveBack, takeTimeline } from '../../engine/ownership/take-timeline.ts'
import { endNote, underNote } from '../../engine/storage/store-change.ts'
import { endedStatus, nextGeneration, note, swapGeneration } from '../../engine/tools/generations.ts'
import type { OpenTimeline } from '../../engine/writing/timeline.ts'
import { BatchWriter } from './batch.ts'
import { giveUpRescale } from './give-up-rescale.ts'
import {
  catalogOf,
  forget,
  isEnding,
  type Layout,
  layoutVersion,
  partitionOf,
  partitionTimeline,
  readLayout,
  removeStrays,
  retire,
  timelinesOf,
} from './layout.ts'
import { partitionModel } from './model.ts'
import type { Offset, Ops, TableState } from './state.ts'
import type { Write } from './transaction.ts'

export interface RescaleOptions {
  /** Called after every batch of copied rows. */
  readonly onProgress?: (progress: { readonly rows: number; readonly isFinal: boolean }) => void
  /**
   * Merges the offsets of a source if the partitions have different ones: their rows are merged, and one offset must be right
   * for all of them. Default: such a store is refused and stays unchanged.
   */
  readonly offsets?: (source: string, offsets: readonly Offset[]) => Offset
  /** Stops copying with ABORTED; the next rescale resumes from there. */
  readonly signal?: AbortSignal
}

interface CopyOptions extends RescaleOptions {
  /** Called after every batch, with the number of rows so far. */
  readonly copied: (rows: number) => Promise<void>
}

export interface Rescalable<V> {
  readonly name: string
  readonly partitions: number
  readonly fold: Fold<TableState<V>>
}

/** Number of rows written at once. */
const batchRows = 2000
/** Changes left for the phase in which writes are blocked, and the maximum number of passes and takeovers. */
const fewRows = 1000
const copiesMax = 10
const takesMax = 20

export async function rescale<V>(engine: Host, store: Rescalable<V>, options: RescaleOptions): Promise<void> {
  const { name, partitions } = store
  const layout = await readLayout(engine, name)
  await retire(engine, name, layout.builds)
  await removeStrays(engine, layout)
  // The store does not exist yet: it can be opened with any number.
  if (layout.partitions === null) return
  if (layout.partitions === partitions && !(await isEnding(engine, layout))) {
    await giveUpRescale(engine, layout)
    return await endNote(engine.kernel, { kind: 'rescale', of: name })
  }
  await underNote(engine.kernel, { kind: 'rescale', of: name }, async (change) => {
    change.began()
    const copied = (rows: number) => change.progress(rows)
    await rescaleFrom(engine, store, { ...layout, partitions: layout.partitions! }, { ...options, copied })
  })
}

async function rescaleFrom<V>(
  engine: Host,
  store: Rescalable<V>,
  layout: Layout & { readonly partitions: number },
  options: CopyOptions,
): Promise<void> {
  const { name, partitions, fold } = store
  const { generation: from, builds } = layout
  for (const timeline of timelinesOf(name, from, layout.partitions)) {
    engine.declare(partitionModel(name, timeline, fold as Fold<never>))
  }
  const to = await nextGeneration(engine, catalogOf(name), layoutVersion, from, partitions, {
    exists: async (generation) => (await engine.head(partitionTimeline(name, generation, 0))) !== null,
    giveUp: (generation) => forget(engine, name, generation, builds),
  })
  // Recorded now if it never was: the removal of this generation needs the number.
  await note(engine, catalogOf(name), { [`partitions.${layoutVersion}-${from}`]: layout.partitions })
  const copy = await Copy.open(engine, store, layout.partitions, from, to, options)
  try {
    await copy.follow()
    await copy.end()
  } finally {
    await copy.close()
  }
  await swapGeneration(engine, catalogOf(name), layoutVersion, { from, to, keepOld: false })
  await retire(engine, name, (await readLayout(engine, name)).builds)
}

interface Source<V> {
  readonly replica: Replica<TableState<V>>
  /** Keys changed since they were last copied; null: all rows must be compared. */
  changed: Set<string> | null
}

interface Target<V> {
  readonly open: OpenTimeline<TableState<V>>
  readonly writer: BatchWriter<V>
}

class Copy<V> {
  readonly #engine: Host
  readonly #store: Rescalable<V>
  readonly #options: CopyOptions
  readonly #sources: Source<V>[] = []
  readonly #targets: Target<V>[] = []
  #rows = 0
  #isFinal = false

  private constructor(engine: Host, store: Rescalable<V>, options: CopyOptions) {
    this.#engine = engine
    this.#store = store
    this.#options = options
  }

  static async open<V>(
    engine: Host,
    store: Rescalable<V>,
    partitions: number,
    from: number,
    to: number,
    options: CopyOptions,
  ): Promise<Copy<V>> {
    const { name, fold } = store
    const copy = new Copy<V>(engine, store, options)
    try {
      for (const timeline of timelinesOf(name, to, store.partitions)) {
        const open = await engine.openTimeline(timelineId(timeline), fold)
        const writer = new BatchWriter(open)
        copy.#targets.push({ open, writer })
        await writer.undoUnfinished()
      }
      for (const timeline of timelinesOf(name, from, partitions)) {
        // A partition that was never opened is created: otherwise it could be opened after the others have ended.
        if (!(await engine.head(timeline)))
          await giveBack(engine.kernel, await takeTimeline(engine.kernel, timelineId(timeline)))
        const how = { isPassive: true, isWhole: true }
        const replica = await engine.follow({ prefix: timeline, fold }, '', how)
        const source: Source<V> = { replica, changed: null }
        replica.watch((entries) => noteChanges(source, entries))
        copy.#sources.push(source)
      }
    } catch (error) {
      await copy.close()
      throw error
    }
    return copy
  }

  /** Copies while other processes write, until few changes are left. */
  async follow(): Promise<void> {
    throwIfAborted(this.#options.signal, `rescale of ${this.#store.name}`)
    this.#offsets()
    for (let pass = 0; pass < copiesMax; pass++) {
      let rows = 0
      for (const source of this.#sources) rows += await this.#copy(source)
      if (rows <= fewRows) return
    }
  }

  /** Takes over the live partitions, copies the last changes, and ends them. */
  async end(): Promise<void> {
    const { kernel } = this.#engine
    this.#isFinal = true
    let left: readonly Source<V>[] = this.#sources
    for (let round = 0; left.length > 0; round++) {
      if (round === takesMax) {
        const what = `state store ${this.#store.name}: other processes keep taking its partitions over during the rescale`
        throw new RepriseError('CONTENDED', what, { name: this.#store.name })
      }
      const taken: { readonly source: Source<V>; readonly head: Head }[] = []
      try {
        for (const source of left) {
          const id = timelineId(source.replica.coordinate.timeline)
          taken.push({ source, head: await takeTimeline(kernel, id, { takeover: true }) })
        }
        for (const { source } of taken) await this.#copy(source)
        const offsets = this.#offsets()
        for (const { writer } of this.#targets) await writer.write({ writes: new Keyed(), offsets }, null)
      } catch (error) {
        // Their previous writers can write again at once.
        for (const { head } of taken) await giveBack(kernel, head)
        throw error
      }
      left = await this.#endAll(taken)
    }
  }

  async close(): Promise<void> {
    for (const { replica } of this.#sources) replica.close()
    for (const { open } of this.#targets) await open.close()
  }

  /** Returns the partitions that were taken over meanwhile: writes made there are not copied yet. */
  async #endAll(taken: readonly { readonly source: Source<V>; readonly head: Head }[]): Promise<Source<V>[]> {
    const outcomes = await Promise.all(
      taken.map(({ head: { timeline, epoch } }) =>
        this.#engine.commit({ guard: { timeline, epoch }, status: endedStatus, release: true }),
      ),
    )
    return taken.flatMap(({ source, head }, i) => {
      const outcome = outcomes[i]!
      if (outcome.ok) return []
      if (outcome.code !== 'FENCED' && outcome.code !== 'WORKER_RETIRED') throw refusalError(head.timeline, outcome)
      return [source]
    })
  }

  /** Returns the number of rows written or deleted. */
  async #copy(source: Source<V>): Promise<number> {
    await source.replica.refresh()
    const { changed } = source
    source.changed = new Set()
    const { rows, expiry } = source.replica.state
    const before = this.#rows
    const batches = this.#targets.map(() => new Keyed<Write>())
    const { length } = this.#targets
    for (const key of changed ?? rows.keys()) {
      const at = partitionOf(key, length)
      const write = this.#difference(key, rows.get(key), expiry.get(key), this.#targets[at]!.open.state)
      if (!write) continue
      batches[at]!.set(key, write)
      if (batches[at]!.size >= batchRows) await this.#flush(at, batches)
    }
    if (changed === null) {
      for (const [at, { open }] of this.#targets.entries()) {
        // Rows that an earlier attempt copied, and that were deleted since.
        for (const key of open.state.rows.keys()) {
          if (!this.#sources.some(({ replica }) => replica.state.rows.has(key))) batches[at]!.set(key, gone)
        }
      }
    }
    for (let at = 0; at < length; at++) await this.#flush(at, batches)
    return this.#rows - before
  }

  async #flush(at: number, batches: Keyed<Write>[]): Promise<void> {
    const writes = batches[at]!
    if (writes.size === 0) return
    throwIfAborted(this.#options.signal, `rescale of ${this.#store.name}`)
    batches[at] = new Keyed()
    await this.#targets[at]!.writer.write({ writes, offsets: new Map() }, null)
    this.#rows += writes.size
    await this.#options.copied(this.#rows)
    this.#options.onProgress?.({ rows: this.#rows, isFinal: this.#isFinal })
  }

  #difference(key: string, value: V | undefined, expiresAt: number | undefined, at: TableState<V>): Write | null {
    const there = at.rows.get(key)
    if (value === undefined) return there === undefined ? null : gone
    const isSame = there !== undefined && expiresAt === at.expiry.get(key) && this.#isEqual(value, there)
    return isSame ? null : { value, isDeleted: false, expiresAt }
  }

  #isEqual(a: V, b: V): boolean {
    const { codec } = this.#engine
    return equalBytes(codec.encode(a), codec.encode(b))
  }

  /** The offset of each source, merged over all partitions. */
  #offsets(): Map<string, Offset> {
    const found = new Map<string, Set<Offset>>()
    for (const { replica } of this.#sources) {
      for (const [source, offset] of replica.state.offsets) {
        const known = found.get(source)
        if (known) known.add(offset)
        else found.set(source, new Set([offset]))
      }
    }
    return new Map([...found].map(([source, offsets]) => [source, this.#oneOf(source, [...offsets])]))
  }

  #oneOf(source: string, offsets: readonly Offset[]): Offset {
    if (offsets.length === 1) return offsets[0]!
    if (this.#options.offsets) return this.#options.offsets(source, offsets)
    const { name } = this.#store
    const what = `state store ${name}: its partitions have read ${source} up to different offsets (${offsets.slice(0, 5).join(', ')})`
    throw new RepriseError(
      'CONFLICT',
      `${what}: wait until all of them reach the same offset, or choose one with { offsets }`,
      { name, source, offsets },
    )
  }
}

const gone: Write = { value: undefined, isDeleted: true, expiresAt: undefined }

/** Parts of large transactions precede their commit, which does not name their keys: then all rows are compared. */
function noteChanges<V>(source: Source<V>, entries: readonly Entry[]): void {
  if (entries.length === 0) source.changed = null
  for (const { type, data } of entries) {
    if (type !== 'w') {
      if (type === 'c') source.changed = null
      continue
    }
    const { changed } = source
    if (!changed) return
    const { s = [], d = [], x = [] } = data as Ops
    for (let i = 0; i < s.length; i += 2) changed.add(s[i] as string)
    for (const key of d) changed.add(key)
    for (let i = 0; i < x.length; i += 2) changed.add(x[i] as string)
  }
}
