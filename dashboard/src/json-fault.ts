// The fault in a text that should be JSON, with line and column, independent of the browser's message.

const space = /[ \t\n\r]*/y
const text = /"(?:[ !#-[\]-\uffff]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y
const other = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null/y

class Fault extends Error {
  readonly at: number

  constructor(at: number, expected: string) {
    super(expected)
    this.at = at
  }
}

/** Null: valid JSON. @example jsonFault('{ "by" }') // 'line 1, column 8: expected :, got }' */
export function jsonFault(source: string): string | null {
  try {
    JSON.parse(source)
    return null
  } catch {
    // Reported below: browsers disagree on the position.
  }
  try {
    const end = skip(source, valueAt(source, skip(source, 0)))
    if (end < source.length) throw new Fault(end, 'the end')
    return 'it is not JSON'
  } catch (error) {
    return error instanceof Fault ? words(source, error) : 'it is nested too deeply'
  }
}

function words(source: string, { at, message }: Fault): string {
  const lines = source.slice(0, at).split('\n')
  const place = `line ${lines.length}, column ${lines.at(-1)!.length + 1}`
  const got = /^(?:\w+|.)/s.exec(source.slice(at))?.[0]
  if (got === undefined) return `${place}: expected ${message}, and it ends here`
  const hint = message === 'a value' && /^[a-zA-Z]/.test(got) ? `; a text needs quotes, as in "${got}"` : ''
  return `${place}: expected ${message}, got ${got}${hint}`
}

function skip(source: string, at: number): number {
  return matched(space, source, at) ?? at
}

/** The end of the match; null: no match. */
function matched(pattern: RegExp, source: string, at: number): number | null {
  pattern.lastIndex = at
  return pattern.test(source) ? pattern.lastIndex : null
}

function valueAt(source: string, at: number): number {
  if (source[at] === '{') return listAt(source, at, '}', memberAt)
  if (source[at] === '[') return listAt(source, at, ']', valueAt)
  const end = matched(text, source, at) ?? matched(other, source, at)
  if (end !== null) return end
  throw source[at] === '"' ? brokenText(source, at) : new Fault(at, 'a value')
}

function listAt(source: string, from: number, close: string, item: (source: string, at: number) => number): number {
  let at = skip(source, from + 1)
  if (source[at] === close) return at + 1
  for (;;) {
    at = skip(source, item(source, at))
    if (source[at] === close) return at + 1
    if (source[at] !== ',') throw new Fault(at, `, or ${close}`)
    at = skip(source, at + 1)
  }
}

function memberAt(source: string, at: number): number {
  if (source[at] !== '"') throw new Fault(at, 'a name in double quotes')
  const end = matched(text, source, at)
  if (end === null) throw brokenText(source, at)
  const colon = skip(source, end)
  if (source[colon] !== ':') throw new Fault(colon, ':')
  return valueAt(source, skip(source, colon + 1))
}

/** An unterminated string, or a character in it that must be escaped. */
function brokenText(source: string, from: number): Fault {
  for (let at = from + 1; at < source.length; at += 1) {
    if (source[at]! < ' ') return new Fault(at, '" before the line ends')
    if (source[at] !== '\\') continue
    if (!/^\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/.test(source.slice(at, at + 6))) return new Fault(at, 'another escape')
    at += 1
  }
  return new Fault(source.length, '" at the end of the text')
}
