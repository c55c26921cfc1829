// reprise upload FILE URL: sends a file to a server that supports tus 1.0, ours or another. The upload's address is stored
// beside the file (FILE.reprise-upload), so that a killed command resumes at the server's offset.

import { open, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { basename } from 'node:path'
import { Readable } from 'node:stream'
import { isReprise, RepriseError } from '../../core/errors.ts'
import { ByteBar } from '../byte-bar.ts'
import { type Command, list } from '../command.ts'
import { exit, UsageError } from '../exit.ts'
import { onInterrupt } from '../interrupt.ts'
import { type Attempt, ask, Broken, type Endpoint, endpointOf, expectStatus, insist } from '../transfer.ts'

const tus = { 'tus-resumable': '1.0.0' }
const patchType = 'application/offset+octet-stream'

/** The note beside the file. */
interface Note {
  readonly endpoint: string
  readonly url: string
  readonly size: number
  readonly modifiedMs: number
}

const upload: Command = async ({ args, options, output, env }) => {
  const [file, address] = args as [string, string]
  const way = endpointOf(address, options, env)
  const { size, mtimeMs } = await fileAt(file)
  const interruption = onInterrupt(output, 'stopping; repeat the command to resume')
  const stop = new AbortController()
  void interruption.requested.then(() => stop.abort())
  const sent = new Sending(
    way,
    file,
    { endpoint: way.url.href, size, modifiedMs: mtimeMs },
    metadataOf(list(options, 'metadata'), file),
  )
  const trying = { stallMs: way.stallMs, signal: stop.signal }
  try {
    const from = await insist(
      (line) => sent.begin(line),
      () => 0,
      (why) => output.note(why),
      trying,
    )
    if (from > 0) output.note(`resuming at byte ${from.toLocaleString('en')} of ${size.toLocaleString('en')}`)
    const bar = new ByteBar(basename(file), from)
    try {
      await insist(
        (line) => sent.send((at) => bar.at(at, size), line),
        () => sent.offset,
        (why) => output.note(why),
        trying,
      )
    } finally {
      bar.end()
    }
    await sent.checkUnchanged()
    await sent.forget()
    output.result({ url: sent.url, bytes: size, resumedFrom: from }, () =>
      output.line(`${sent.url} has ${size.toLocaleString('en')} bytes`),
    )
    return exit.ok
  } catch (error) {
    if (!stop.signal.aborted) throw error
    return exit.interrupted
  } finally {
    interruption.off()
  }
}

export default upload

const pieceBytes = 256 * 1024

class Sending {
  readonly #way: Endpoint
  readonly #file: string
  readonly #source: Omit<Note, 'url'>
  readonly #metadata: string
  #url: URL | null = null
  offset = 0

  constructor(way: Endpoint, file: string, source: Omit<Note, 'url'>, metadata: string) {
    this.#way = way
    this.#file = file
    this.#source = source
    this.#metadata = metadata
  }

  get url(): string {
    return this.#url!.href
  }

  get #noteFile(): string {
    return `${this.#file}.reprise-upload`
  }

  /** Resumes the upload of an earlier command, or creates a new one. @returns the offset to continue from. */
  async begin(line: Attempt): Promise<number> {
    const note = await this.#noted()
    if (note) {
      this.#url = new URL(note.url)
      try {
        return await this.#stand(line)
      } catch (error) {
        if (!isReprise(error, 'NOT_FOUND', 'UPLOAD_GONE')) throw error
      }
    }
    const headers = { ...tus, 'upload-length': String(this.#source.size), 'upload-metadata': this.#metadata }
    const { signal } = line
    const made = await expectStatus(await ask(this.#way, this.#way.url, { method: 'POST', headers, signal }), 201)
    const location = made.headers.get('location')
    if (location === null)
      throw new RepriseError('REFUSED', 'the server created an upload without a Location header', {})
    const url = new URL(location, this.#way.url)
    if (url.origin !== this.#way.url.origin) {
      throw new RepriseError('REFUSED', `the server sends this upload to ${url.origin}: nothing was sent there`, {})
    }
    this.#url = url
    this.offset = 0
    await this.#writeNote()
    return 0
  }

  /** Sends the rest, from the server's offset. */
  async send(onProgress: (at: number) => void, line: Attempt): Promise<void> {
    await this.checkUnchanged()
    await this.#stand(line)
    while (this.offset < this.#source.size) {
      const from = this.offset
      const read = this.#read(from, onProgress, line)
      const response = await ask(this.#way, this.#url!, {
        method: 'PATCH',
        headers: { ...tus, 'upload-offset': String(from), 'content-type': patchType },
        body: Readable.toWeb(Readable.from(read, { objectMode: false })) as ReadableStream,
        duplex: 'half',
        signal: line.signal,
      }).catch(async (error: unknown) => {
        await this.checkUnchanged()
        throw error
      })
      await expectStatus(response, 204)
      line.signal.throwIfAborted()
      this.#readState(response)
      if (this.offset <= from) throw new Broken('the server accepted no bytes')
    }
  }

  /** Ends early if the file does; the caller that waits for the response determines the reason. */
  async *#read(from: number, onProgress: (at: number) => void, { moved, signal }: Attempt): AsyncGenerator<Uint8Array> {
    const { size } = this.#source
    const handle = await open(this.#file, 'r')
    try {
      for (let at = from; at < size && !signal.aborted; ) {
        const wanted = Math.min(pieceBytes, size - at)
        const { bytesRead, buffer } = await handle.read(Buffer.allocUnsafe(wanted), 0, wanted, at)
        // Not a regular end for the server: announced bytes are missing.
        if (bytesRead === 0) throw new Error('the file ends here')
        yield buffer.subarray(0, bytesRead)
        at += bytesRead
        moved()
        onProgress(at)
      }
    } finally {
      await handle.close()
    }
  }

  /** The bytes sent so far no longer match the file: the next command starts over. */
  async checkUnchanged(): Promise<void> {
    const { size, modifiedMs } = this.#source
    const now = await fileAt(this.#file)
    if (now.size === size && now.mtimeMs === modifiedMs) return
    await this.forget()
    const what = `${this.#file} changed during the transfer, so the upload may mix old and new bytes; send it again`
    throw new RepriseError('CONFLICT', what, { file: this.#file })
  }

  async forget(): Promise<void> {
    await rm(this.#noteFile, { force: true })
  }

  async #stand({ signal }: Attempt): Promise<number> {
    const answer = ask(this.#way, this.#url!, { method: 'HEAD', headers: tus, signal })
    const response = await expectStatus(await answer, 200, 204)
    signal.throwIfAborted()
    this.#readState(response)
    return this.offset
  }

  #readState(response: Response): void {
    const offset = Number(response.headers.get('upload-offset') ?? Number.NaN)
    if (!Number.isSafeInteger(offset) || offset < 0 || offset > this.#source.size) {
      throw new RepriseError('REFUSED', 'the server sent no Upload-Offset', {})
    }
    this.offset = offset
  }

  /** Null: there is no note, or it is for other bytes or another server. */
  async #noted(): Promise<Note | null> {
    try {
      const note = JSON.parse(await readFile(this.#noteFile, 'utf8')) as Note
      const { endpoint, size, modifiedMs } = this.#source
      const isSame = note.endpoint === endpoint && note.size === size && note.modifiedMs === modifiedMs
      return isSame && URL.canParse(note.url) && new URL(note.url).origin === this.#way.url.origin ? note : null
    } catch {
      return null
    }
  }

  async #writeNote(): Promise<void> {
    const own = `${this.#noteFile}.${process.pid}`
    await writeFile(own, JSON.stringify({ ...this.#source, url: this.#url!.href } satisfies Note), { mode: 0o600 })
    await rename(own, this.#noteFile)
  }
}

async function fileAt(file: string): Promise<{ readonly size: number; readonly mtimeMs: number }> {
  const found = await stat(file).catch(() => null)
  if (!found?.isFile()) throw new RepriseError('NOT_FOUND', `there is no file ${file}`, { file })
  return found
}

function metadataOf(given: readonly string[], file: string): string {
  const pairs = new Map([['filename', basename(file)]])
  for (const pair of given) {
    const cut = pair.indexOf('=')
    if (cut < 1 || !/^[\x21-\x2b\x2d-\x7e]+$/.test(pair.slice(0, cut))) {
      throw new UsageError(`--metadata must be KEY=VALUE (got ${pair})`)
    }
    pairs.set(pair.slice(0, cut), pair.slice(cut + 1))
  }
  return [...pairs].map(([key, value]) => `${key} ${Buffer.from(value).toString('base64')}`).join(',')
}
