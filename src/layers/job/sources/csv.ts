// One record of a CSV file (RFC 4180): quoted cells, doubled quotes, line breaks inside quotes.

import { RepriseError } from '../../../core/errors.ts'

/** @example parseCsvRecord('a,"b ""c"", d"', ',') // ['a', 'b "c", d'] */
export function parseCsvRecord(record: string, separator: string): string[] {
  const cells: string[] = []
  let at = 0
  for (;;) {
    if (record[at] === '"') {
      let cell = ''
      at += 1
      for (;;) {
        const end = record.indexOf('"', at)
        if (end === -1) throw new RepriseError('MALFORMED', 'a quoted cell does not end', {})
        cell += record.slice(at, end)
        at = end + 1
        if (record[at] !== '"') break
        cell += '"'
        at += 1
      }
      cells.push(cell)
      if (at < record.length && !record.startsWith(separator, at)) {
        throw new RepriseError('MALFORMED', 'text follows the closing quote of a cell', {})
      }
    } else {
      const end = record.indexOf(separator, at)
      cells.push(record.slice(at, end === -1 ? record.length : end))
      at = end === -1 ? record.length : end
    }
    if (at >= record.length) return cells
    at += separator.length
    if (at === record.length) return [...cells, '']
  }
}
