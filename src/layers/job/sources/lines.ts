// Files by line, with byte offsets as positions: text, JSON Lines and CSV, plain or gzipped. A file that only grows is
// read from where the last round ended; a replaced file is read from the start, and the keys decide which items are
// new.

import { open } from 'node:fs/promises'
import { RepriseError } from '../../../core/errors.ts'
import { checkOptions, checkValues, namesOf } from '../../../core/options.ts'
import { csvRow, parseCsvRecord, separatorFault } from '../../../lib/csv.ts'
import type { TextRecord } from '../../../lib/record-splitter.ts'
import { firstRecord, TextFile, type TextFileOptions } from '../../../lib/text-file.ts'
import type { Chunk, PlainSource, Reader } from '../source.ts'

export interface LineOptions {
  /** Whether the file is gzipped. Default: true if its name ends in .gz. */
  readonly gzip?: boolean
  /** Read the whole file again in each round, for files that are replaced. The keys decide which items are new. */
  readonly again?: boolean
}

export interface JsonLineOptions extends LineOptions {
  /** Policy for a line that is not JSON. Default: 'stop'. */
  readonly malformed?: 'stop' | 'skip'
}

export interface CsvOptions extends LineOptions {
  /** The separator between fields. Default: a comma. */
  readonly separator?: string
  /** The names of the columns. Default: the first line. */
  readonly columns?: readonly string[]
}

const knownLines = namesOf<LineOptions>()('gzip again')
const knownJson = namesOf<JsonLineOptions>()('gzip again malformed')
const knownCsv = namesOf<CsvOptions>()('gzip again separator columns')

interface FilePosition {
  readonly offset: number
  /** The first bytes of the file, to recognize it. */
  readonly start: string
}

const chunkLines = 256
const startBytes = 64

/** @example job('words', { source: lines('words.txt'), each: (word) => … }) */
export function lines(path: string, options: LineOptions = {}): PlainSource<string> {
  checkOptions(`lines of ${path}`, options, knownLines)
  return lineSource(path, options, async () => ({ text }) => ({ value: text }))
}

/** @example job('papers', { source: jsonLines<Paper>('papers.jsonl.gz'), key: (paper) => paper.doi, each: … }) */
export function jsonLines<T = unknown>(path: string, options: JsonLineOptions = {}): PlainSource<T> {
  checkOptions(`jsonLines of ${path}`, options, knownJson)
  checkValues(`jsonLines of ${path}`, options, { malformed: ['stop', 'skip'] })
  return lineSource(path, options, async () => ({ text, offset }) => {
    if (text.trim() === '') return null
    try {
      return { value: JSON.parse(text) as T }
    } catch (cause) {
      if (options.malformed === 'skip') return null
      throw new RepriseError('MALFORMED', `${path}: the line at byte ${offset} is not JSON`, { path, offset }, cause)
    }
  })
}

/** Rows as objects by column name. @example job('rows', { source: csv('rows.csv'), key: (row) => row.id!, each: … }) */
export function csv(path: string, options: CsvOptions = {}): PlainSource<Record<string, string>> {
  checkOptions(`csv of ${path}`, options, knownCsv)
  const { separator = ',', gzip } = options
  const fault = separatorFault(separator)
  if (fault) throw new RepriseError('INVALID_ARGUMENT', `csv of ${path}: ${fault}`, { separator })
  // The header is needed wherever reading starts.
  const parser = async (): Promise<Parse<Record<string, string>>> => {
    const header = options.columns ? null : await firstRecord(path, { gzip, separator })
    const named = (record: TextRecord) => parseAt(record, (text) => parseCsvRecord(text, separator))
    const columns = options.columns ?? (header ? named(header) : [])
    return (record) => {
      if (record.text === '' || record.offset === header?.offset) return null
      return { value: parseAt(record, (text) => csvRow(text, separator, columns)) }
    }
  }
  return lineSource(path, options, parser, separator)

  function parseAt<R>({ text, offset }: TextRecord, parse: (text: string) => R): R {
    try {
      return parse(text)
    } catch (cause) {
      const what = `${path}: the row at byte ${offset}: ${(cause as Error).message}`
      throw new RepriseError('MALFORMED', what, { path, offset }, cause)
    }
  }
}

type Parse<T> = (record: TextRecord) => { readonly value: T } | null

function lineSource<T>(
  path: string,
  options: LineOptions,
  parser: () => Promise<Parse<T>>,
  separator?: string,
): PlainSource<T> {
  return {
    kind: 'lines',
    takesInput: false,
    goesOn: !options.again,
    async open(position) {
      try {
        const [start, held] = [await startOf(path), position as FilePosition | undefined]
        const from = held !== undefined && start.startsWith(held.start) ? held.offset : 0
        const given: TextFileOptions = { gzip: options.gzip, ...(separator !== undefined && { separator }) }
        const parse = await parser()
        let file = await TextFile.open(path, { ...given, from })
        const size = file.isGzip ? null : await file.size()
        if (size !== null && from > size) {
          await file.close()
          file = await TextFile.open(path, given)
        }
        return reader(file, parse, { start, size })
      } catch (cause) {
        if (cause instanceof RepriseError) throw cause
        throw new RepriseError('NOT_FOUND', `the source ${path} cannot be read`, { path }, cause)
      }
    },
  }
}

/** A last line without its line end may be incomplete: it is yielded, and read again once it has grown. */
interface FileRecord extends TextRecord {
  /** The number of bytes so far. */
  readonly grown?: number
}

async function* records(file: TextFile): AsyncGenerator<FileRecord> {
  for (let found = await file.read(); found; found = await file.read()) yield* found
  const rest = file.rest()
  if (rest) yield { ...rest, end: rest.offset, grown: rest.end - rest.offset }
}

function reader<T>(
  file: TextFile,
  parse: Parse<T>,
  { start, size }: { readonly start: string; readonly size: number | null },
): Reader<T> {
  const iterator = records(file)
  let fraction: number | null = size === null ? null : 0
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
        const { offset, grown } = step.value
        end = step.value.end
        const parsed = parse(step.value)
        if (!parsed) continue
        items.push(parsed.value)
        keys.push(grown ? `@${offset}+${grown}` : `@${offset}`)
      }
      if (end === null) return null
      if (size !== null) fraction = size === 0 ? 1 : Math.min(1, end / size)
      return { items, keys, after: { position: { offset: end, start } satisfies FilePosition } }
    },
    async close() {
      await iterator.return(undefined)
      await file.close()
    },
  }
}

async function startOf(path: string): Promise<string> {
  const file = await open(path)
  try {
    const { bytesRead, buffer } = await file.read(Buffer.alloc(startBytes), 0, startBytes, 0)
    return buffer.subarray(0, bytesRead).toString('hex')
  } finally {
    await file.close()
  }
}
