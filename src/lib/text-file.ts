// A text file read by record, plain or gzipped, from an offset: text lines, JSON Lines or CSV. Offsets count bytes of the text. A
// gzipped file cannot be entered in the middle: it is read from its start, up to the offset. A plain file may grow meanwhile.

import { createReadStream } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { createGunzip } from 'node:zlib'
import { RecordSplitter, type TextRecord } from './record-splitter.ts'

export interface TextFileOptions {
  /** Default: 0. */
  readonly from?: number
  /** Default: by its name, .gz. */
  readonly gzip?: boolean | undefined
  /** Of CSV. Default: none, each line is a record. */
  readonly separator?: string
}

const pieceBytes = 256 * 1024

export class TextFile {
  readonly #file: FileHandle
  readonly #splitter: RecordSplitter
  readonly #unzipped: AsyncIterator<Buffer> | null
  readonly #buffer = Buffer.alloc(pieceBytes)
  /** Bytes of the text that were read, or are passed over. */
  #at: number
  /** Of a gzipped text, before the offset. */
  #skip: number

  /** Rejects with the error of the file system. */
  static async open(
    path: string,
    { from = 0, gzip = path.endsWith('.gz'), separator }: TextFileOptions = {},
  ): Promise<TextFile> {
    const file = await open(path, 'r')
    return new TextFile(path, file, from, gzip, separator ?? null)
  }

  private constructor(path: string, file: FileHandle, from: number, isGzip: boolean, separator: string | null) {
    this.#file = file
    this.#at = from
    this.#skip = isGzip ? from : 0
    this.#splitter = new RecordSplitter(separator, from)
    this.#unzipped = isGzip ? unzip(path) : null
  }

  /** How many bytes were read. */
  get at(): number {
    return this.#at
  }

  get isGzip(): boolean {
    return this.#unzipped !== null
  }

  /** Bytes on the disk. */
  async size(): Promise<number> {
    return (await this.#file.stat()).size
  }

  /** Records that are whole; null at the end of the file, which a plain file may have moved by the next call. */
  async read(): Promise<TextRecord[] | null> {
    for (;;) {
      const piece = await this.#piece()
      if (piece === null) return null
      this.#at += piece.length
      const records = this.#splitter.add(piece)
      if (records.length > 0) return records
    }
  }

  /** The last record, whose line end is missing so far. */
  rest(): TextRecord | null {
    return this.#splitter.rest()
  }

  async close(): Promise<void> {
    await this.#unzipped?.return?.()
    await this.#file.close()
  }

  async #piece(): Promise<Buffer | null> {
    if (this.#unzipped === null) {
      const { bytesRead } = await this.#file.read(this.#buffer, 0, pieceBytes, this.#at)
      return bytesRead === 0 ? null : this.#buffer.subarray(0, bytesRead)
    }
    for (;;) {
      const step = await this.#unzipped.next()
      if (step.done) return null
      const piece = step.value.subarray(Math.min(this.#skip, step.value.length))
      this.#skip -= step.value.length - piece.length
      if (piece.length > 0) return piece
    }
  }
}

/** The first record that is not empty, such as the names of columns; null for a file without one. */
export async function firstRecord(path: string, options: Omit<TextFileOptions, 'from'>): Promise<TextRecord | null> {
  const file = await TextFile.open(path, options)
  try {
    for (let records = await file.read(); records; records = await file.read()) {
      const found = records.find(({ text }) => text !== '')
      if (found) return found
    }
    const rest = file.rest()
    return rest?.text ? rest : null
  } finally {
    await file.close()
  }
}

async function* unzip(path: string): AsyncGenerator<Buffer> {
  const raw = createReadStream(path)
  const unzipped = raw.pipe(createGunzip())
  raw.on('error', (error) => unzipped.destroy(error))
  try {
    yield* unzipped as AsyncIterable<Buffer>
  } finally {
    raw.destroy()
  }
}
