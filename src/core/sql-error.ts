// What a database says of a statement rarely names it: the statement is put behind its words.

const shownMax = 300

/** The same error, with the statement in its message. */
export function withStatement(error: unknown, text: string): unknown {
  if (!(error instanceof Error)) return error
  const line = text.replace(/\s+/g, ' ').trim()
  const shown = line.length > shownMax ? `${line.slice(0, shownMax)}…` : line
  if (!error.message.includes(shown)) error.message = `${error.message}, in: ${shown}`
  return error
}
