// A table larger than memory: rows stay in chunks and come in page by page. The same log, the same checkpoints and the same
// layout as a resident table (one can be opened as the other); what differs is that reads may have to wait.

import { type ManifestId, timelineId } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import type { KeyedRange } from '../../core/keyed.ts'
import { encodeManifest } from '../../core/manifest.ts'
import type { ManifestRecord } from '../../core/ports.ts'
import type { RetentionPolicy } from '../../core/retention.ts'
import { abandonCapture, captureState, writeCapture } from '../../engine/capture.ts'
import { ChunkOutput } from '../../engine/capture-output.ts'
import { checkName, type Entity, type Fold, type OpenOptions, opens } from '../../engine/definition.ts'
import { type Kernel, newId } from '../../engine/kernel.ts'
import { stateIo } from '../../engine/kernel-io.ts'
import type { RecoveryReport } from '../../engine/report.ts'
import type { Reprise } from '../../engine/reprise.ts'
import { verifyChunks } from '../../engine/restore.ts'
import { retain } from '../../engine/retain.ts'
import { writeRows } from './page-writer.ts'
import { type OpenedPaged, openPaged } from './paged-open.ts'
import type { PageStats } from './pages.ts'
import { applyEntry, type Offset, type Ops, type TableState, unfinished } from './state.ts'
import { tableParts, tablePrefix } from './table.ts'

export interface PagedOptions {
  /** Bytes of decoded pages that stay in memory; default 64 MB. */
  readonly cacheBytes?: number
  /** Rows that may be newer than the pages, in memory; default 50,000. Beyond it pages are written anew. */
  readonly changedRows?: number
  readonly retain?: RetentionPolicy
}

export interface PagedDefinition<V> extends Entity<PagedTable<V>> {
  readonly kind: 'paged-table'
  readonly name: string
  readonly prefix: string
  readonly fold: Fold<TableState<V>>
}

const version = 'table/1'
const entryRows = 4096

/** @example const facts = await rp.open(pagedTable<Fact>('facts', { cacheBytes: 256e6 })); await facts.get('k') */
export function pagedTable<V>(name: string, options: PagedOptions = {}): PagedDefinition<V> {
  checkName('table', name)
  const policy = options.retain ?? { checkpoints: 2, history: 'needed' as const }
  const { fold: resident } = tableParts<V>(name, { retain: policy })
  // Checkpoints are made here, page by page; the engine's own would need all rows in memory.
  const fold: Fold<TableState<V>> = { version, initial: resident.initial, apply: applyEntry, retain: policy }
  const prefix = `${tablePrefix}${name}`
  const held = new WeakMap<Reprise, Map<string, PagedTable<V>>>()
  return {
    kind: 'paged-table',
    name,
    prefix,
    fold: resident,
    async [opens](engine: Reprise, id: string | undefined, open: OpenOptions) {
      engine.register(prefix, resident)
      const timeline = timelineId(id === undefined ? prefix : `${prefix}/${id}`)
      const { cacheBytes = 64e6, changedRows = 50_000 } = options
      const tables = held.get(engine) ?? new Map<string, PagedTable<V>>()
      held.set(engine, tables)
      if (tables.get(timeline)?.isOpen && !open.takeover) {
        throw new RepriseError('OWNED', `${timeline} is open in this process already`, { timeline })
      }
      const opened = await openPaged<V>(engine.kernel, timeline, fold, cacheBytes, open, () => undefined)
      const table = new PagedTable<V>(engine.kernel, opened, changedRows, policy)
      tables.set(timeline, table)
      engine.onClose(() => table.close())
      await table.recover()
      return table
    },
  }
}

/** Inside a transaction of a paged table: reads wait, writes are kept until the end. */
export interface PagedTransaction<V> {
  get(key: string): Promise<V | undefined>
  set(key: string, value: V): void
  delete(key: string): void
  advance(source: string, offset: Offset): void
}

export class PagedTable<V> {
  readonly #kernel: Kernel
  readonly #opened: OpenedPaged<V>
  readonly #changedRows: number
  readonly #policy: RetentionPolicy
  #base: OpenedPaged<V>['base']
  #waiting: { readonly key: string; readonly value: V | undefined; done(): void; fail(error: unknown): void }[] = []
  #turn: Promise<unknown> = Promise.resolve()
  #checkpointing: Promise<unknown> | null = null
  #isClosed = false

  constructor(kernel: Kernel, opened: OpenedPaged<V>, changedRows: number, policy: RetentionPolicy) {
    this.#kernel = kernel
    this.#opened = opened
    this.#base = opened.base
    this.#changedRows = changedRows
    this.#policy = policy
  }

  get isOpen(): boolean {
    return !this.#isClosed && this.#opened.open.broken === null
  }

  get recovery(): RecoveryReport {
    return this.#opened.open.recovery
  }

  get coordinate() {
    return this.#opened.open.coordinate
  }

  /** How the cache does: pages found in it and pages read. */
  get stats(): PageStats {
    return this.#opened.rows.stats
  }

  /** For the definition: undoes what a crash cut short. */
  async recover(): Promise<void> {
    const found = unfinished(this.#opened.open.state)
    if (found.length > 0) await this.#opened.open.write(found.map((t) => ({ type: 'u', data: { t } })))
  }

  get(key: string): Promise<V | undefined> {
    return this.#opened.rows.get(key)
  }

  entries(range: KeyedRange = {}): AsyncGenerator<[string, V]> {
    return this.#opened.rows.entries(range)
  }

  offset(source: string): Offset | undefined {
    return this.#opened.open.state.offsets.get(source)
  }

  async set(key: string, value: V): Promise<void> {
    if (value === undefined)
      throw new RepriseError('INVALID_ARGUMENT', 'undefined is no value for a row; delete it', { key })
    await this.#submit(key, value)
  }

  async delete(key: string): Promise<void> {
    await this.#submit(key, undefined)
  }

  /** One at a time: nothing else is written while it runs, so it is serializable. */
  transaction<R>(run: (tx: PagedTransaction<V>) => Promise<R> | R): Promise<R> {
    return this.#inTurn(async () => {
      const writes = new Map<string, V | undefined>()
      const o: Offset[] = []
      const result = await run({
        get: async (key) => (writes.has(key) ? writes.get(key) : await this.get(key)),
        set: (key, value) => void writes.set(key, value),
        delete: (key) => void writes.set(key, undefined),
        advance: (source, offset) => {
          const before = this.offset(source)
          if (before !== undefined && (typeof before !== typeof offset || offset < before)) {
            throw new RepriseError('CONFLICT', `the offset of ${source} does not move back`, { source, before, offset })
          }
          o.push(source, offset)
        },
      })
      if (writes.size > 0 || o.length > 0) await this.#opened.open.write([{ type: 'w', data: opsOf(writes, o) }])
      return result
    })
  }

  /** Writes what changed since the last one, page by page. */
  async checkpoint(): Promise<ManifestRecord> {
    await this.#checkpointing
    const made = this.#checkpoint()
    this.#checkpointing = made.then(
      () => {
        this.#checkpointing = null
      },
      () => {
        this.#checkpointing = null
      },
    )
    return await made
  }

  async close(): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    await this.#turn.catch(() => undefined)
    await this.#checkpointing
    if (!this.#opened.open.broken) await this.#opened.open.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  #submit(key: string, value: V | undefined): Promise<void> {
    return new Promise((done, fail) => {
      this.#waiting.push({ key, value, done, fail })
      if (this.#waiting.length === 1) void this.#inTurn(() => this.#flush()).catch(() => undefined)
    })
  }

  async #flush(): Promise<void> {
    await new Promise<void>((resolve) => this.#kernel.clock.soon(resolve))
    // Memory is bounded: whoever writes faster than pages can be written waits here.
    if (this.#opened.rows.stats.changedRows > 4 * this.#changedRows) await this.#checkpointing
    const batch = this.#waiting
    this.#waiting = []
    try {
      const entries = []
      for (let at = 0; at < batch.length; at += entryRows) {
        const writes = new Map(batch.slice(at, at + entryRows).map(({ key, value }) => [key, value]))
        entries.push({ type: 'w', data: opsOf(writes, []) })
      }
      await this.#opened.open.write(entries)
      for (const { done } of batch) done()
    } catch (error) {
      for (const { fail } of batch) fail(error)
    }
    if (this.#opened.rows.recent.size >= this.#changedRows && !this.#checkpointing && !this.#isClosed) {
      void this.checkpoint().catch((error) => {
        this.#kernel.events.emit('checkpoint-failed', { timeline: this.#opened.open.id, error, failuresInARow: 1 })
      })
    }
  }

  #inTurn<R>(work: () => Promise<R>): Promise<R> {
    if (this.#isClosed) return Promise.reject(new RepriseError('CLOSED', 'the table was closed'))
    const next = this.#turn.then(work)
    this.#turn = next.catch(() => undefined)
    return next
  }

  async #checkpoint(): Promise<ManifestRecord> {
    const { open, rows } = this.#opened
    const io = stateIo(this.#kernel)
    // Frozen in one go with the coordinate: nothing can be applied in between.
    const { coordinate, digest } = open
    const frozen = rows.freeze()
    const { expiry, pending, offsets } = open.state
    const others = {
      shape: 'object',
      value: {},
      'value.expiry': expiry,
      'value.pending': pending,
      'value.offsets': offsets,
    }
    const capture = captureState(others, this.#base?.capture ?? null, io)
    try {
      const rest = await writeCapture(capture, io)
      const output = new ChunkOutput(io)
      const written = await writeRows(rows, frozen, output, this.#changedRows)
      await output.finish()
      const parts = [...rest.parts, written.part]
      await verifyChunks({ parts }, io, [...rest.addedChunks, ...output.added])
      const body = encodeManifest({ ...coordinate, digest, foldVersion: version, parts })
      const now = this.#kernel.worker.now()
      const record: ManifestRecord = {
        ...{ id: newId(this.#kernel.random) as ManifestId, seq: coordinate.seq, epoch: coordinate.epoch, digest },
        ...{ body, bodyDigest: this.#kernel.hash(body), baseId: (this.#base?.id ?? null) as ManifestId | null },
        ...{ createdAt: now, trigger: 'pages', label: null, isPinned: false, foldVersion: version },
        totalBytes: rest.totalBytes + written.bytes,
        addedBytes: rest.addedBytes + output.addedBytes,
        ...{ verifiedAt: now, invalid: null, drilledAt: null, drill: null },
      }
      await open.publish(record)
      written.settle()
      this.#base = { id: record.id, capture: rest.base }
      const [head] = await this.#kernel.store.head([open.id])
      if (head?.epoch === open.epoch) await retain(this.#kernel, head, this.#policy, version)
      return record
    } catch (error) {
      abandonCapture(capture)
      if (rows.frozen) rows.thaw()
      throw error
    }
  }
}

function opsOf<V>(writes: ReadonlyMap<string, V | undefined>, o: readonly Offset[]): Ops {
  const s: unknown[] = []
  const d: string[] = []
  for (const [key, value] of writes) value === undefined ? d.push(key) : s.push(key, value)
  return { ...(s.length > 0 && { s }), ...(d.length > 0 && { d }), ...(o.length > 0 && { o }) }
}
