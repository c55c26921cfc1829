// CSV (RFC 4180): quoted fields, doubled quotes, line ends inside quotes. A quote opens a field only at the field's start, here
// and where records are split.

/** The reason a text cannot separate fields; null if it can. */
export function separatorFault(separator: string): string | null {
  if (separator === '') return 'the separator must not be empty'
  return /["\r\n]/.test(separator) ? 'the separator must not contain a quote or a line end' : null
}

/** @example parseCsvRecord('a,"b ""c"", d"', ',') // ['a', 'b "c", d'] */
export function parseCsvRecord(record: string, separator: string): string[] {
  const fields: string[] = []
  for (let at = 0; ; at += separator.length) {
    if (record[at] !== '"') {
      const end = record.indexOf(separator, at)
      fields.push(record.slice(at, end < 0 ? undefined : end))
      if (end < 0) return fields
      at = end
      continue
    }
    let field = ''
    at += 1
    for (;;) {
      const end = record.indexOf('"', at)
      if (end < 0) throw new TypeError('a quoted field has no end')
      field += record.slice(at, end)
      at = end + 1
      if (record[at] !== '"') break
      field += '"'
      at += 1
    }
    fields.push(field)
    if (at === record.length) return fields
    if (!record.startsWith(separator, at)) throw new TypeError('text follows the closing quote of a field')
  }
}

/** One record as an object by column. */
export function csvRow(record: string, separator: string, columns: readonly string[]): Record<string, string> {
  const fields = parseCsvRecord(record, separator)
  if (fields.length !== columns.length) {
    throw new TypeError(`the record has ${fields.length} fields, but ${columns.length} columns are named`)
  }
  return Object.fromEntries(columns.map((name, i) => [name, fields[i]!]))
}
