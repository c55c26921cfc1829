// Chunks in memory, for tests of captures: requests are recorded. Tests that need a fault extend it.

import { createHash } from 'node:crypto'
import { Codec } from '../../src/core/codec/codec.ts'
import { toHex } from '../../src/core/coordinate.ts'
import type { Blobs } from '../../src/core/store/ports.ts'
import type { StateIo } from '../../src/engine/model/state-io.ts'
import { Sealer } from '../../src/engine/storage/seal/seal.ts'

export class Shelf implements Blobs {
  readonly chunks = new Map<string, Uint8Array>()
  asked: string[] = []

  async put(chunks: Parameters<Blobs['put']>[0]) {
    for (const { digest, bytes } of chunks) this.chunks.set(toHex(digest), Uint8Array.from(bytes))
  }

  async touch(digests: Parameters<Blobs['touch']>[0]) {
    return digests.filter((digest) => !this.chunks.has(toHex(digest)))
  }

  async get(digests: Parameters<Blobs['get']>[0]) {
    const names = digests.map(toHex)
    this.asked.push(...names)
    return names.map((name) => this.find(name))
  }

  find(name: string): Uint8Array | null {
    return this.chunks.get(name) ?? null
  }

  async list() {
    return []
  }

  async delete() {
    return 0
  }

  async rewrite() {
    return { next: null, seen: 0, changed: 0, left: 0 }
  }
}

export function ioOn(blobs: Blobs, time: Partial<Pick<StateIo, 'elapsed' | 'yieldToLoop'>> = {}): StateIo {
  return {
    codec: new Codec(),
    sealer: new Sealer(),
    hash: (bytes) => createHash('sha256').update(bytes).digest(),
    blobs,
    elapsed: () => performance.now(),
    yieldToLoop: () => new Promise((resolve) => setImmediate(resolve)),
    ...time,
  }
}
