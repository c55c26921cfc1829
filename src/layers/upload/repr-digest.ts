// The SHA-256 of a whole file on request (RFC 9530: Want-Repr-Digest and Repr-Digest), so that a client can verify a file
// assembled from several responses. It requires reading the whole file, so it is computed only on request, once at a time per
// file, and the most recent digests are cached.

import { createHash } from 'node:crypto'
import type { UploadedFile } from './file.ts'

const rememberedMax = 64

/** True if `sha-256` is wanted, with a weight other than 0. */
export function wantsSha256(header: string | null): boolean {
  return (header ?? '').split(',').some((each) => /^\s*sha-256\s*(=\s*([1-9]|10)\s*)?$/i.test(each))
}

export class ReprDigests {
  /** By the file's etag, the most recently used last. */
  readonly #known = new Map<string, Promise<string>>()

  /** The value of the header. */
  async of(file: UploadedFile): Promise<string> {
    const known = this.#known.get(file.etag) ?? digestOf(file)
    this.#known.delete(file.etag)
    this.#known.set(file.etag, known)
    // After a failed read, the next request reads again.
    known.catch(() => this.#known.delete(file.etag))
    for (const etag of this.#known.keys()) if (this.#known.size > rememberedMax) this.#known.delete(etag)
    return await known
  }
}

async function digestOf(file: UploadedFile): Promise<string> {
  const hash = createHash('sha256')
  for await (const piece of file.read()) hash.update(piece)
  return `sha-256=:${hash.digest('base64')}:`
}
