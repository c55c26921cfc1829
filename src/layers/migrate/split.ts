// Splits SQL text into statements: semicolons inside quotes, comments, dollar quotes, parentheses and the bodies of triggers
// and functions do not count. It parses no more SQL than that.

import { checkText } from '../../core/options.ts'

/** @example splitSql("CREATE TABLE a (t TEXT); INSERT INTO a VALUES (';')") // two statements */
export function splitSql(text: string): string[] {
  if ((text as unknown) !== '') checkText('the text of splitSql()', text)
  const statements: string[] = []
  let start = 0
  let at = 0
  let depth = 0
  let parentheses = 0
  while (at < text.length) {
    const skipped = skipQuoted(text, at)
    if (skipped > at) {
      at = skipped
      continue
    }
    const word = /^[A-Za-z_]+/.exec(text.slice(at, at + 32))?.[0]
    if (word) {
      const isAtomic = /^\s+ATOMIC\b/i.test(text.slice(at + word.length))
      depth = depthAfter(word.toUpperCase(), text.slice(start, at), depth, isAtomic)
      at += word.length
      continue
    }
    if (text[at] === '(') parentheses += 1
    if (text[at] === ')') parentheses = Math.max(0, parentheses - 1)
    if (text[at] === ';' && depth === 0 && parentheses === 0) {
      add(text.slice(start, at))
      start = at + 1
    }
    at += 1
  }
  add(text.slice(start))
  return statements

  function add(statement: string): void {
    if (withoutComments(statement).trim() !== '') statements.push(statement.trim())
  }
}

/**
 * BEGIN … END and CASE … END nest inside a trigger (SQLite), and inside a function that begins with BEGIN ATOMIC
 * (PostgreSQL); a lone BEGIN is a statement of its own.
 */
function depthAfter(word: string, before: string, depth: number, isAtomic: boolean): number {
  const start = withoutComments(before)
  const isTrigger = /^\s*CREATE\s+(TEMP\s+|TEMPORARY\s+)?TRIGGER\b/i.test(start)
  const isFunction = /^\s*CREATE\s+(OR\s+REPLACE\s+)?(FUNCTION|PROCEDURE)\b/i.test(start)
  const hasBody = isTrigger || (isFunction && (depth > 0 || isAtomic))
  if (!hasBody) return depth
  if (word === 'BEGIN' || word === 'CASE') return depth + 1
  return word === 'END' ? Math.max(0, depth - 1) : depth
}

/** The end of the quoted text or comment that begins here; `at` if none begins. */
function skipQuoted(text: string, at: number): number {
  const two = text.slice(at, at + 2)
  if (two === '--') return endOr(text, text.indexOf('\n', at), 1)
  if (two === '/*') return endOr(text, text.indexOf('*/', at + 2), 2)
  const quote = text[at]!
  if (/^[eE]'/.test(two) && !/\w/.test(text[at - 1] ?? '')) return afterEscapes(text, at + 1)
  if (quote === "'" || quote === '"' || quote === '`') return afterQuote(text, at, quote)
  const dollar = quote === '$' ? /^\$[A-Za-z_]*\$/.exec(text.slice(at, at + 64))?.[0] : undefined
  if (dollar) return endOr(text, text.indexOf(dollar, at + dollar.length), dollar.length)
  return at
}

function afterQuote(text: string, at: number, quote: string): number {
  for (let end = text.indexOf(quote, at + 1); end !== -1; end = text.indexOf(quote, end + 2)) {
    if (text[end + 1] !== quote) return end + 1
  }
  return text.length
}

/** PostgreSQL's E'…', in which a backslash escapes the next character. */
function afterEscapes(text: string, at: number): number {
  const literal = /'(?:[^'\\]|\\[\s\S]|'')*'/y
  literal.lastIndex = at
  return literal.test(text) ? literal.lastIndex : text.length
}

function endOr(text: string, end: number, length: number): number {
  return end === -1 ? text.length : end + length
}

function withoutComments(text: string): string {
  return text.replace(/--[^\n]*/g, ' ').replace(/\/\*[\s\S]*?\*\//g, ' ')
}
