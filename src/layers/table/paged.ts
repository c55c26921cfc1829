// A table larger than memory: rows stay in chunks and are read page by page. Log, checkpoints and layout are those of a
// resident table (one can be opened as the other); the difference is that reads may have to wait.

import type { RetentionPolicy } from '../../core/checkpoint/retention.ts'
import { timelineId } from '../../core/coordinate.ts'
import type { Duration } from '../../core/duration.ts'
import { RepriseError } from '../../core/errors.ts'
import { checkOptions, namesOf } from '../../core/options.ts'
import type { Host } from '../../engine/host/host.ts'
import { checkName, type Entity, type Fold, type OpenOptions, opens } from '../../engine/model/definition.ts'
import { type Described, describes, idOf } from '../../engine/model/model.ts'
import type { IndexFunction } from './indexes.ts'
import { tablePrefix } from './layout.ts'
import { checkIsTable, tableModel } from './model.ts'
import { PagedTable } from './paged-handle.ts'
import { openPaged } from './paged-open.ts'
import { applyEntry, type TableState } from './state.ts'
import { tableParts } from './table.ts'
import type { RowMigrations } from './versions.ts'

export interface PagedOptions<V> {
  /** Memory for encoded pages. Default: 64 MB. */
  readonly cacheBytes?: number
  /** Maximum number of changed rows in memory; beyond it, pages are rewritten. Default: 50,000. */
  readonly changedRows?: number
  /** Each index keeps its terms and row keys in memory, not the rows. */
  readonly indexes?: Readonly<Record<string, IndexFunction<V>>>
  /** Version of the rows: raise it when their shape changes, and add a migration for older ones to `migrations`. Default: 1. */
  readonly version?: number
  /**
   * By older version: converts a row to the current version. Pages are migrated as they are read, and all of them with the
   * next checkpoint.
   */
  readonly migrations?: RowMigrations<V>
  /** Time until a row expires, unless `set` overrides it. Keys and expiry times are in memory. */
  readonly ttl?: Duration
  readonly retain?: RetentionPolicy
}

const known = namesOf<PagedOptions<unknown>>()('cacheBytes changedRows indexes version migrations ttl retain')

export interface PagedDefinition<V> extends Entity<PagedTable<V>>, Described {
  readonly kind: 'paged-table'
  readonly name: string
  readonly prefix: string
  readonly fold: Fold<TableState<V>>
}

/** @example const facts = await rp.open(pagedTable<Fact>('facts', { cacheBytes: 256e6 })); await facts.get('k') */
export function pagedTable<V>(name: string, options: PagedOptions<V> = {}): PagedDefinition<V> {
  checkName('table', name)
  checkOptions(`paged table ${name}`, options, known)
  const policy = options.retain ?? { checkpoints: 2, history: 'needed' as const }
  const { cacheBytes = 64e6, changedRows = 50_000, indexes = {}, ttl, version, migrations } = options
  checkCount('cacheBytes', cacheBytes)
  checkCount('changedRows', changedRows)
  const parts = tableParts<V>(name, {
    ...{ retain: policy, indexes },
    ...(ttl !== undefined && { ttl }),
    ...(version !== undefined && { version }),
    ...(migrations && { migrations }),
  })
  const { fold: resident, model, versions } = parts
  // Checkpoints are made here, page by page; the engine's own would need all rows in memory.
  const fold: Fold<TableState<V>> = { ...versions.fold, initial: resident.initial, apply: applyEntry, retain: policy }
  const prefix = `${tablePrefix}${name}`
  const described = tableModel(name, prefix, resident as Fold<never>)
  const held = new WeakMap<Host, Map<string, PagedTable<V>>>()
  return {
    [describes]: described,
    kind: 'paged-table',
    name,
    prefix,
    fold: resident,
    async [opens](engine: Host, id: string | undefined, open: OpenOptions) {
      engine.declare(described)
      const timeline = timelineId(idOf(prefix, id))
      checkIsTable(engine, timeline)
      const tables = held.get(engine) ?? new Map<string, PagedTable<V>>()
      held.set(engine, tables)
      const shared = tables.get(timeline)
      if (shared?.isOpen && !open.takeover) return shared.share()
      // A handle that found damage releases the timeline itself; then the previous checkpoint is used.
      if (shared && !shared.isOpen) await shared.shut()
      const opened = await openPaged<V>(engine.kernel, timeline, { fold, versions, cacheBytes }, open)
      const table = new PagedTable<V>(engine.kernel, opened, model, changedRows, fold)
      tables.set(timeline, table)
      const forget = engine.onClose(() => table.shut())
      table.onShut = () => {
        forget()
        if (tables.get(timeline) === table) tables.delete(timeline)
      }
      await table.recover()
      table.settleMigration()
      return table
    },
  }
}

function checkCount(name: string, count: number): void {
  if (Number.isFinite(count) && count >= 1) return
  throw new RepriseError('INVALID_ARGUMENT', `${name} must be a number of at least 1`, { [name]: count })
}
