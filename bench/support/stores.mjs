// New stores for benches: a temporary folder on disk for SQLite, a schema of its own for PostgreSQL, and the bare driver beside
// each, with the same settings, as the limit to compare with.

import { mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** The same driver and settings as the store: WAL, synchronous FULL. */
export async function bareSqlite(path) {
  const { DatabaseSync } = await loadSqlite()
  const db = new DatabaseSync(path)
  db.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL')
  db.exec('CREATE TABLE IF NOT EXISTS entry (position INTEGER PRIMARY KEY, timeline INTEGER, seq INTEGER, data BLOB)')
  const insert = db.prepare('INSERT INTO entry (timeline, seq, data) VALUES (?, ?, ?)')
  return { db, insert }
}

export async function loadSqlite() {
  const [major, minor] = process.versions.node.split('.').map(Number)
  return major > 22 || (major === 22 && minor >= 13)
    ? await import('node:sqlite')
    : await import('@photostructure/sqlite')
}

export function temporaryFolder() {
  const folder = mkdtempSync(join(process.env.REPRISE_BENCH_DIR ?? tmpdir(), 'reprise-bench-'))
  return { folder, path: (name) => join(folder, name), remove: () => rmSync(folder, { recursive: true, force: true }) }
}

export function sizeOf(path) {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0
}

/** REPRISE_BENCH_POSTGRES, or a server that the tests' own helper starts; null with the reason if there is none. */
export async function benchPostgres() {
  if (process.env.REPRISE_BENCH_POSTGRES) return { url: process.env.REPRISE_BENCH_POSTGRES, stop: async () => {} }
  const { startServer } = await import('./postgres.mjs')
  return await startServer()
}
