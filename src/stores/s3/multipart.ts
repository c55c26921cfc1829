// An object that is written in parts: it exists as a whole once the parts are joined, and not before. An unjoined
// upload is invisible but costs storage, so it is aborted if possible.

import { randomUUID } from 'node:crypto'
import type { S3Client } from './client.ts'

const giveUpMs = 10_000

/** @example const upload = await Multipart.begin(client, 'app.rpb'); await upload.put(0, bytes); await upload.join(false) */
export class Multipart {
  readonly #client: S3Client
  readonly #key: string
  readonly #id: string
  readonly #mark: string
  readonly #signal: AbortSignal | undefined
  readonly #tags: string[] = []

  private constructor(client: S3Client, key: string, id: string, mark: string, signal: AbortSignal | undefined) {
    this.#client = client
    this.#key = key
    this.#id = id
    this.#mark = mark
    this.#signal = signal
  }

  static async begin(client: S3Client, key: string, signal?: AbortSignal): Promise<Multipart> {
    const mark = randomUUID()
    const { bytes } = await client.send({
      ...{ method: 'POST', key, query: { uploads: '' }, what: `write ${key}`, signal },
      headers: { 'x-amz-meta-reprise-write': mark },
    })
    const id = /<UploadId>([^<]*)<\/UploadId>/.exec(new TextDecoder().decode(bytes))?.[1] ?? ''
    return new Multipart(client, key, id, mark, signal)
  }

  /** Numbered from 0, in any order. All but the last have at least 5 MiB. */
  async put(i: number, body: Uint8Array): Promise<void> {
    const query = { partNumber: String(i + 1), uploadId: this.#id }
    const { headers } = await this.#client.send({ ...this.#about, method: 'PUT', query, body })
    this.#tags[i] = headers.get('etag') ?? ''
  }

  /** False: `onlyNew`, and the object exists already. */
  async join(onlyNew: boolean): Promise<boolean> {
    const parts = this.#tags.map((tag, i) => `<Part><PartNumber>${i + 1}</PartNumber><ETag>${tag}</ETag></Part>`)
    const list = `<CompleteMultipartUpload>${parts.join('')}</CompleteMultipartUpload>`
    const body = new TextEncoder().encode(list)
    const query = { uploadId: this.#id }
    try {
      return await this.#client.write({ ...this.#about, method: 'POST', query, body }, onlyNew, this.#mark)
    } catch (error) {
      this.#signal?.throwIfAborted()
      // After a lost answer, the repeated request finds no upload: then the object has our mark.
      const look = { method: 'HEAD', key: this.#key, accepts: [404], what: `inspect ${this.#key}` } as const
      const { headers } = await this.#client.send(look)
      if (headers.get('x-amz-meta-reprise-write') === this.#mark) return true
      throw error
    }
  }

  /** Works even after its signal has fired. */
  async giveUp(): Promise<void> {
    const { key, query, what } = { key: this.#key, query: { uploadId: this.#id }, what: `give up ${this.#key}` }
    const signal = AbortSignal.timeout(giveUpMs)
    await this.#client.send({ method: 'DELETE', key, query, accepts: [404], what, signal }).catch(() => undefined)
  }

  get #about() {
    return { key: this.#key, what: `write ${this.#key}`, signal: this.#signal }
  }
}
