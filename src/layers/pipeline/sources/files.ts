// Files as sources: lines of text, JSON Lines and CSV, including growing files. A position is the number of bytes read, and
// always falls between two records. A file that became shorter than its position is an error, never a silent restart.

import { type Duration, toMs } from '../../../core/duration.ts'
import { RepriseError } from '../../../core/errors.ts'
import { checkOptions, namesOf } from '../../../core/options.ts'
import { csvRow, parseCsvRecord, separatorFault } from '../../../lib/csv.ts'
import type { TextRecord } from '../../../lib/record-splitter.ts'
import { firstRecord, TextFile, type TextFileOptions } from '../../../lib/text-file.ts'
import { realTime, sleep } from '../../../lib/waiting.ts'
import type { Source, SourceBatch, SourceReader } from '../source.ts'
import { positionOf } from './values.ts'

export interface FileSourceOptions {
  /** Waits for the file to grow, checking at this interval (true: every second). Default: the source ends with the file. */
  readonly follow?: boolean | Duration
  /** Default: true if the name ends in .gz. A gzipped file cannot be followed. */
  readonly gzip?: boolean
}

export interface CsvSourceOptions extends FileSourceOptions {
  /** Names of the columns. Default: the first record. */
  readonly columns?: readonly string[]
  /** The field separator. Default: a comma. */
  readonly separator?: string
}

/** A position is a number of bytes, regardless of the content of the lines. */
const fileKind = 'file'

/** @example p.from('log', lineSource('server.log', { follow: '1s' })) */
export function lineSource(path: string, options: FileSourceOptions = {}): Source<string> {
  checkOptions(`lines ${path}`, options, namesOf<FileSourceOptions>()('follow gzip'))
  return fileSource(path, options)
}

/** One JSON value per line. An invalid line is a dead letter. @example p.from('orders', jsonLineSource<Order>('orders.jsonl')) */
export function jsonLineSource<T>(path: string, options: FileSourceOptions = {}): Source<T> {
  checkOptions(`jsonLines ${path}`, options, namesOf<FileSourceOptions>()('follow gzip'))
  return { ...fileSource<T>(path, options), decode: (line: string) => JSON.parse(line) as T }
}

/** Each record as an object with one string per column. Quoted fields may contain separators and line ends. */
export function csvSource(path: string, options: CsvSourceOptions = {}): Source<Readonly<Record<string, string>>> {
  checkOptions(`csv ${path}`, options, namesOf<CsvSourceOptions>()('follow gzip columns separator'))
  const { separator = ',', gzip } = options
  const fault = separatorFault(separator)
  if (fault) throw new RepriseError('INVALID_ARGUMENT', `csv ${path}: ${fault}`, { separator })
  let columns = options.columns ?? null
  const source = fileSource<Readonly<Record<string, string>>>(path, options, separator)
  return {
    kind: fileKind,
    async open(from, context) {
      if (options.columns) return await source.open(from, context)
      const header = await reading(path, () => firstRecord(path, { gzip, separator }))
      if (!header) throw new RepriseError('INVALID_ARGUMENT', `${path} has no first record that names the columns`)
      columns = parseCsvRecord(header.text, separator)
      const reader = await source.open(from, context)
      return positionOf(from?.get('')) < header.end ? skippingFirst(reader) : reader
    },
    decode: (record: string) => csvRow(record, separator, columns!),
  }
}

function fileSource<T>(path: string, { follow, gzip }: FileSourceOptions, separator?: string): Source<T> {
  const followMs = follow === undefined || follow === false ? null : follow === true ? 1000 : toMs(follow, 'follow')
  if (followMs !== null && (gzip ?? path.endsWith('.gz'))) {
    throw new RepriseError('INVALID_ARGUMENT', `${path} is gzipped and cannot be followed: omit follow`, { path })
  }
  return {
    kind: fileKind,
    async open(from, { signal }) {
      const position = positionOf(from?.get(''))
      const options: TextFileOptions = { from: position, gzip, ...(separator !== undefined && { separator }) }
      const file = await reading(path, () => TextFile.open(path, options))
      const reader = new FileReader(path, file, { from: position, followMs, signal })
      return reader as unknown as SourceReader<T>
    },
  }
}

async function reading<R>(path: string, act: () => Promise<R>): Promise<R> {
  try {
    return await act()
  } catch (error) {
    const hint = 'Check the path and whether this process may read the file.'
    throw new RepriseError('NOT_FOUND', `cannot read ${path}: ${(error as Error).message}`, { path }, error, hint)
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

class FileReader implements SourceReader<string> {
  readonly #path: string
  readonly #file: TextFile
  readonly #followMs: number | null
  readonly #signal: AbortSignal
  /** The position after the last record returned. */
  #position: number
  #ready: readonly TextRecord[] = []
  #given = 0
  #isAtEnd = false

  constructor(
    path: string,
    file: TextFile,
    options: { readonly from: number; readonly followMs: number | null; readonly signal: AbortSignal },
  ) {
    this.#path = path
    this.#file = file
    this.#position = options.from
    this.#followMs = options.followMs
    this.#signal = options.signal
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
      const record = this.#ready[this.#given]!
      this.#position = record.end
      // Skip empty lines.
      if (record.text !== '') values.push(record.text)
    }
    return { partition: '', values, position: this.#position }
  }

  async #readMore(max: number): Promise<SourceBatch<string> | null> {
    while (!this.#signal.aborted && !this.#isAtEnd) {
      // All available records were returned.
      this.#ready = (await this.#file.read()) ?? (await this.#atEnd())
      this.#given = 0
      if (this.#ready.length > 0) return this.#give(max)
    }
    return null
  }

  /** Text without a line end may still grow; without `follow`, it is the last record. */
  async #atEnd(): Promise<TextRecord[]> {
    if (!this.#file.isGzip) await this.#checkSize()
    if (this.#followMs !== null) {
      // An abort ends the sleep at once: the caller checks the signal next.
      await sleep(realTime, this.#followMs, { signal: this.#signal })
      return []
    }
    this.#isAtEnd = true
    const rest = this.#file.rest()
    return rest ? [rest] : []
  }

  async #checkSize(): Promise<void> {
    const [size, position] = [await this.#file.size(), this.#file.at]
    if (size >= position) return
    const what = `${this.#path} has ${size} bytes, fewer than the ${position} that were read: it was cut short or replaced`
    const hint =
      'Restore the original file, or run the pipeline under another id to read the new file from its beginning.'
    throw new RepriseError('POSITION_GONE', what, { path: this.#path, size, position }, undefined, hint)
  }
}
