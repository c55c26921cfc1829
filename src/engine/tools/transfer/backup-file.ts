// The backup file: many export files in one, each with a description and a digest. It grows record by record, so that an
// interrupted backup resumes after its last whole record.
//
//   file   = "REPRISE-BACKUP" version(byte 1) record* end
//   record = sizeOf(description) (4 bytes) description (JSON) sizeOf(export) (8 bytes) export, SHA-256 of all of this record
//   end    = a record whose description has `isEnd` and whose export is empty

import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { type FileHandle, open as openFile } from 'node:fs/promises'
import { RepriseError } from '../../../core/errors.ts'

const start = Buffer.concat([Buffer.from('REPRISE-BACKUP'), Buffer.from([1])])
const digestBytes = 32
const descriptionBytesMax = 64 * 1024 * 1024
const pieceBytes = 1024 * 1024

export interface BackupRecord<Description> {
  readonly description: Description
  /** The offset of the export in the file. */
  readonly from: number
  readonly bytes: number
  /** The offset of the next record. */
  readonly next: number
}

export class BackupWriter {
  readonly #file: FileHandle
  #at: number

  private constructor(file: FileHandle, at: number) {
    this.#file = file
    this.#at = at
  }

  /** Opens a new file, or an interrupted one: an incomplete record at its end is cut off. */
  static async open<Description>(
    path: string,
  ): Promise<{ readonly writer: BackupWriter; readonly records: BackupRecord<Description>[] }> {
    const file = await openFile(path, 'a+')
    const { size } = await file.stat()
    const records: BackupRecord<Description>[] = []
    if (size >= start.length) {
      for await (const record of readRecords<Description>(file, path)) records.push(record)
    }
    const at = records.at(-1)?.next ?? start.length
    await file.truncate(size >= start.length ? at : 0)
    if (size < start.length) await file.appendFile(start)
    return { writer: new BackupWriter(file, at), records }
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
  return { description, from, bytes, next }
}

async function readAt(file: FileHandle, at: number, length: number): Promise<Buffer | null> {
  const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, at)
  return bytesRead === length ? buffer : null
}
