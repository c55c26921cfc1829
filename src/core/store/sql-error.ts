// Database errors rarely name their statement: it is appended to the message.

const shownMax = 300

/** The same error, with the statement in its message. */
export function withStatement(error: unknown, text: string): unknown {
  if (!(error instanceof Error)) return error
  const line = shortened(text.replace(/\s+/g, ' ').trim())
  const shown = line.length > shownMax ? `${line.slice(0, shownMax)}…` : line
  if (!error.message.includes(shown)) error.message = `${error.message}, in: ${shown}`
  return error
}

const placeholder = String.raw`(?:\?|\$\d+)`
const row = String.raw`\( ?${placeholder}(?: ?, ?${placeholder})* ?\)`
const manyRows = new RegExp(`(${row}) ?, ?${row}(?: ?, ?${row})*`, 'g')
const manyPlaceholders = new RegExp(`(${placeholder})(?: ?, ?${placeholder}){9,}`, 'g')

/** Rows of placeholders beyond the first, and long lists of them, do not explain the fault: only their number is shown. */
function shortened(line: string): string {
  const counted = line.replace(manyRows, (all, first: string) => `${first}, … (${all.split('(').length - 1} rows)`)
  return counted.replace(manyPlaceholders, (all, first: string) => `${first}, … (${all.split(',').length} values)`)
}
