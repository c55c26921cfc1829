// Chunks in the database. Their bytes lie apart from their row: touching a chunk must not rewrite it.

import { type Digest, fromHex, toHex } from '../../core/coordinate.ts'
import type { Blobs, Change, ChunkRow, Rewritten } from '../../core/ports.ts'
import type { Connection } from './connection.ts'
import type { Writing } from './writing.ts'

/** How the blobs reach the two sides of the store. */
export interface BlobAccess {
  read<Result>(work: (connection: Connection, space: number) => Result): Promise<Result>
  write<Result>(work: (writing: Writing) => Result): Promise<Result>
}

type Chunk = { readonly digest: Digest; readonly bytes: Uint8Array }

export class SqliteBlobs implements Blobs {
  readonly #access: BlobAccess

  constructor(access: BlobAccess) {
    this.#access = access
  }

  async put(chunks: readonly Chunk[], at = 0): Promise<void> {
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
    // Two lookups by key and no join: with statistics from when there were few chunks, a join would go through all of them.
    const sql = `SELECT bytes FROM reprise_chunk_bytes WHERE id = (
      SELECT id FROM reprise_chunk INDEXED BY sqlite_autoindex_reprise_chunk_1 WHERE space = ? AND digest = ?)`
    return this.#access.read((connection, space) =>
      digests.map((digest) => (connection.get(sql, space, digest)?.bytes as Uint8Array | undefined) ?? null),
    )
  }

  list(after: Digest | null, limit: number): Promise<ChunkRow[]> {
    const sql = `SELECT digest, size, touched_at FROM reprise_chunk WHERE space = ? AND digest > ? ORDER BY digest LIMIT ?`
    return this.#access.read((connection, space) =>
      connection.all(sql, space, after ?? new Uint8Array(), Math.max(0, limit)).map((row) => ({
        digest: row.digest as Uint8Array,
        bytes: row.size as number,
        touchedAt: row.touched_at as number,
      })),
    )
  }

  async delete(digests: readonly Digest[], touchedBefore: number): Promise<number> {
    if (digests.length === 0) return 0
    return this.#access.write((writing) => {
      const { connection, space } = writing
      let count = 0
      for (const digest of digests) {
        const sql = 'SELECT id FROM reprise_chunk WHERE space = ? AND digest = ? AND touched_at < ?'
        const id = connection.get(sql, space, digest, touchedBefore)?.id
        if (id === undefined) continue
        connection.run('DELETE FROM reprise_chunk WHERE id = ?', id)
        connection.run('DELETE FROM reprise_chunk_bytes WHERE id = ?', id)
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
        const stored = connection.get('SELECT bytes FROM reprise_chunk_bytes WHERE id = ?', id!)?.bytes
        const bytes = stored instanceof Uint8Array ? change(stored) : null
        if (!bytes) continue
        connection.run('UPDATE reprise_chunk_bytes SET bytes = ? WHERE id = ?', bytes, id!)
        connection.run('UPDATE reprise_chunk SET size = ? WHERE id = ?', bytes.length, id!)
        changed += 1
      }
      writing.hasAside = changed > 0
      const next = rows.length >= Math.max(1, limit) ? toHex(rows.at(-1)!.digest as Uint8Array) : null
      return { next, seen: rows.length, changed, left: 0 }
    })
  }
}

/** False if it is not there. */
function touchOne({ connection, space, now }: Writing, digest: Digest, at: number): boolean {
  const touch = 'UPDATE reprise_chunk SET touched_at = ? WHERE space = ? AND digest = ?'
  return connection.run(touch, Math.max(now, at), space, digest) > 0
}

function putOne(writing: Writing, { digest, bytes }: Chunk, at: number): void {
  const { connection, space, now } = writing
  writing.hasAside = true
  if (touchOne(writing, digest, at)) return
  const sql = 'INSERT INTO reprise_chunk (space, digest, size, touched_at) VALUES (?, ?, ?, ?)'
  const id = connection.insert(sql, space, digest, bytes.length, Math.max(now, at))
  connection.run('INSERT INTO reprise_chunk_bytes (id, bytes) VALUES (?, ?)', id, bytes)
}
