// The most recently used results of this process, encoded: each hit is decoded again, so that callers share no objects.
// Bounded by bytes; a result older than a moment is read from the store again, because another process may have removed it.

import { assert } from '../../core/assert.ts'

interface Kept<T> {
  readonly what: T
  readonly bytes: number
  readonly at: number
}

export class Recent<T> {
  readonly #bytesMax: number
  readonly #freshMs: number
  readonly #kept = new Map<string, Kept<T>>()
  #bytes = 0

  constructor(bytesMax: number, freshMs: number) {
    this.#bytesMax = bytesMax
    this.#freshMs = freshMs
  }

  get(key: string, now: number): T | null {
    const kept = this.#kept.get(key)
    if (!kept) return null
    this.#kept.delete(key)
    if (now - kept.at > this.#freshMs) {
      this.#bytes -= kept.bytes
      return null
    }
    // The most recently used is last.
    this.#kept.set(key, kept)
    return kept.what
  }

  put(key: string, what: T, bytes: number, now: number): void {
    this.forget(key)
    if (bytes > this.#bytesMax / 4) return
    this.#kept.set(key, { what, bytes, at: now })
    this.#bytes += bytes
    for (const oldest of this.#kept.keys()) {
      if (this.#bytes <= this.#bytesMax) return
      this.forget(oldest)
    }
  }

  forget(key: string): void {
    this.#bytes -= this.#kept.get(key)?.bytes ?? 0
    this.#kept.delete(key)
    assert(
      this.#kept.size > 0 || this.#bytes === 0,
      'the bytes in memory are counted when results are added and removed',
    )
  }
}
