// Chunks by digest, in the memory world.

import { type Digest, toHex } from '../../core/coordinate.ts'
import type { Blobs, ChunkRow } from '../../core/store/ports.ts'
import type { Space } from './world.ts'

export function memoryBlobs(open: () => Space, clock: () => number): Blobs {
  return {
    async put(chunks, at = 0) {
      const space = open()
      for (const { digest, bytes } of chunks) {
        const key = toHex(digest)
        const before = space.chunks.get(key)
        const kept = before ?? { digest: new Uint8Array(digest), bytes: new Uint8Array(bytes) }
        space.chunks.set(key, { digest: kept.digest, bytes: kept.bytes, touchedAt: Math.max(clock(), at) })
      }
    },

    async touch(digests, at) {
      const space = open()
      return digests.filter((digest) => {
        const chunk = space.chunks.get(toHex(digest))
        if (chunk) space.chunks.set(toHex(digest), { ...chunk, touchedAt: Math.max(clock(), at) })
        return !chunk
      })
    },

    async get(digests) {
      const space = open()
      return digests
        .map((digest) => space.chunks.get(toHex(digest))?.bytes ?? null)
        .map((bytes) => bytes && new Uint8Array(bytes))
    },

    async has(digests) {
      const space = open()
      return digests.map((digest) => space.chunks.get(toHex(digest)) !== undefined)
    },

    async list(after, limit) {
      const space = open()
      const start = after === null ? '' : toHex(after)
      const keys = [...space.chunks.entries()].map(([key]) => key).filter((key) => key > start)
      keys.sort()
      return keys.slice(0, Math.max(0, limit)).map((key): ChunkRow => {
        const { digest, bytes, touchedAt } = space.chunks.get(key)!
        return { digest: new Uint8Array(digest), bytes: bytes.length, touchedAt }
      })
    },

    async rewrite(change) {
      const space = open()
      let changed = 0
      for (const [key, state] of [...space.chunks.entries()]) {
        const bytes = change(new Uint8Array(state.bytes))
        if (!bytes) continue
        changed += 1
        space.chunks.set(key, { ...state, bytes: new Uint8Array(bytes) })
      }
      return { next: null, seen: space.chunks.size, changed, left: 0 }
    },

    async delete(digests: readonly Digest[], touchedBefore: number) {
      const space = open()
      let count = 0
      for (const digest of digests) {
        const key = toHex(digest)
        const chunk = space.chunks.get(key)
        if (chunk && chunk.touchedAt < touchedBefore && space.chunks.delete(key)) count += 1
      }
      return count
    },
  }
}
