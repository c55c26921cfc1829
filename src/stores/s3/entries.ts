// Cache entries as objects: one each, read and written as streams. An entry that fits into a part is written by one
// request, a larger one in parts that are joined at the end; either way it exists as a whole or not at all.

import { RepriseError } from '../../core/errors.ts'
import { S3Client, type S3ClientOptions } from './client.ts'
import { locate } from './location.ts'
import { Multipart } from './multipart.ts'

const partBytes = 8 * 1024 * 1024
/** The maximum number of parts. */
const partsMax = 10_000

/** @example const entries = await S3Entries.open('s3://caches/app'); await entries.put('a', body, true, signal) */
export class S3Entries {
  readonly #client: S3Client
  /** Some stores refuse unknown headers. */
  #hasConditions = true

  constructor(client: S3Client) {
    this.#client = client
  }

  static async open(url: string, options: S3ClientOptions = {}): Promise<S3Entries> {
    return new S3Entries(await S3Client.open(await locate(url, options.env), options))
  }

  /** Null: not found. */
  async get(key: string, signal: AbortSignal): Promise<AsyncIterable<Uint8Array> | null> {
    const answer = await this.#client.stream({ method: 'GET', key, accepts: [404], what: `read ${key}`, signal })
    return answer.status === 404 ? null : answer.body
  }

  /** With `onlyNew`, an existing object is kept, if the store supports conditions. LIMIT_EXCEEDED: the body is too large. */
  async put(key: string, body: AsyncIterable<Uint8Array>, onlyNew: boolean, signal: AbortSignal): Promise<void> {
    let upload: Multipart | null = null
    let count = 0
    let isJoined = false
    try {
      for await (const { bytes, isLast } of partsOf(body)) {
        if (!upload && isLast) {
          await this.#conditionally(onlyNew, (isNew) => this.#putOne(key, bytes, isNew, signal))
          return
        }
        if (count === partsMax) {
          const what = `${key} is larger than ${partsMax} parts of ${partBytes} bytes`
          throw new RepriseError('LIMIT_EXCEEDED', what, { limitBytes: partsMax * partBytes })
        }
        upload ??= await Multipart.begin(this.#client, key, signal)
        await upload.put(count++, bytes)
      }
      isJoined = await this.#conditionally(onlyNew, (isNew) => upload!.join(isNew))
    } finally {
      if (!isJoined) await upload?.giveUp()
    }
  }

  /** False: it exists already. */
  async #putOne(key: string, body: Uint8Array, onlyNew: boolean, signal: AbortSignal): Promise<boolean> {
    const condition = onlyNew && { headers: { 'if-none-match': '*' }, accepts: [412] }
    const request = { method: 'PUT', key, body, what: `write ${key}`, signal } as const
    return (await this.#client.send({ ...request, ...condition })).status !== 412
  }

  async #conditionally(onlyNew: boolean, write: (onlyNew: boolean) => Promise<boolean>): Promise<boolean> {
    if (!onlyNew || !this.#hasConditions) return await write(false)
    try {
      return await write(true)
    } catch (error) {
      if (!(error instanceof RepriseError) || error.data.status !== 501) throw error
      this.#hasConditions = false
      return await write(false)
    }
  }
}

/** All of the same size, except for the last; one empty part for an empty body. */
async function* partsOf(body: AsyncIterable<Uint8Array>): AsyncGenerator<{ bytes: Uint8Array; isLast: boolean }> {
  let pieces: Uint8Array[] = []
  let size = 0
  for await (const piece of body) {
    for (let at = 0; at < piece.length; ) {
      if (size === partBytes) {
        yield { bytes: joined(pieces, size), isLast: false }
        pieces = []
        size = 0
      }
      const taken = piece.subarray(at, at + partBytes - size)
      pieces.push(taken)
      size += taken.length
      at += taken.length
    }
  }
  yield { bytes: joined(pieces, size), isLast: true }
}

function joined(pieces: readonly Uint8Array[], size: number): Uint8Array {
  const all = new Uint8Array(size)
  let at = 0
  for (const piece of pieces) {
    all.set(piece, at)
    at += piece.length
  }
  return all
}
