// Files by line, with byte offsets as positions: text, JSON Lines and CSV, plain or gzipped (a gzipped file is read from
// its start and skipped up to the offset, since it cannot be entered in the middle). A file that only grows goes on where
// the last round ended; one that was replaced by another is read from the start, and the keys decide.

import { createReadStream } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { createGunzip } from 'node:zlib'
import { RepriseError } from '../../../core/errors.ts'
import { checkOptions, namesOf } from '../../../core/options.ts'
import type { Chunk, PlainSource, Reader } from '../source.ts'
import { parseCsvRecord } from './csv.ts'

export interface LineOptions {
  /** By its name if left out: .gz. */
  readonly gzip?: boolean
  /** Read the whole file again in each round, for files that are replaced. The keys decide then. */
  readonly again?: boolean
}

export interface JsonLineOptions extends LineOptions {
  /** What to do with a line that is not JSON: stop (if left out), or pass it over. */
  readonly malformed?: 'stop' | 'skip'
}

export interface CsvOptions extends LineOptions {
  readonly separator?: string
  /** Names of the columns, if the first line does not have them. */
  readonly columns?: readonly string[]
}

const knownLines = namesOf<LineOptions>({ gzip: true, again: true })
const knownJson = namesOf<JsonLineOptions>({ gzip: true, again: true, malformed: true })
const knownCsv = namesOf<CsvOptions>({ gzip: true, again: true, separator: true, columns: true })

interface FilePosition {
  readonly offset: number
  /** The first bytes of the file, to know it again. */
  readonly start: string
}

interface FileRecord {
  readonly text: string
  readonly offset: number
  readonly end: number
  /** Bytes so far, of a line whose end is not there yet. */
  readonly grown?: number
}

const chunkLines = 256
const startBytes = 64

/** @example job('words', { source: lines('words.txt'), each: (word) => … }) */
export function lines(path: string, options: LineOptions = {}): PlainSource<string> {
  checkOptions(`lines of ${path}`, options, knownLines)
  return lineSource(path, options, () => (record) => ({ value: record }))
}

/** @example job('papers', { source: jsonLines<Paper>('papers.jsonl.gz'), key: (paper) => paper.doi, each: … }) */
export function jsonLines<T = unknown>(path: string, options: JsonLineOptions = {}): PlainSource<T> {
  checkOptions(`jsonLines of ${path}`, options, knownJson)
  return lineSource(path, options, () => (record, offset) => {
    if (record.trim() === '') return null
    try {
      return { value: JSON.parse(record) as T }
    } catch (cause) {
      if (options.malformed === 'skip') return null
      throw new RepriseError('MALFORMED', `${path}: the line at byte ${offset} is not JSON`, { path, offset }, cause)
    }
  })
}

/** Rows as objects by column name. @example job('rows', { source: csv('rows.csv'), key: (row) => row.id!, each: … }) */
export function csv(path: string, options: CsvOptions = {}): PlainSource<Record<string, string>> {
  checkOptions(`csv of ${path}`, options, knownCsv)
  const separator = options.separator ?? ','
  const make = () => {
    let columns = options.columns ?? null
    return (record: string, offset: number) => {
      if (record === '') return null
      const cells = parseCsvRecord(record, separator)
      if (!columns) {
        columns = cells
        return null
      }
      if (cells.length !== columns.length) {
        throw new RepriseError(
          'MALFORMED',
          `${path}: the row at byte ${offset} has ${cells.length} cells, not ${columns.length}`,
          { path, offset },
        )
      }
      return { value: Object.fromEntries(columns.map((name, i) => [name, cells[i]!])) }
    }
  }
  // The header is needed wherever reading starts, and a record may span lines while a quote is open.
  return lineSource(path, options, make, {
    hasHeader: options.columns === undefined,
    isOpen: (text) => quotes(text) % 2 === 1,
  })
}

type Parse<T> = (record: string, offset: number) => { readonly value: T } | null

function lineSource<T>(
  path: string,
  options: LineOptions,
  parser: () => Parse<T>,
  form: { readonly hasHeader?: boolean; readonly isOpen?: (text: string) => boolean } = {},
): PlainSource<T> {
  return {
    kind: 'lines',
    takesInput: false,
    goesOn: !options.again,
    async open(position) {
      const isGzip = options.gzip ?? path.endsWith('.gz')
      const file = await openFile(path)
      const start = await startOf(file)
      const { size } = await file.stat()
      await file.close()
      const held = position as FilePosition | undefined
      const isSame = held !== undefined && start.startsWith(held.start) && (isGzip || held.offset <= size)
      const from = isSame ? held.offset : 0
      const parse = parser()
      if (form.hasHeader && from > 0)
        for await (const { text } of records(path, isGzip, 0, form.isOpen)) {
          parse(text, 0)
          break
        }
      return reader(records(path, isGzip, from, form.isOpen), parse, { start, size: isGzip ? null : size })
    },
  }
}

function reader<T>(
  iterator: AsyncGenerator<FileRecord>,
  parse: Parse<T>,
  file: { readonly start: string; readonly size: number | null },
): Reader<T> {
  let fraction: number | null = file.size === null ? null : 0
  return {
    get fraction() {
      return fraction
    },
    async next(): Promise<Chunk<T> | null> {
      const items: T[] = []
      const keys: string[] = []
      let end: number | null = null
      while (items.length < chunkLines) {
        const step = await iterator.next()
        if (step.done) break
        const { text, offset } = step.value
        end = step.value.end
        const parsed = parse(text, offset)
        if (!parsed) continue
        items.push(parsed.value)
        keys.push(step.value.grown ? `@${offset}+${step.value.grown}` : `@${offset}`)
      }
      if (end === null) return null
      if (file.size !== null) fraction = file.size === 0 ? 1 : Math.min(1, end / file.size)
      return { items, keys, after: { position: { offset: end, start: file.start } satisfies FilePosition } }
    },
    close: async () => void (await iterator.return(undefined)),
  }
}

/** Records with the byte offsets where they begin, and where to read on after them. */
async function* records(
  path: string,
  isGzip: boolean,
  from: number,
  isOpen: (text: string) => boolean = () => false,
): AsyncGenerator<FileRecord> {
  const raw = createReadStream(path, isGzip ? {} : { start: from })
  const stream = isGzip ? raw.pipe(createGunzip()) : raw
  if (isGzip) raw.on('error', (error) => stream.destroy(error))
  let skip = isGzip ? from : 0
  let rest: Buffer = Buffer.alloc(0)
  let offset = from
  try {
    for await (const piece of stream as AsyncIterable<Buffer>) {
      let bytes = piece
      if (skip > 0) {
        const cut = Math.min(skip, bytes.length)
        skip -= cut
        bytes = bytes.subarray(cut)
        if (bytes.length === 0) continue
      }
      rest = rest.length === 0 ? bytes : Buffer.concat([rest, bytes])
      let begin = 0
      for (let at = rest.indexOf(10, 0); at !== -1; at = rest.indexOf(10, at + 1)) {
        const text = decode(rest, begin, at)
        if (isOpen(text)) continue
        yield { text, offset: offset + begin, end: offset + at + 1 }
        begin = at + 1
      }
      offset += begin
      rest = rest.subarray(begin)
    }
    // A last line without its newline may be half written: it is given, and read again once it has grown.
    if (rest.length > 0) yield { text: decode(rest, 0, rest.length), offset, end: offset, grown: rest.length }
  } finally {
    raw.destroy()
  }
}

function decode(bytes: Buffer, begin: number, end: number): string {
  const last = end > begin && bytes[end - 1] === 13 ? end - 1 : end
  return bytes.toString('utf8', begin, last)
}

function quotes(text: string): number {
  let count = 0
  for (let at = text.indexOf('"'); at !== -1; at = text.indexOf('"', at + 1)) count += 1
  return count
}

async function openFile(path: string): Promise<FileHandle> {
  try {
    return await open(path)
  } catch (cause) {
    throw new RepriseError('NOT_FOUND', `the source ${path} cannot be read`, { path }, cause)
  }
}

async function startOf(file: FileHandle): Promise<string> {
  const { bytesRead, buffer } = await file.read(Buffer.alloc(startBytes), 0, startBytes, 0)
  return buffer.subarray(0, bytesRead).toString('hex')
}
