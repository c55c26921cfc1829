// Chunks in the database, by namespace and digest.

import type { Digest } from '../../core/coordinate.ts'
import { isReprise } from '../../core/errors.ts'
import type { Blobs, ChunkRow } from '../../core/store/ports.ts'
import type { Connections } from './connect.ts'
import { nowMs } from './functions.ts'
import { rewrite } from './rewrite.ts'

/** Bytes in one statement; a larger chunk goes alone. */
const statementBytesMax = 8 * 1024 * 1024

export function postgresBlobs(connections: Connections, s: string, ns: number): Blobs {
  const read = (digests: readonly Digest[]) => {
    const text = `SELECT encode(digest, 'hex') AS name, bytes FROM ${s}.chunk WHERE ns = $1 AND digest = ANY ($2::bytea[])`
    return connections.rows<{ name: string; bytes: Uint8Array }>(text, [ns, digests.map(hexBytea)], 'safe')
  }
  return {
    async put(chunks, at = 0) {
      connections.checkOpen()
      for (const group of groups(chunks)) {
        // Equal bytes under one digest: the newest touch counts. Sorted, so that two writers cannot deadlock.
        const text = `INSERT INTO ${s}.chunk (ns, digest, bytes, touched_at)
          SELECT $1, substr($2::bytea, 32 * (i.n::integer - 1) + 1, i.named), substr($3::bytea, i.start, i.size), greatest(${nowMs}, $7)
          FROM unnest($4::integer[], $5::integer[], $6::integer[]) WITH ORDINALITY AS i(start, size, named, n) ORDER BY 2
          ON CONFLICT (ns, digest) DO UPDATE SET touched_at = greatest(${s}.chunk.touched_at, excluded.touched_at)`
        let start = 1
        const starts = group.map(({ bytes }) => {
          start += bytes.length
          return start - bytes.length
        })
        const values = [
          ns,
          Buffer.concat(group.map(({ digest }) => digest)),
          Buffer.concat(group.map(({ bytes }) => bytes)),
          starts,
          group.map(({ bytes }) => bytes.length),
          group.map(({ digest }) => digest.length),
          at,
        ]
        await connections.rows(text, values, 'safe')
      }
    },

    async touch(digests, at) {
      connections.checkOpen()
      if (digests.length === 0) return []
      // Locked in one order, so that two writers cannot deadlock.
      const text = `WITH found AS (
          SELECT digest FROM ${s}.chunk WHERE ns = $1 AND digest = ANY ($2::bytea[]) ORDER BY digest FOR NO KEY UPDATE
        ) UPDATE ${s}.chunk c SET touched_at = greatest(c.touched_at, ${nowMs}, $3) FROM found
        WHERE c.ns = $1 AND c.digest = found.digest RETURNING encode(c.digest, 'hex') AS name`
      const rows = await connections.rows<{ name: string }>(text, [ns, digests.map(hexBytea), at], 'safe')
      const found = new Set(rows.map(({ name }) => name))
      return digests.filter((digest) => !found.has(hex(digest)))
    },

    async get(digests) {
      connections.checkOpen()
      if (digests.length === 0) return []
      const rows = await read(digests).catch(async (error) => {
        // One row that the server cannot read must not hide the others.
        if (!isReprise(error, 'STORE_DAMAGED')) throw error
        const single = await Promise.all(digests.map((digest) => read([digest]).catch(nothingIfDamaged)))
        return single.flat()
      })
      const found = new Map(rows.map(({ name, bytes }) => [name, bytes]))
      return digests.map((digest) => found.get(hex(digest)) ?? null)
    },

    async has(digests) {
      connections.checkOpen()
      if (digests.length === 0) return []
      const text = `SELECT encode(digest, 'hex') AS name FROM ${s}.chunk WHERE ns = $1 AND digest = ANY ($2::bytea[])`
      const rows = await connections.rows<{ name: string }>(text, [ns, digests.map(hexBytea)], 'safe')
      const found = new Set(rows.map(({ name }) => name))
      return digests.map((digest) => found.has(hex(digest)))
    },

    async list(after, limit) {
      connections.checkOpen()
      const text = `SELECT digest, octet_length(bytes) AS bytes, touched_at AS "touchedAt" FROM ${s}.chunk
        WHERE ns = $1 AND digest > $2::bytea ORDER BY digest LIMIT $3`
      return connections.rows<ChunkRow>(text, [ns, hexBytea(after ?? new Uint8Array()), Math.max(0, limit)], 'safe')
    },

    async delete(digests, touchedBefore) {
      connections.checkOpen()
      if (digests.length === 0) return 0
      const text = `WITH gone AS (
          DELETE FROM ${s}.chunk WHERE ns = $1 AND digest = ANY ($2::bytea[]) AND touched_at < $3 RETURNING 1
        ) SELECT count(*) AS count FROM gone`
      const values = [ns, digests.map(hexBytea), touchedBefore]
      const rows = await connections.rows<{ count: number }>(text, values, 'unsafe')
      return rows[0]!.count
    },

    rewrite: (change, after, limit) => rewrite(connections, s, ns, 'chunks', change, after, limit),
  }
}

type Chunk = Parameters<Blobs['put']>[0][number]

/** A statement must not name the same row twice, and its size is bounded. */
function groups(chunks: readonly Chunk[]): Chunk[][] {
  const all: Chunk[][] = []
  const seen = new Set<string>()
  let bytes = Number.POSITIVE_INFINITY
  for (const chunk of chunks) {
    const name = hex(chunk.digest)
    if (seen.has(name)) continue
    seen.add(name)
    if (bytes + chunk.bytes.length > statementBytesMax) {
      all.push([])
      bytes = 0
    }
    all.at(-1)!.push(chunk)
    bytes += chunk.bytes.length
  }
  return all
}

function nothingIfDamaged(error: unknown): never[] {
  if (isReprise(error, 'STORE_DAMAGED')) return []
  throw error
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('hex')
}

function hexBytea(bytes: Uint8Array): string {
  return `\\x${hex(bytes)}`
}
