// Files as sources: lines of text, JSON Lines and CSV, also files that grow. A position is how many bytes were read, and
// always stands between two records. A file that became shorter than its position is an error, never a silent new beginning.

import { type FileHandle, open } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Duration, toMs } from '../../../core/duration.ts'
import { RepriseError } from '../../../core/errors.ts'
import { checkOptions } from '../../../core/options.ts'
import type { Source, SourceBatch, SourceReader } from '../source.ts'
import { parseCsvRecord, RecordSplitter, type TextRecord } from './records.ts'
import { positionOf } from './values.ts'

export interface FileOptions {
  /** Wait for the file to grow, which is looked at every second, or this often. Left out: the source ends with the file. */
  readonly follow?: boolean | Duration
}

export interface CsvOptions extends FileOptions {
  /** Names of the columns; left out: the first record has them. */
  readonly columns?: readonly string[]
  /** Between the fields; a comma if left out. */
  readonly separator?: string
}

/** @example p.from('log', lines('server.log', { follow: '1s' })) */
export function lines(path: string, options: FileOptions = {}): Source<string> {
  checkOptions(`lines ${path}`, options, new Set(['follow']))
  return fileSource(path, options, false)
}

/** One JSON value per line. A line that is none is a dead letter. @example p.from('orders', jsonLines<Order>('orders.jsonl')) */
export function jsonLines<T>(path: string, options: FileOptions = {}): Source<T> {
  checkOptions(`jsonLines ${path}`, options, new Set(['follow']))
  return { ...fileSource<T>(path, options, false), decode: (line: string) => JSON.parse(line) as T }
}

/** Each record as an object of text by column. Fields may be quoted, and hold separators and line ends then. */
export function csv(path: string, options: CsvOptions = {}): Source<Readonly<Record<string, string>>> {
  checkOptions(`csv ${path}`, options, new Set(['follow', 'columns', 'separator']))
  const { separator = ',' } = options
  if (separator.length !== 1 || separator === '"') {
    throw new RepriseError('INVALID_ARGUMENT', `the separator of ${path} must be one character other than a quote`)
  }
  let columns = options.columns ?? null
  const source = fileSource<Readonly<Record<string, string>>>(path, options, true)
  return {
    async open(from, context) {
      const hasHeader = options.columns === undefined
      if (hasHeader) columns = parseCsvRecord(await firstRecord(path), separator)
      const reader = await source.open(from, context)
      if (!hasHeader || from?.get('') !== undefined) return reader
      return skippingFirst(reader)
    },
    decode: (record: string) => {
      const fields = parseCsvRecord(record, separator)
      if (fields.length !== columns!.length) {
        throw new TypeError(`the record has ${fields.length} fields where ${columns!.length} are named`)
      }
      return Object.fromEntries(columns!.map((name, i) => [name, fields[i]!]))
    },
  }
}

function fileSource<T>(path: string, { follow }: FileOptions, isQuoted: boolean): Source<T> {
  const followMs = follow === undefined || follow === false ? null : follow === true ? 1000 : toMs(follow, 'follow')
  return {
    async open(from, { signal }) {
      const position = positionOf(from?.get(''))
      const file = await openFile(path)
      const reader = new FileReader(path, file, { from: position, followMs, isQuoted, signal })
      return reader as unknown as SourceReader<T>
    },
  }
}

async function openFile(path: string): Promise<FileHandle> {
  try {
    return await open(path, 'r')
  } catch (error) {
    const hint = 'Check the path and whether this process may read the file.'
    throw new RepriseError('NOT_FOUND', `cannot read ${path}: ${(error as Error).message}`, { path }, error, hint)
  }
}

async function firstRecord(path: string): Promise<string> {
  const file = await openFile(path)
  try {
    const splitter = new RecordSplitter(true)
    const buffer = Buffer.alloc(readBytes)
    for (let at = 0; ; ) {
      const { bytesRead } = await file.read(buffer, 0, buffer.length, at)
      at += bytesRead
      const [found] = bytesRead === 0 ? splitter.end() : splitter.add(buffer.subarray(0, bytesRead))
      if (found) return found.text
      if (bytesRead === 0)
        throw new RepriseError('INVALID_ARGUMENT', `${path} has no first record that names the columns`)
    }
  } finally {
    await file.close()
  }
}

function skippingFirst<T>(reader: SourceReader<T>): SourceReader<T> {
  let isFirst = true
  return {
    partitions: () => reader.partitions(),
    close: () => reader.close(),
    async read(max) {
      const batch = await reader.read(max)
      if (!isFirst || !batch || batch.values.length === 0) return batch
      isFirst = false
      return { ...batch, values: batch.values.slice(1) }
    },
  }
}

const readBytes = 256 * 1024

class FileReader implements SourceReader<string> {
  readonly #path: string
  readonly #file: FileHandle
  readonly #splitter: RecordSplitter
  readonly #followMs: number | null
  readonly #signal: AbortSignal
  readonly #buffer = Buffer.alloc(readBytes)
  /** Bytes read from the file. */
  #at: number
  /** Behind the last record that was given. */
  #position: number
  #ready: TextRecord[] = []
  #given = 0
  #isAtEnd = false

  constructor(
    path: string,
    file: FileHandle,
    options: {
      readonly from: number
      readonly followMs: number | null
      readonly isQuoted: boolean
      readonly signal: AbortSignal
    },
  ) {
    this.#path = path
    this.#file = file
    this.#at = options.from
    this.#position = options.from
    this.#followMs = options.followMs
    this.#signal = options.signal
    this.#splitter = new RecordSplitter(options.isQuoted)
  }

  partitions(): readonly string[] {
    return ['']
  }

  read(max: number): SourceBatch<string> | Promise<SourceBatch<string> | null> {
    return this.#given < this.#ready.length ? this.#give(max) : this.#readMore(max)
  }

  async close(): Promise<void> {
    await this.#file.close()
  }

  #give(max: number): SourceBatch<string> {
    const end = Math.min(this.#ready.length, this.#given + max)
    const values: string[] = []
    for (; this.#given < end; this.#given++) {
      const { text, bytes } = this.#ready[this.#given]!
      this.#position += bytes
      // Empty lines say nothing.
      if (text !== '') values.push(text)
    }
    return { partition: '', values, position: this.#position }
  }

  async #readMore(max: number): Promise<SourceBatch<string> | null> {
    while (!this.#signal.aborted) {
      const { bytesRead } = await this.#file.read(this.#buffer, 0, readBytes, this.#at)
      this.#at += bytesRead
      // Those that are there were given.
      this.#ready = bytesRead > 0 ? this.#splitter.add(this.#buffer.subarray(0, bytesRead)) : await this.#atEnd()
      this.#given = 0
      if (this.#ready.length > 0) return this.#give(max)
      if (this.#isAtEnd) return null
    }
    return null
  }

  /** What has no line end yet may still grow; without following, it is the last record. */
  async #atEnd(): Promise<TextRecord[]> {
    if (this.#isAtEnd) return []
    await this.#checkSize()
    if (this.#followMs !== null) {
      // Aborted, it ends at once: whoever reads looks at the signal next.
      await sleep(this.#followMs, undefined, { signal: this.#signal }).catch(() => undefined)
      return []
    }
    this.#isAtEnd = true
    return this.#splitter.end()
  }

  async #checkSize(): Promise<void> {
    const { size } = await this.#file.stat()
    if (size >= this.#at) return
    const what = `${this.#path} has ${size} bytes, fewer than the ${this.#at} that were read: it was cut short or replaced`
    const hint =
      'Put the file back as it was, or run the pipeline under another id to read the new file from its beginning.'
    throw new RepriseError('POSITION_GONE', what, { path: this.#path, size, position: this.#at }, undefined, hint)
  }
}
