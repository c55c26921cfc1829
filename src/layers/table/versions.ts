// Versions of rows: the shape of a row, as declared by the table's code. The version is part of the fold version, so that
// state of another version is never misread, and of every entry with rows. A migration converts a row of an older version to
// the current one, in a checkpoint, a page, an entry, or a part of a transaction without a commit.

import { RepriseError } from '../../core/errors.ts'
import type { Upcasters } from '../../core/history/fold.ts'
import { Keyed } from '../../core/keyed-state/keyed.ts'
import { checkCount } from '../../core/options.ts'
import { refuseThenable } from '../../core/synchronous.ts'
import type { Fold } from '../../engine/model/definition.ts'
import type { Ops, TableState } from './state.ts'

/** By older version: converts its rows to the current version. */
export type RowMigrations<V> = Readonly<Record<number, (row: never, key: string) => V>>

export type MigrateRow<V> = (row: unknown, key: string) => V

export interface RowVersions<V> {
  readonly fold: Pick<Fold<TableState<V>>, 'version' | 'upcasters' | 'migrations' | 'migrationFor'>
  /** The migration for state of another fold version; null: there is none. */
  migrationOf(foldVersion: string): MigrateRow<V> | null
}

const layout = 'table/1'

/** @example versionName(2) // 'table/1 rows 2' */
function versionName(version: number): string {
  return version === 1 ? layout : `${layout} rows ${version}`
}

export function rowVersions<V>(name: string, version = 1, migrations: RowMigrations<V> = {}): RowVersions<V> {
  check(name, version, migrations)
  const byName = new Map(
    Object.entries(migrations).map(([from, run]) => [versionName(Number(from)), guarded<V>(name, Number(from), run)]),
  )
  const states = [...byName].map(([from, run]) => [from, (old: TableState<unknown>) => migrated(old, run)] as const)
  return {
    fold: {
      version: versionName(version),
      upcasters: version === 1 ? undefined : upcastersOf(name, version, byName),
      migrations: byName.size === 0 ? undefined : Object.fromEntries(states),
      migrationFor: (from) => `table('${name}', { migrations: { ${numberOf(from)}: (row) => … } })`,
    },
    migrationOf: (foldVersion) => byName.get(foldVersion) ?? null,
  }
}

function numberOf(foldVersion: string): string {
  return foldVersion === layout ? '1' : foldVersion.slice(foldVersion.lastIndexOf(' ') + 1)
}

function check(name: string, version: number, migrations: object): void {
  checkCount(`table ${name}: the version of its rows`, version)
  for (const [from, run] of Object.entries(migrations)) {
    if (/^[1-9]\d*$/.test(from) && Number(from) < version && typeof run === 'function') continue
    const what = `table ${name}: a migration must be a function from a version below ${version} (got ${from})`
    throw new RepriseError('INVALID_ARGUMENT', what, { name, from, version })
  }
}

function guarded<V>(name: string, from: number, run: (row: never, key: string) => V): MigrateRow<V> {
  return (row, key) => {
    let reason = 'returned undefined'
    let next: V | undefined
    try {
      next = run(row as never, key)
    } catch (error) {
      reason = `threw: ${error instanceof Error ? error.message : String(error)}`
    }
    refuseThenable(next, `table ${name}: the migration from version ${from}`, 'compute the new row from the old alone')
    if (next !== undefined) return next
    const what = `table ${name}: the migration of row ${JSON.stringify(key)} from version ${from} ${reason}`
    throw new RepriseError('FOLD_FAILED', what, { name, key, from })
  }
}

/** Every entry with rows of an older version is migrated in one step. */
function upcastersOf<V>(name: string, version: number, byName: ReadonlyMap<string, MigrateRow<V>>): Upcasters {
  const linksOf = (type: string) => {
    const links: [number, { type: string; version: number; data: (data: unknown) => unknown }][] = []
    for (let from = 1; from < version; from++) {
      const run = byName.get(versionName(from))
      const data = (ops: unknown) => {
        if (run) return migratedOps(ops as Ops, run)
        const what = `table ${name}: its history has rows of version ${from}, but this code (version ${version}) has no migration from it`
        throw new RepriseError('MIGRATION_MISSING', what, { name, from, to: version })
      }
      links.push([from, { type, version, data }])
    }
    return { version, from: Object.fromEntries(links) }
  }
  return { w: linksOf('w'), p: linksOf('p') }
}

function migrated<V>(old: TableState<unknown>, run: MigrateRow<V>): TableState<V> {
  const rows = new Keyed<V>()
  for (const [key, row] of old.rows) rows.set(key, run(row, key))
  return { ...old, rows, pending: migratedPending(old.pending, run) }
}

/** Migrates parts of transactions without a commit. */
export function migratedPending<V>(pending: Keyed<Ops>, run: MigrateRow<V>): Keyed<Ops> {
  const parts = new Keyed<Ops>()
  for (const [key, ops] of pending) parts.set(key, migratedOps(ops, run))
  return parts
}

function migratedOps<V>(ops: Ops, run: MigrateRow<V>): Ops {
  if (!ops.s) return ops
  return { ...ops, s: ops.s.map((item, i) => (i % 2 === 0 ? item : run(item, ops.s![i - 1] as string))) }
}
