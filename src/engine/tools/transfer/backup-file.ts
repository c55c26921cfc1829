// The backup file: many export files in one, each with a description and a digest. It grows record by record, so that an
// interrupted backup resumes: its whole records that still apply are kept.
//
//   file   = "REPRISE-BACKUP" version(byte 1) record* end
//   record = sizeOf(description) (4 bytes) description (JSON) sizeOf(export) (8 bytes) export, SHA-256 of all of this record
//   end    = a record whose description has `isEnd` and whose export is empty

import { createHash, randomUUID } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { type FileHandle, open as openFile, rename, rm, stat } from 'node:fs/promises'
import { RepriseError } from '../../../core/errors.ts'

const start = Buffer.concat([Buffer.from('REPRISE-BACKUP'), Buffer.from([1])])
const digestBytes = 32
const descriptionBytesMax = 64 * 1024 * 1024
const pieceBytes = 1024 * 1024

export interface BackupRecord<Description> {
  readonly description: Description
  /** The offset of the record in the file. */
  readonly at: number
  /** The offset of the export in the file. */
  readonly from: number
  readonly bytes: number
  /** The offset of the next record. */
  readonly next: number
}

export class BackupWriter {
  readonly #path: string
  readonly #file: FileHandle
  #at: number

  private constructor(path: string, file: FileHandle, at: number) {
    this.#path = path
    this.#file = file
    this.#at = at
  }

  /** Opens a new file, or an interrupted one: its whole records to which `applies` are kept, in their order. */
  static async open<Description>(
    path: string,
    applies: (description: Description) => Promise<boolean>,
  ): Promise<{ readonly writer: BackupWriter; readonly kept: Description[] }> {
    const kept: Description[] = []
    const fresh = `${path}.${randomUUID()}.new`
    const file = await openFile(fresh, 'wx+')
    const writer = new BackupWriter(path, file, start.length)
    try {
      await file.appendFile(start)
      const old = await openFile(path, 'a+')
      try {
        // A file without its whole start was interrupted before its first record.
        const { size } = await old.stat()
        for await (const record of size < start.length ? [] : readRecords<Description>(old, path)) {
          if (!(await applies(record.description))) continue
          await writer.#copy(old, record)
          kept.push(record.description)
        }
      } finally {
        await old.close()
      }
      await file.sync()
      await rename(fresh, path)
      return { writer, kept }
    } catch (error) {
      await file.close()
      await rm(fresh, { force: true })
      throw error
    }
  }

  async #copy(from: FileHandle, { at, next }: BackupRecord<unknown>): Promise<void> {
    for (let done = at; done < next; done += pieceBytes) {
      await this.#file.appendFile((await readAt(from, done, Math.min(pieceBytes, next - done)))!)
    }
    this.#at += next - at
  }

  get bytes(): number {
    return this.#at
  }

  /** Appends an export (null: none). It is whole and on disk when the promise resolves. */
  async add(description: object, path: string | null): Promise<void> {
    const hash = createHash('sha256')
    const write = async (bytes: Uint8Array) => {
      hash.update(bytes)
      this.#at += bytes.length
      await this.#file.appendFile(bytes)
    }
    const text = Buffer.from(JSON.stringify(description))
    const exported = path === null ? null : await openFile(path, 'r')
    try {
      const size = exported ? (await exported.stat()).size : 0
      const sizes = Buffer.alloc(4)
      sizes.writeUInt32BE(text.length)
      const bytes = Buffer.alloc(8)
      bytes.writeBigUInt64BE(BigInt(size))
      await write(Buffer.concat([sizes, text, bytes]))
      if (path !== null)
        for await (const piece of createReadStream(path, { highWaterMark: pieceBytes })) await write(piece)
      await write(hash.copy().digest())
      await this.#file.sync()
    } finally {
      await exported?.close()
    }
  }

  /** Gives the finished file its name. CONFLICT: another backup to the same name has begun since, and replaced the file. */
  async give(name: string): Promise<void> {
    const { ino, dev } = await this.#file.stat()
    const isAt = async (path: string) => {
      const found = await stat(path).catch(() => null)
      return found?.ino === ino && found.dev === dev
    }
    if (await isAt(this.#path)) {
      await rename(this.#path, name)
      // The other one may have replaced it between the two.
      if (await isAt(name)) return
    }
    const what = `another backup to ${name} has begun since: wait for it, or choose another name`
    throw new RepriseError('CONFLICT', what, { file: name })
  }

  async close(): Promise<void> {
    await this.#file.close()
  }
}

/** Whole records in order; ends at the first incomplete one. The bytes of each are verified before it is returned. */
export async function* readRecords<Description>(
  file: FileHandle,
  path: string,
): AsyncGenerator<BackupRecord<Description>> {
  const { size } = await file.stat()
  const first = await readAt(file, 0, start.length)
  if (!first?.equals(start)) {
    throw new RepriseError('NOT_A_SAVEPOINT', `${path} is not a Reprise backup of a known version`, { path })
  }
  for (let at = start.length; at < size; ) {
    const record = await readRecord<Description>(file, at, size)
    if (!record) return
    yield record
    at = record.next
  }
}

async function readRecord<Description>(
  file: FileHandle,
  at: number,
  size: number,
): Promise<BackupRecord<Description> | null> {
  const head = await readAt(file, at, 4)
  const textBytes = head?.readUInt32BE() ?? 0
  if (!head || textBytes === 0 || textBytes > descriptionBytesMax) return null
  const rest = await readAt(file, at + 4, textBytes + 8)
  if (!rest) return null
  const bytes = Number(rest.readBigUInt64BE(textBytes))
  const from = at + 4 + textBytes + 8
  const next = from + bytes + digestBytes
  if (!(next <= size)) return null
  const hash = createHash('sha256').update(head).update(rest)
  for (let done = 0; done < bytes; done += pieceBytes) {
    const piece = await readAt(file, from + done, Math.min(pieceBytes, bytes - done))
    if (!piece) return null
    hash.update(piece)
  }
  const digest = await readAt(file, next - digestBytes, digestBytes)
  if (!digest?.equals(hash.digest())) return null
  const description = JSON.parse(rest.subarray(0, textBytes).toString('utf8')) as Description
  return { description, at, from, bytes, next }
}

async function readAt(file: FileHandle, at: number, length: number): Promise<Buffer | null> {
  const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, at)
  return bytesRead === length ? buffer : null
}
