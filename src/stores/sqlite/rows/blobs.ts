// Chunks in the database. Their bytes are stored apart from their row: touching a chunk must not rewrite the bytes.
//
// The bytes of each stripe are in a table of their own, so that one damaged page, even the root of a tree, affects the chunks
// of one stripe only: parity rebuilds those (core/checkpoint/parity.ts). The stripe is the remainder of an id. The id of a
// chunk is stored twice, in the table and in its index, and each is read when the other fails.

import { stripes } from '../../../core/checkpoint/parity.ts'
import { type Digest, fromHex, toHex } from '../../../core/coordinate.ts'
import type { Blobs, Change, ChunkRow, Rewritten, StoredChunk } from '../../../core/store/ports.ts'
import type { Connection } from '../file/connection.ts'
import type { SqlRow } from '../file/driver.ts'
import { isDamage, unlessDamaged } from '../file/failure.ts'
import type { Writing } from '../writing/writing.ts'

/** Gives blobs access to the reading and writing sides of the store. */
export interface BlobAccess {
  read<Result>(work: (connection: Connection, space: number) => Result): Promise<Result>
  write<Result>(work: (writing: Writing) => Result): Promise<Result>
}

/** Ids are a multiple of this plus the number of the stripe, from 1. Ids of schema version 1 follow no rule. */
const idStep = 16
const plainTable = 'reprise_chunk_bytes'
const byIndex = 'INDEXED BY sqlite_autoindex_reprise_chunk_1'

export class SqliteBlobs implements Blobs {
  readonly #access: BlobAccess

  constructor(access: BlobAccess) {
    this.#access = access
  }

  async put(chunks: readonly StoredChunk[], at = 0): Promise<void> {
    if (chunks.length === 0) return
    await this.#access.write((writing) => {
      for (const chunk of chunks) putOne(writing, chunk, at)
    })
  }

  async touch(digests: readonly Digest[], at: number): Promise<Digest[]> {
    if (digests.length === 0) return []
    return this.#access.write((writing) => {
      writing.hasAside = true
      return digests.filter((digest) => !touchOne(writing, digest, at))
    })
  }

  get(digests: readonly Digest[]): Promise<(Uint8Array | null)[]> {
    return this.#access.read((connection, space) =>
      digests.map((digest) => {
        const id = findId(connection, space, digest)
        return id === null ? null : bytesOf(connection, id)
      }),
    )
  }

  has(digests: readonly Digest[]): Promise<boolean[]> {
    const sql = `SELECT 1 FROM reprise_chunk ${byIndex} WHERE space = ? AND digest = ?`
    return this.#access.read((connection, space) =>
      digests.map((digest) => unlessDamaged(() => connection.get(sql, space, digest), undefined) !== undefined),
    )
  }

  list(after: Digest | null, limit: number): Promise<ChunkRow[]> {
    const where = 'WHERE space = ? AND digest > ? ORDER BY digest LIMIT ?'
    const columns = 'SELECT digest, size, touched_at FROM reprise_chunk'
    return this.#access.read((connection, space) => {
      const all = (sql: string) => connection.all(sql, space, after ?? new Uint8Array(), Math.max(0, limit))
      try {
        return all(`${columns} ${where}`).map(toChunkRow)
      } catch (error) {
        if (!isDamage(error)) throw error
      }
      // Read without the index; if the table is damaged, read the index alone: the ages of chunks are then unknown.
      const rows = unlessDamaged(() => all(`${columns} NOT INDEXED ${where}`), null)
      return (rows ?? all(`SELECT digest FROM reprise_chunk ${byIndex} ${where}`)).map(toChunkRow)
    })
  }

  async delete(digests: readonly Digest[], touchedBefore: number): Promise<number> {
    if (digests.length === 0) return 0
    return this.#access.write((writing) => {
      const { connection, space } = writing
      let count = 0
      for (const digest of digests) {
        const sql = 'SELECT id FROM reprise_chunk WHERE space = ? AND digest = ? AND touched_at < ?'
        const id = connection.get(sql, space, digest, touchedBefore)?.id as number | undefined
        if (id === undefined) continue
        connection.run('DELETE FROM reprise_chunk WHERE id = ?', id)
        for (const table of tablesOf(id)) connection.run(`DELETE FROM ${table} WHERE id = ?`, id)
        count += 1
      }
      writing.hasAside = count > 0
      return count
    })
  }

  rewrite(change: Change, after: string | null, limit: number): Promise<Rewritten> {
    return this.#access.write((writing) => {
      const { connection, space } = writing
      connection.exec('PRAGMA secure_delete = ON')
      const sql = 'SELECT id, digest FROM reprise_chunk WHERE space = ? AND digest > ? ORDER BY digest LIMIT ?'
      const rows = connection.all(sql, space, after === null ? new Uint8Array() : fromHex(after), Math.max(1, limit))
      let changed = 0
      for (const { id } of rows) {
        const stored = bytesOf(connection, id as number)
        const bytes = stored ? change(stored) : null
        if (!bytes) continue
        for (const table of tablesOf(id as number)) {
          connection.run(`UPDATE ${table} SET bytes = ? WHERE id = ?`, bytes, id!)
        }
        connection.run('UPDATE reprise_chunk SET size = ? WHERE id = ?', bytes.length, id!)
        changed += 1
      }
      writing.hasAside = changed > 0
      const next = rows.length >= Math.max(1, limit) ? toHex(rows.at(-1)!.digest as Uint8Array) : null
      return { next, seen: rows.length, changed, left: 0 }
    })
  }
}

/** For a digest that is not in the index, the table is scanned: the missing index entry may be damage. */
function findId(connection: Connection, space: number, digest: Digest): number | null {
  const find = (how: string) => {
    const sql = `SELECT id FROM reprise_chunk ${how} WHERE space = ? AND digest = ?`
    return unlessDamaged(() => connection.get(sql, space, digest)?.id as number | undefined, undefined)
  }
  return find(byIndex) ?? find('NOT INDEXED') ?? null
}

function bytesOf(connection: Connection, id: number): Uint8Array | null {
  for (const table of tablesOf(id)) {
    const row = unlessDamaged(() => connection.get(`SELECT bytes FROM ${table} WHERE id = ?`, id), undefined)
    if (row) return row.bytes as Uint8Array
  }
  return null
}

/** The tables that may hold the bytes of this id, the likeliest first. */
function tablesOf(id: number): string[] {
  const stripe = (id % idStep) - 1
  return stripe >= 0 && stripe < stripes ? [tableOf(stripe), plainTable] : [plainTable]
}

function tableOf(stripe: number | null): string {
  return stripe === null ? plainTable : `${plainTable}_${stripe}`
}

/** False if the chunk does not exist. */
function touchOne({ connection, space, now }: Writing, digest: Digest, at: number): boolean {
  const touch = 'UPDATE reprise_chunk SET touched_at = ? WHERE space = ? AND digest = ?'
  return connection.run(touch, Math.max(now, at), space, digest) > 0
}

/** All tables with bytes of chunks. */
export const chunkTables: readonly string[] = [
  plainTable,
  ...Array.from({ length: stripes }, (_, stripe) => tableOf(stripe)),
]

function putOne(writing: Writing, { digest, bytes, stripe }: StoredChunk, at: number): void {
  const { connection, space, now } = writing
  writing.hasAside = true
  if (touchOne(writing, digest, at)) return
  const id = putBytes(connection, bytes, stripe ?? null)
  const sql = 'INSERT INTO reprise_chunk (id, space, digest, size, touched_at) VALUES (?, ?, ?, ?, ?)'
  connection.run(sql, id, space, digest, bytes.length, Math.max(now, at))
}

/** A stripe that can no longer be written is skipped. */
function putBytes(connection: Connection, bytes: Uint8Array, wanted: number | null): number {
  const last = Number(connection.get('SELECT max(id) AS id FROM reprise_chunk')?.id ?? 0)
  const next = (Math.floor(last / idStep) + 1) * idStep
  const others = Array.from({ length: stripes }, (_, i) => ((wanted ?? 0) + i) % stripes)
  const choices: (number | null)[] = wanted === null ? [null, ...others] : others
  for (const [tried, stripe] of choices.entries()) {
    const id = stripe === null ? next : next + stripe + 1
    try {
      connection.run(`INSERT INTO ${tableOf(stripe)} (id, bytes) VALUES (?, ?)`, id, bytes)
      return id
    } catch (error) {
      if (!isDamage(error) || tried === choices.length - 1) throw error
    }
  }
  throw new Error('unreachable: there is at least one stripe')
}

function toChunkRow(row: SqlRow): ChunkRow {
  return {
    digest: row.digest as Uint8Array,
    bytes: (row.size as number | undefined) ?? 0,
    touchedAt: (row.touched_at as number | undefined) ?? Number.MAX_SAFE_INTEGER,
  }
}
