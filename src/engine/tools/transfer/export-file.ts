// The export file: one timeline, or several that belong together, self-contained, portable between stores and versions.
//
//   file  = "REPRISE-EXPORT" version(byte 1…3) frame* end
//   frame = kind(byte 1…6) size(integer) bytes
//           1 header: an encoded value (codec)   2 run: first, count, digest, bytes   3 chunk: bytes as stored
//           4 checkpoint: an encoded value (codec)          5 unread message: an encoded value (codec)
//           6 ids of messages that were read: an encoded list (codec)
//           (a header begins the next timeline)
//   end   = byte 0, then the SHA-256 of everything before it
// The last 32 bytes are the digest of the whole file, which is verified before any of it is used.

import { createHash, type Hash as Hasher, randomUUID } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { type FileHandle, link, lstat, open as openFile, rename, rm } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { ByteWriter } from '../../../core/bytes.ts'
import { RepriseError } from '../../../core/errors.ts'
import { codeOf, isExisting, syncFolder } from '../../../lib/durable-file.ts'
import { ExactReader } from '../../../lib/exact-reader.ts'
import { unwritable } from '../../storage/object-file.ts'

const magic = new TextEncoder().encode('REPRISE-EXPORT')
const formatVersion = 3
/** Format 1 had no messages, format 2 no ids of messages that were read. */
const readable = [1, 2, 3]
const digestBytes = 32
const pieceBytes = 256 * 1024
const frameBytesMax = 256 * 1024 * 1024

export type FrameKind = 'header' | 'run' | 'chunk' | 'checkpoint' | 'message' | 'read'
const kinds: readonly FrameKind[] = ['header', 'run', 'chunk', 'checkpoint', 'message', 'read']

export interface Frame {
  readonly kind: FrameKind
  readonly bytes: Uint8Array
}

/**
 * Writes to a temporary file, syncs, renames, then syncs the directory: the final name never refers to half a file, and a
 * reported file survives a power loss. The temporary file is new and has a unique name: a planted link is not written through,
 * and a concurrent export to the same path is not mixed in. With `onlyNew`, an existing name is refused with EXISTS.
 */
export async function writeTransfer(path: string, frames: AsyncIterable<Frame>, onlyNew = false): Promise<number> {
  const aside = `${path}.${randomUUID()}.partial`
  const file = await openFile(aside, 'wx').catch((error: unknown) => {
    throw isExisting(error) ? exists(path, error) : unwritable(error, path)
  })
  try {
    const writer = new DigestedWriter(file)
    await writer.write(magic)
    await writer.write(new Uint8Array([formatVersion]))
    for await (const { kind, bytes } of frames) {
      const head = new ByteWriter(16)
      head.byte(kinds.indexOf(kind) + 1)
      head.integer(bytes.length)
      await writer.write(head.take())
      await writer.write(bytes)
    }
    await writer.write(new Uint8Array([0]))
    const size = await writer.end()
    await file.sync()
    await file.close()
    if (onlyNew) await publish(aside, path)
    else await rename(aside, path)
    await syncFolder(dirname(resolve(path)))
    return size
  } catch (error) {
    await file.close().catch(() => undefined)
    await rm(aside, { force: true })
    throw isExisting(error) ? exists(path, error) : unwritable(error, path)
  }
}

/** An existing name stays: of two concurrent writers, one gets it. Without hard links, the name is checked first. */
async function publish(aside: string, path: string): Promise<void> {
  try {
    await link(aside, path)
  } catch (error) {
    if (!['EPERM', 'ENOTSUP', 'ENOSYS'].includes(codeOf(error))) throw error
    if (await lstat(path).catch(() => null)) throw exists(path, error)
    return await rename(aside, path)
  }
  await rm(aside)
}

function exists(path: string, cause: unknown): RepriseError {
  return new RepriseError('EXISTS', `${path} already exists and is not replaced`, { path }, cause)
}

/** Buffers small pieces, counts bytes, and writes the digest of everything at the end. */
class DigestedWriter {
  readonly #file: FileHandle
  readonly #hasher = createHash('sha256')
  #waiting: Uint8Array[] = []
  #waitingBytes = 0
  #size = 0

  constructor(file: FileHandle) {
    this.#file = file
  }

  async write(bytes: Uint8Array): Promise<void> {
    this.#hasher.update(bytes)
    this.#add(bytes)
    if (this.#waitingBytes >= pieceBytes) await this.#flush()
  }

  /** Returns the size of the whole file. */
  async end(): Promise<number> {
    this.#add(this.#hasher.digest())
    await this.#flush()
    return this.#size
  }

  #add(bytes: Uint8Array): void {
    this.#waiting.push(bytes)
    this.#waitingBytes += bytes.length
    this.#size += bytes.length
  }

  async #flush(): Promise<void> {
    const all = Buffer.concat(this.#waiting)
    this.#waiting = []
    this.#waitingBytes = 0
    await this.#file.appendFile(all)
  }
}

/** An export: a file, or a part of one (its first and last byte). */
export type TransferSource = string | { readonly path: string; readonly start: number; readonly end: number }

function streamOf(source: TransferSource) {
  return typeof source === 'string' ? createReadStream(source) : createReadStream(source.path, source)
}

/** Verifies the whole export first, then yields its frames. */
export async function* readTransfer(source: TransferSource): AsyncGenerator<Frame> {
  await checkTransfer(source)
  const reader = new ExactReader(streamOf(source), () => notWhole('it ends early'))
  await reader.exactly(magic.length + 1)
  for (;;) {
    const kind = (await reader.exactly(1))[0]!
    if (kind === 0) return
    const name = kinds[kind - 1]
    if (!name) throw notWhole(`it contains a frame of unknown kind ${kind}`)
    const size = await readInteger(reader)
    if (size > frameBytesMax)
      throw new RepriseError('LIMIT_EXCEEDED', `a frame of ${size} bytes is too large`, { size })
    yield { kind: name, bytes: await reader.exactly(size) }
  }
}

async function checkTransfer(source: TransferSource): Promise<void> {
  const hasher: Hasher = createHash('sha256')
  let tail = new Uint8Array(0)
  let start = new Uint8Array(0)
  for await (const piece of streamOf(source)) {
    const bytes = piece as Uint8Array
    if (start.length < magic.length + 1) start = join(start, bytes.subarray(0, magic.length + 1 - start.length))
    const all = join(tail, bytes)
    const rest = Math.max(0, all.length - digestBytes)
    hasher.update(all.subarray(0, rest))
    tail = all.slice(rest)
  }
  if (start.length <= magic.length || !magic.every((byte, i) => start[i] === byte))
    throw notWhole('it is not an export of Reprise')
  if (!readable.includes(start[magic.length]!)) {
    throw new RepriseError('INCOMPATIBLE_VERSION', `export format ${start[magic.length]} is not known`, {
      known: formatVersion,
    })
  }
  if (Buffer.compare(hasher.digest(), tail) !== 0) throw notWhole('its digest does not match: it is damaged or cut off')
}

async function readInteger(reader: ExactReader): Promise<number> {
  let value = 0
  let scale = 1
  for (let i = 0; i < 8; i++) {
    const byte = (await reader.exactly(1))[0]!
    value += (byte & 0x7f) * scale
    if (byte < 0x80) return value
    scale *= 0x80
  }
  throw notWhole('a size in it is out of range')
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

/** The first header of an export. Throws NOT_A_SAVEPOINT. */
export async function firstFrame(frames: AsyncGenerator<Frame>): Promise<IteratorResult<Frame>> {
  const first = await frames.next()
  if (!first.done && first.value.kind === 'header') return first
  throw new RepriseError('NOT_A_SAVEPOINT', 'the file does not start with a header')
}
