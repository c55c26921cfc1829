// reprise upload FILE URL: sends a file to a server that speaks tus 1.0, ours or another. Where it goes is noted beside the
// file (FILE.reprise-upload), so that a command that was killed goes on where the server stands.

import { createReadStream } from 'node:fs'
import { readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { basename } from 'node:path'
import { Readable } from 'node:stream'
import { isReprise, RepriseError } from '../../core/errors.ts'
import { ByteBar } from '../byte-bar.ts'
import { type Command, list } from '../command.ts'
import { exit, UsageError } from '../exit.ts'
import { onInterrupt } from '../interrupt.ts'
import { ask, Broken, expectStatus, insist, type Way, wayTo } from '../transfer.ts'

const tus = { 'tus-resumable': '1.0.0' }
const patchType = 'application/offset+octet-stream'

/** What is noted beside the file. */
interface Note {
  readonly endpoint: string
  readonly url: string
  readonly size: number
  readonly modifiedMs: number
}

const upload: Command = async ({ args, options, output, env }) => {
  const [file, address] = args as [string, string]
  const way = wayTo(address, options, env)
  const { size, mtimeMs } = await fileAt(file)
  const interruption = onInterrupt(output, 'stopping; ask for it again to go on')
  const stop = new AbortController()
  void interruption.asked.then(() => stop.abort())
  const sent = new Sending(
    way,
    file,
    { endpoint: way.url.href, size, modifiedMs: mtimeMs },
    metadataOf(list(options, 'metadata'), file),
  )
  try {
    const from = await insist(
      () => sent.begin(),
      () => 0,
      (why) => output.note(why),
      stop.signal,
    )
    if (from > 0) output.note(`going on at byte ${from.toLocaleString('en')} of ${size.toLocaleString('en')}`)
    const bar = new ByteBar(basename(file), from)
    try {
      await insist(
        () => sent.send((at) => bar.at(at, size), stop.signal),
        () => sent.offset,
        (why) => output.note(why),
        stop.signal,
      )
    } finally {
      bar.end()
    }
    await sent.forget()
    await checkUnchanged(file, size, mtimeMs)
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

async function checkUnchanged(file: string, size: number, modifiedMs: number): Promise<void> {
  const now = await fileAt(file)
  if (now.size === size && now.mtimeMs === modifiedMs) return
  const what = `${file} was changed while it was sent: what the server has may be part old and part new; send it again`
  throw new RepriseError('CONFLICT', what, { file })
}

class Sending {
  readonly #way: Way
  readonly #file: string
  readonly #source: Omit<Note, 'url'>
  readonly #metadata: string
  #url: URL | null = null
  offset = 0

  constructor(way: Way, file: string, source: Omit<Note, 'url'>, metadata: string) {
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

  /** Finds where an earlier command stopped, or makes a new upload. @returns the byte to go on from. */
  async begin(): Promise<number> {
    const note = await this.#noted()
    if (note) {
      this.#url = new URL(note.url)
      try {
        return await this.#stand()
      } catch (error) {
        if (!isReprise(error, 'NOT_FOUND', 'UPLOAD_GONE')) throw error
      }
    }
    const headers = { ...tus, 'upload-length': String(this.#source.size), 'upload-metadata': this.#metadata }
    const made = await expectStatus(await ask(this.#way, this.#way.url, { method: 'POST', headers }), 201)
    const location = made.headers.get('location')
    if (location === null) throw new RepriseError('REFUSED', 'the server made an upload, and did not say where', {})
    const url = new URL(location, this.#way.url)
    if (url.origin !== this.#way.url.origin) {
      throw new RepriseError('REFUSED', `the server sends this upload to ${url.origin}: nothing was sent there`, {})
    }
    this.#url = url
    this.offset = 0
    await this.#writeNote()
    return 0
  }

  /** All that is left, from where the server stands. */
  async send(told: (at: number) => void, signal: AbortSignal): Promise<void> {
    await this.#stand()
    while (this.offset < this.#source.size) {
      const from = this.offset
      let at = from
      const pieces = createReadStream(this.#file, { start: from, highWaterMark: 256 * 1024, signal })
      async function* counted() {
        for await (const piece of pieces) {
          yield piece as Uint8Array
          at += (piece as Uint8Array).length
          told(at)
        }
      }
      const response = await ask(this.#way, this.#url!, {
        method: 'PATCH',
        headers: { ...tus, 'upload-offset': String(from), 'content-type': patchType },
        body: Readable.toWeb(Readable.from(counted(), { objectMode: false })) as ReadableStream,
        duplex: 'half',
        signal,
      }).finally(() => pieces.destroy())
      await expectStatus(response, 204)
      this.#stands(response)
      if (this.offset <= from) throw new Broken('the server took no byte')
    }
  }

  async forget(): Promise<void> {
    await rm(this.#noteFile, { force: true })
  }

  async #stand(): Promise<number> {
    const response = await expectStatus(await ask(this.#way, this.#url!, { method: 'HEAD', headers: tus }), 200, 204)
    this.#stands(response)
    return this.offset
  }

  #stands(response: Response): void {
    const offset = Number(response.headers.get('upload-offset') ?? Number.NaN)
    if (!Number.isSafeInteger(offset) || offset < 0 || offset > this.#source.size) {
      throw new RepriseError('REFUSED', 'the server does not say where the upload stands', {})
    }
    this.offset = offset
  }

  /** Null: there is none, or it is of other bytes or for another place. */
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
