// Records come out whole however the bytes are cut, and their offsets are where they begin and end.

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { csvRow, parseCsvRecord, separatorFault } from './csv.ts'
import { RecordSplitter } from './record-splitter.ts'

const mark = '\uFEFF'
const field = fc.string({ unit: fc.constantFrom('a', '"', ',', '\n', '\r', 'ä', ' ', '😀', '|', mark) })
const row = fc.array(field, { minLength: 1, maxLength: 4 })
const separators = fc.constantFrom(',', ';', '\t', '||', 'ä', '→')

/** Quoted where it must be, and at times where it need not be. */
function written(fields: readonly string[], separator: string, quotesAll: boolean): string {
  return fields
    .map((text) => {
      const isPlain = !/^"|[\r\n]/.test(text) && !text.includes(separator) && !text.includes('|') && text !== ''
      return isPlain && !quotesAll ? text : `"${text.replaceAll('"', '""')}"`
    })
    .join(separator)
}

function split(text: string, cuts: readonly number[], separator: string | null, from = 0) {
  const bytes = Buffer.from(text).subarray(from)
  const splitter = new RecordSplitter(separator, from)
  const places = [0, ...cuts.map((cut) => cut % (bytes.length + 1)), bytes.length].sort((a, b) => a - b)
  const records = places.slice(1).flatMap((end, i) => splitter.add(bytes.subarray(places[i]!, end)))
  const rest = splitter.rest()
  return rest ? [...records, rest] : records
}

describe('records out of bytes', () => {
  it('of CSV equal the written ones, wherever the bytes were cut and wherever reading began', () => {
    const rows = fc.array(row, { minLength: 1 })
    const ends = fc.constantFrom('\n', '\r\n')
    fc.assert(
      fc.property(
        ...([rows, separators, fc.array(fc.nat()), fc.boolean(), fc.boolean(), ends] as const),
        (all, separator, cuts, hasMark, quotesAll, end) => {
          const text = (hasMark ? mark : '') + all.map((each) => written(each, separator, quotesAll) + end).join('')
          // Without a mark of its own, a first field that begins with one is read as a file with one.
          fc.pre(hasMark || !text.startsWith(mark))
          const records = split(text, cuts, separator)
          expect(records.map((each) => parseCsvRecord(each.text, separator))).toEqual(all)
          expect(records.map(({ offset }) => offset)).toEqual([0, ...records.slice(0, -1).map((each) => each.end)])
          expect(records.at(-1)!.end).toBe(Buffer.byteLength(text))
          for (const { offset } of records) {
            expect(split(text, cuts, separator, offset)).toEqual(records.filter((each) => each.offset >= offset))
          }
        },
      ),
      { numRuns: 500 },
    )
  })

  it('of lines are the lines, with and without a last line end, also with Windows line ends', () => {
    expect(split('a\r\nb\n\nc', [2], null)).toEqual([
      { text: 'a', offset: 0, end: 3 },
      { text: 'b', offset: 3, end: 5 },
      { text: '', offset: 5, end: 6 },
      { text: 'c', offset: 6, end: 7 },
    ])
  })

  it('have no byte-order mark at the start of the text, and keep that character everywhere else', () => {
    expect(split(`${mark}a\n${mark}b\n`, [1, 2], null).map(({ text }) => text)).toEqual(['a', `${mark}b`])
    expect(split(`${mark}"a\nb"\n`, [1], ',').map(({ text }) => text)).toEqual(['"a\nb"'])
    expect(split(`${mark}`, [], null)).toEqual([{ text: '', offset: 0, end: 3 }])
  })

  it('keep a quote inside a field without quotes as text', () => {
    expect(split('1,5" pipe\n2,6" pipe\n', [], ',').map(({ text }) => text)).toEqual(['1,5" pipe', '2,6" pipe'])
  })

  it('refuse a quoted field without an end, text behind one, and a record of another width', () => {
    expect(() => parseCsvRecord('"a', ',')).toThrow('no end')
    expect(() => parseCsvRecord('"a"b', ',')).toThrow('follows the closing quote')
    expect(() => csvRow('a,b', ',', ['one'])).toThrow('2 fields, but 1 columns are named')
    expect(parseCsvRecord('a,,', ',')).toEqual(['a', '', ''])
  })

  it('have a separator that differs from quotes and line ends', () => {
    expect(['', '"', '\n', ',"', '\r'].map((each) => separatorFault(each) !== null)).toEqual(Array(5).fill(true))
    expect([',', ';', '\t', '||'].map(separatorFault)).toEqual(Array(4).fill(null))
  })
})
