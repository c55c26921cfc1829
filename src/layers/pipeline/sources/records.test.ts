// Records come out whole however the bytes are cut, and their sizes add up to positions.

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { parseCsvRecord, RecordSplitter } from './records.ts'

const field = fc.string({ unit: fc.constantFrom('a', '"', ',', '\n', 'ä', ' ', '😀') })
const row = fc.array(field, { minLength: 1, maxLength: 4 })

const written = (fields: readonly string[]) => fields.map((each) => `"${each.replaceAll('"', '""')}"`).join(',')

function split(text: string, cuts: readonly number[], isQuoted: boolean) {
  const bytes = Buffer.from(text)
  const splitter = new RecordSplitter(isQuoted)
  const places = [0, ...cuts.map((cut) => cut % (bytes.length + 1)), bytes.length].sort((a, b) => a - b)
  const records = places.slice(1).flatMap((end, i) => splitter.add(bytes.subarray(places[i]!, end)))
  return [...records, ...splitter.end()]
}

describe('records out of bytes', () => {
  it('of CSV are those that were written, wherever the bytes were cut', () => {
    fc.assert(
      fc.property(fc.array(row), fc.array(fc.nat()), (rows, cuts) => {
        const text = rows.map((each) => `${written(each)}\n`).join('')
        const records = split(text, cuts, true)
        expect(records.map((each) => parseCsvRecord(each.text, ','))).toEqual(rows)
        expect(records.reduce((sum, { bytes }) => sum + bytes, 0)).toBe(Buffer.byteLength(text))
      }),
    )
  })

  it('of lines are the lines, with and without a last line end, of Windows too', () => {
    expect(split('a\r\nb\n\nc', [2], false)).toEqual([
      { text: 'a', bytes: 3 },
      { text: 'b', bytes: 2 },
      { text: '', bytes: 1 },
      { text: 'c', bytes: 1 },
    ])
  })

  it('refuse a quoted field without an end, and text behind one', () => {
    expect(() => parseCsvRecord('"a', ',')).toThrow('no end')
    expect(() => parseCsvRecord('"a"b', ',')).toThrow('followed by')
  })
})
