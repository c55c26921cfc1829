// reprise download URL FILE: downloads a file from any server that supports ranges. Received bytes are in FILE.part;
// FILE.part.json records their source and the digest of the bytes written so far: a killed command resumes there, unless the
// server has different bytes by now, or the part has changed. If the server supports digests of whole files (RFC 9530), a
// resumed file must match.

import { createHash, type Hash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { open, readFile, rename, rm, stat, truncate, writeFile } from 'node:fs/promises'
import { basename } from 'node:path'
import { RepriseError } from '../../core/errors.ts'
import { ByteBar } from '../byte-bar.ts'
import { type Command, flag } from '../command.ts'
import { exit } from '../exit.ts'
import { FileLock } from '../file-lock.ts'
import { onInterrupt } from '../interrupt.ts'
import { type Attempt, ask, Broken, type Endpoint, endpointOf, expectStatus, insist } from '../transfer.ts'

/** The source of the part. */
interface Note {
  readonly url: string
  readonly etag: string
  /** Number of written bytes of the part, and their SHA-256. */
  readonly at?: number
  readonly sha256?: string
}

/**
 * The note is rewritten after this many bytes: at most this many are received twice. A note that is ahead of the disk does not
 * match.
 */
const noteBytes = 1024 * 1024

const download: Command = async ({ args, options, output, env }) => {
  const [address, file] = args as [string, string]
  const way = endpointOf(address, options, env)
  if (!flag(options, 'force') && (await sizeOf(file)) !== null) {
    throw new RepriseError('EXISTS', `${file} exists: use --force to overwrite it, or choose another name`, { file })
  }
  // Two processes that write one part would corrupt it.
  const lock = await FileLock.take(`${file}.part.lock`, file)
  const interruption = onInterrupt(output, 'stopping; repeat the command to resume')
  const stop = new AbortController()
  void interruption.requested.then(() => stop.abort())
  const getting = new Getting(way, file)
  try {
    const from = await getting.begin()
    if (from > 0) output.note(`resuming at byte ${from.toLocaleString('en')}`)
    const bar = new ByteBar(basename(file), from)
    const progress = (at: number, total: number | null) => bar.at(at, total)
    try {
      for (let isSound = false, attempt = 1; !isSound; attempt++) {
        await insist(
          (line) => getting.get(progress, line),
          () => getting.at,
          (why) => output.note(why),
          { stallMs: way.stallMs, signal: stop.signal },
        )
        isSound = await getting.isSound()
        if (isSound) break
        if (attempt === 2) throw mismatch(address)
        output.note('the received bytes do not match the digest of the server: restarting the download')
        await getting.startOver()
      }
    } finally {
      bar.end()
    }
    await lock.check()
    await getting.finish()
    const { at: size } = getting
    output.result({ file, bytes: size, resumedFrom: from }, () =>
      output.line(`${file} has ${size.toLocaleString('en')} bytes`),
    )
    return exit.ok
  } catch (error) {
    if (!stop.signal.aborted) throw error
    return exit.interrupted
  } finally {
    interruption.off()
    await lock.release()
  }
}

export default download

function mismatch(address: string): RepriseError {
  const what = `${address}: the received bytes did not match the digest of the server, twice`
  return new RepriseError('CHECKSUM_MISMATCH', what, {})
}

class Getting {
  readonly #way: Endpoint
  readonly #file: string
  #etag: string | null = null
  /** Digest of the part. */
  #hash: Hash = createHash('sha256')
  #notedAt = 0
  /** The server's digest, in base64. */
  #expected: string | null = null
  /** The assembled file did not match the server's: this attempt must match. */
  #isDoubted = false
  at = 0

  constructor(way: Endpoint, file: string) {
    this.#way = way
    this.#file = file
  }

  get #part(): string {
    return `${this.#file}.part`
  }

  get #noteFile(): string {
    return `${this.#part}.json`
  }

  /** @returns the number of bytes from an earlier command. */
  async begin(): Promise<number> {
    const size = await sizeOf(this.#part)
    const note = await this.#noted()
    if (size === null || note?.at === undefined || note.at > size) return 0
    const hash = createHash('sha256')
    if (note.at > 0) for await (const piece of createReadStream(this.#part, { end: note.at - 1 })) hash.update(piece)
    // Another program changed the part, or the disk lost data: the download starts over.
    if (hash.copy().digest('hex') !== note.sha256) return 0
    // Bytes after the note are not covered by a digest.
    await truncate(this.#part, note.at)
    this.#hash = hash
    this.#etag = note.etag
    this.#notedAt = note.at
    this.at = note.at
    return note.at
  }

  /** True if the part matches the server's digest, if known. */
  async isSound(): Promise<boolean> {
    return this.#expected === null || this.#hash.copy().digest('base64') === this.#expected
  }

  startOver(): Promise<void> {
    this.#isDoubted = true
    return this.#startOver(null)
  }

  async get(onProgress: (at: number, total: number | null) => void, line: Attempt): Promise<void> {
    const isRange = this.#etag !== null && this.at > 0
    const headers: Record<string, string> = isRange ? { range: `bytes=${this.at}-`, 'if-range': this.#etag! } : {}
    // The server must read the whole file for it: requested only for files assembled from several responses.
    if (isRange || this.#isDoubted) headers['want-repr-digest'] = 'sha-256=10'
    const { signal } = line
    const response = await expectStatus(await ask(this.#way, this.#way.url, { headers, signal }), 200, 206, 416)
    const range = /^bytes (?:(\d+)-\d+|\*)\/(\d+)$/.exec(response.headers.get('content-range') ?? '')
    if (response.status === 416) {
      // Nothing is left to request, or the part is longer than the server's file.
      if (range && Number(range[2]) === this.at) return
      await this.#startOver(null)
      throw new Broken('the server has fewer bytes than the local file: restarting the download')
    }
    if (response.status === 206 && Number(range?.[1]) !== this.at)
      throw new RepriseError('REFUSED', 'the server sent a range that was not requested', {})
    const digest = /(?:^|,)\s*sha-256=:([0-9a-z+/=]+):/i.exec(response.headers.get('repr-digest') ?? '')?.[1]
    if (response.status === 200) await this.#startOver(strongTag(response.headers.get('etag')))
    this.#expected = digest ?? this.#expected
    const length = Number(response.headers.get('content-length') ?? Number.NaN)
    const total = range ? Number(range[2]) : Number.isSafeInteger(length) ? length : null
    await this.#take(response, total, onProgress, line)
    if (total !== null && this.at !== total) throw new Broken(`the connection ended at byte ${this.at} of ${total}`)
  }

  async finish(): Promise<void> {
    // An empty file arrives without a byte.
    const handle = await open(this.#part, 'a')
    await handle.sync()
    const { size } = await handle.stat()
    await handle.close()
    if (size !== this.at) {
      const what = `${this.#part} has ${size} bytes, not ${this.at}: another program wrote to it; repeat the command`
      throw new RepriseError('CONFLICT', what, { file: this.#part })
    }
    await rename(this.#part, this.#file)
    await rm(this.#noteFile, { force: true })
  }

  async #take(
    response: Response,
    total: number | null,
    onProgress: (at: number, total: number | null) => void,
    { signal, moved }: Attempt,
  ): Promise<void> {
    const handle = await open(this.#part, 'a')
    try {
      for await (const piece of (response.body ?? []) as AsyncIterable<Uint8Array>) {
        // Aborted meanwhile: another attempt may already be writing here.
        signal.throwIfAborted()
        await handle.writeFile(piece)
        this.#hash.update(piece)
        this.at += piece.length
        moved()
        onProgress(this.at, total)
        if (this.at - this.#notedAt >= noteBytes) await this.#note()
      }
    } catch (error) {
      throw new Broken((error as Error).message)
    } finally {
      await handle.sync()
      await handle.close()
      await this.#note()
    }
  }

  /** Without an etag a part cannot be matched, so nothing is resumed. */
  async #startOver(etag: string | null): Promise<void> {
    await rm(this.#noteFile, { force: true })
    await rm(this.#part, { force: true })
    this.at = 0
    this.#etag = etag
    this.#hash = createHash('sha256')
    this.#expected = null
    await this.#note()
  }

  /** Written after the bytes it describes. */
  async #note(): Promise<void> {
    const { at } = this
    this.#notedAt = at
    if (this.#etag === null) return
    const sha256 = this.#hash.copy().digest('hex')
    const note: Note = { url: this.#way.url.href, etag: this.#etag, at, sha256 }
    await writeFile(`${this.#noteFile}.new`, JSON.stringify(note))
    await rename(`${this.#noteFile}.new`, this.#noteFile)
  }

  async #noted(): Promise<Note | null> {
    try {
      const note = JSON.parse(await readFile(this.#noteFile, 'utf8')) as Note
      return note.url === this.#way.url.href && strongTag(note.etag) !== null ? note : null
    } catch {
      return null
    }
  }
}

function strongTag(etag: string | null): string | null {
  return etag !== null && /^"[\x21\x23-\x7e]*"$/.test(etag) ? etag : null
}

async function sizeOf(file: string): Promise<number | null> {
  return (await stat(file).catch(() => null))?.size ?? null
}
