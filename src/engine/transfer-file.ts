// The export file: one timeline, self-contained, portable between stores and versions.
//
//   file  = "REPRISE-EXPORT" version(byte 1) frame* end
//   frame = kind(byte 1…3) size(integer) bytes
//           1 header: an encoded value (codec)   2 run: first, count, digest, bytes   3 chunk: bytes as stored
//           4 checkpoint: an encoded value (codec)
//   end   = byte 0, then the SHA-256 of everything before it
// The last 32 bytes vouch for the whole file: it is checked before anything of it is used.

import { createHash, type Hash as Hasher } from 'node:crypto'
import { createReadStream, createWriteStream } from 'node:fs'
import { open as openFile, rename, rm } from 'node:fs/promises'
import { finished } from 'node:stream/promises'
import { ByteWriter } from '../core/bytes.ts'
import { RepriseError } from '../core/errors.ts'

const magic = new TextEncoder().encode('REPRISE-EXPORT')
const formatVersion = 1
const digestBytes = 32
const frameBytesMax = 256 * 1024 * 1024

export type FrameKind = 'header' | 'run' | 'chunk' | 'checkpoint'
const kinds: readonly FrameKind[] = ['header', 'run', 'chunk', 'checkpoint']

export interface Frame {
  readonly kind: FrameKind
  readonly bytes: Uint8Array
}

/** Writes aside, syncs, then renames: the name never shows half a file. */
export async function writeTransfer(path: string, frames: AsyncIterable<Frame>): Promise<number> {
  const aside = `${path}.partial`
  const stream = createWriteStream(aside)
  const hasher = createHash('sha256')
  let size = 0
  const write = async (bytes: Uint8Array) => {
    hasher.update(bytes)
    size += bytes.length
    if (!stream.write(bytes)) await new Promise<void>((resolve) => stream.once('drain', () => resolve()))
  }
  try {
    await write(magic)
    await write(new Uint8Array([formatVersion]))
    for await (const { kind, bytes } of frames) {
      const head = new ByteWriter(16)
      head.byte(kinds.indexOf(kind) + 1)
      head.integer(bytes.length)
      await write(head.take())
      await write(bytes)
    }
    await write(new Uint8Array([0]))
    stream.end(hasher.digest())
    await finished(stream)
    const file = await openFile(aside, 'r+')
    await file.sync()
    await file.close()
    await rename(aside, path)
    return size + digestBytes
  } catch (error) {
    stream.destroy()
    await rm(aside, { force: true })
    throw error
  }
}

/** Checks the whole file first, then gives its frames. */
export async function* readTransfer(path: string): AsyncGenerator<Frame> {
  await checkTransfer(path)
  const reader = new StreamReader(createReadStream(path))
  await reader.exactly(magic.length + 1)
  for (;;) {
    const kind = (await reader.exactly(1))[0]!
    if (kind === 0) return
    const name = kinds[kind - 1]
    if (!name) throw notWhole(`it holds a frame of unknown kind ${kind}`)
    const size = await reader.integer()
    if (size > frameBytesMax)
      throw new RepriseError('LIMIT_EXCEEDED', `a frame of ${size} bytes is too large`, { size })
    yield { kind: name, bytes: await reader.exactly(size) }
  }
}

async function checkTransfer(path: string): Promise<void> {
  const hasher: Hasher = createHash('sha256')
  let tail = new Uint8Array(0)
  let start = new Uint8Array(0)
  for await (const piece of createReadStream(path)) {
    const bytes = piece as Uint8Array
    if (start.length < magic.length + 1) start = join(start, bytes.subarray(0, magic.length + 1 - start.length))
    const all = join(tail, bytes)
    const rest = Math.max(0, all.length - digestBytes)
    hasher.update(all.subarray(0, rest))
    tail = all.slice(rest)
  }
  if (start.length <= magic.length || !magic.every((byte, i) => start[i] === byte))
    throw notWhole('it is not an export of Reprise')
  if (start[magic.length] !== formatVersion) {
    throw new RepriseError('INCOMPATIBLE_VERSION', `export format ${start[magic.length]} is not known`, {
      known: formatVersion,
    })
  }
  if (Buffer.compare(hasher.digest(), tail) !== 0) throw notWhole('its digest does not match: it is damaged or cut off')
}

class StreamReader {
  readonly #pieces: AsyncIterator<Uint8Array>
  #rest: Uint8Array = new Uint8Array(0)

  constructor(stream: AsyncIterable<Uint8Array>) {
    this.#pieces = stream[Symbol.asyncIterator]()
  }

  async exactly(count: number): Promise<Uint8Array> {
    const pieces: Uint8Array[] = [this.#rest]
    let have = this.#rest.length
    while (have < count) {
      const { value, done } = await this.#pieces.next()
      if (done) throw notWhole('it ends too early')
      pieces.push(value)
      have += value.length
    }
    const all = pieces.length === 1 ? this.#rest : Buffer.concat(pieces)
    this.#rest = all.subarray(count)
    return Uint8Array.prototype.slice.call(all, 0, count)
  }

  async integer(): Promise<number> {
    let value = 0
    let scale = 1
    for (let i = 0; i < 8; i++) {
      const byte = (await this.exactly(1))[0]!
      value += (byte & 0x7f) * scale
      if (byte < 0x80) return value
      scale *= 0x80
    }
    throw notWhole('a size in it is out of range')
  }
}

function join(a: Uint8Array, b: Uint8Array): Uint8Array<ArrayBuffer> {
  const all = new Uint8Array(a.length + b.length)
  all.set(a)
  all.set(b, a.length)
  return all
}

function notWhole(why: string): RepriseError {
  return new RepriseError('NOT_A_SAVEPOINT', `the file cannot be imported: ${why}`)
}
