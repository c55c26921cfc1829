// Question marks as placeholders, so that the same SQL runs on SQLite and on PostgreSQL. Text that already has $1 is
// unchanged, and so is text without values: there ? can only be the operator. Literals, quoted names and comments are
// unchanged; ?? is the operator ?.

const pieces =
  /\b[eE]'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|\/\*[\s\S]*?\*\/|(\$(?:[A-Za-z_]\w*)?\$)[\s\S]*?\1|\?\?|\?|\$\d+/g

/** @example toNumbered("INSERT INTO t VALUES (?, '?', ?)") // "INSERT INTO t VALUES ($1, '?', $2)" */
export function toNumbered(text: string, hasValues = true): string {
  if (!text.includes('?')) return text
  if (!hasValues) return text.replace(pieces, (piece) => (piece === '??' ? '?' : piece))
  let isNumbered = false
  let count = 0
  const converted = text.replace(pieces, (piece) => {
    if (/^\$\d/.test(piece)) isNumbered = true
    if (piece === '??') return '?'
    if (piece !== '?') return piece
    count += 1
    return `$${count}`
  })
  return isNumbered ? text : converted
}

/** The statement without literals and comments: its words and quoted names. */
export function withoutTexts(text: string): string {
  return text.replace(pieces, (piece) => (/^["?]|^\$\d/.test(piece) ? piece : ' '))
}
