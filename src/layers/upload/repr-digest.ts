// The SHA-256 of a whole file for whoever asks for it (RFC 9530: Want-Repr-Digest and Repr-Digest), so that a client knows
// that what it put together from several answers is what lies here. It reads the whole file, so it is made on request only,
// once for each file at a time, and the last ones are remembered.

import { createHash } from 'node:crypto'
import type { UploadedFile } from './file.ts'

const rememberedMax = 64

/** Whether `sha-256` is among what is wanted, and not refused with a weight of 0. */
export function wantsSha256(header: string | null): boolean {
  return (header ?? '').split(',').some((each) => /^\s*sha-256\s*(=\s*([1-9]|10)\s*)?$/i.test(each))
}

export class ReprDigests {
  /** By the tag of the file, the one used last at the end. */
  readonly #known = new Map<string, Promise<string>>()

  /** As the header says it. */
  async of(file: UploadedFile): Promise<string> {
    const known = this.#known.get(file.etag) ?? digestOf(file)
    this.#known.delete(file.etag)
    this.#known.set(file.etag, known)
    // One that could not be read is read again by the next who asks.
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
