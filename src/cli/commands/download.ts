// reprise download URL FILE: gets a file from any server that gives ranges. What came so far lies in FILE.part, and what it is a
// part of in FILE.part.json: a command that was killed goes on there, unless the server has other bytes by now.

import { open, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { basename } from 'node:path'
import { RepriseError } from '../../core/errors.ts'
import { ByteBar } from '../byte-bar.ts'
import { type Command, flag } from '../command.ts'
import { exit } from '../exit.ts'
import { onInterrupt } from '../interrupt.ts'
import { ask, Broken, expectStatus, insist, type Way, wayTo } from '../transfer.ts'

/** What the part is a part of. */
interface Note {
  readonly url: string
  readonly etag: string
}

const download: Command = async ({ args, options, output, env }) => {
  const [address, file] = args as [string, string]
  const way = wayTo(address, options, env)
  if (!flag(options, 'force') && (await sizeOf(file)) !== null) {
    throw new RepriseError('EXISTS', `${file} is there already: give --force to replace it, or another name`, { file })
  }
  const interruption = onInterrupt(output, 'stopping; ask for it again to go on')
  const stop = new AbortController()
  void interruption.asked.then(() => stop.abort())
  const getting = new Getting(way, file)
  try {
    const from = await getting.begin()
    if (from > 0) output.note(`going on at byte ${from.toLocaleString('en')}`)
    const bar = new ByteBar(basename(file), from)
    const progress = (at: number, total: number | null) => bar.at(at, total)
    try {
      await insist(
        () => getting.get(progress, stop.signal),
        () => getting.at,
        (why) => output.note(why),
        stop.signal,
      )
    } finally {
      bar.end()
    }
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
  }
}

export default download

class Getting {
  readonly #way: Way
  readonly #file: string
  #etag: string | null = null
  at = 0

  constructor(way: Way, file: string) {
    this.#way = way
    this.#file = file
  }

  get #part(): string {
    return `${this.#file}.part`
  }

  get #noteFile(): string {
    return `${this.#part}.json`
  }

  /** @returns how much is there from an earlier command. */
  async begin(): Promise<number> {
    const size = await sizeOf(this.#part)
    const note = await this.#noted()
    if (size === null || note === null) return 0
    this.#etag = note.etag
    this.at = size
    return size
  }

  async get(told: (at: number, total: number | null) => void, signal: AbortSignal): Promise<void> {
    const asked = this.#etag !== null && this.at > 0
    const headers: Record<string, string> = asked ? { range: `bytes=${this.at}-`, 'if-range': this.#etag! } : {}
    const response = await expectStatus(await ask(this.#way, this.#way.url, { headers, signal }), 200, 206, 416)
    const range = /^bytes (?:(\d+)-\d+|\*)\/(\d+)$/.exec(response.headers.get('content-range') ?? '')
    if (response.status === 416) {
      // Nothing is left to ask for, or what is here is longer than what is there.
      if (range && Number(range[2]) === this.at) return
      await this.#startOver(null)
      throw new Broken('the server has fewer bytes than were here: starting again')
    }
    if (response.status === 206 && Number(range?.[1]) !== this.at)
      throw new RepriseError('REFUSED', 'the server sent another range than was asked for', {})
    if (response.status === 200) await this.#startOver(strongTag(response.headers.get('etag')))
    const length = Number(response.headers.get('content-length') ?? Number.NaN)
    const total = range ? Number(range[2]) : Number.isSafeInteger(length) ? length : null
    await this.#take(response, total, told)
    if (total !== null && this.at !== total) throw new Broken(`the line ended at byte ${this.at} of ${total}`)
  }

  async finish(): Promise<void> {
    // An empty file has come without a byte.
    const handle = await open(this.#part, 'a')
    await handle.sync()
    await handle.close()
    await rename(this.#part, this.#file)
    await rm(this.#noteFile, { force: true })
  }

  async #take(
    response: Response,
    total: number | null,
    told: (at: number, total: number | null) => void,
  ): Promise<void> {
    const handle = await open(this.#part, 'a')
    try {
      for await (const piece of (response.body ?? []) as AsyncIterable<Uint8Array>) {
        await handle.writeFile(piece)
        this.at += piece.length
        told(this.at, total)
      }
    } catch (error) {
      throw new Broken((error as Error).message)
    } finally {
      await handle.sync()
      await handle.close()
    }
  }

  /** Without a tag nobody can tell whether a part fits: then nothing is gone on with. */
  async #startOver(etag: string | null): Promise<void> {
    await rm(this.#noteFile, { force: true })
    await rm(this.#part, { force: true })
    this.at = 0
    this.#etag = etag
    if (etag !== null) await writeFile(this.#noteFile, JSON.stringify({ url: this.#way.url.href, etag } satisfies Note))
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
