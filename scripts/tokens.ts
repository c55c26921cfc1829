// A small tokenizer for TypeScript sources: enough to see words and imports without being fooled by comments, strings,
// templates or regular expressions. It promises the right kind and line of each token; it does not parse grammar.

export interface Token {
  readonly kind: 'word' | 'string' | 'template' | 'regex' | 'number' | 'mark'
  /** A string's content without its quotes; everything else as written. */
  readonly text: string
  readonly line: number
}

const wordPattern = /[\p{ID_Start}$_#@][\p{ID_Continue}$\u200c\u200d]*/uy
const numberPattern = /\d[\w.]*/y
const blankPattern = /\s+/y
// After one of these a slash starts a regular expression; after any other word, number or closing bracket it divides.
const wordsBeforeRegex = new Set(
  'return typeof instanceof in of new delete void throw case do else await yield extends'.split(' '),
)

/** @example tokenize("import 'a' // b") // two tokens: the word import, the string a */
export function tokenize(source: string): Token[] {
  const tokens: Token[] = []
  // Each open `${` records its depth in braces, so that its closing brace returns to the template.
  const templateDepths: number[] = []
  let depth = 0
  let at = source.startsWith('#!') ? endOfLine(source, 0) : 0
  let line = 1

  const push = (kind: Token['kind'], end: number, text = source.slice(at, end)) => {
    tokens.push({ kind, text, line })
    advance(end)
  }
  const advance = (end: number) => {
    for (let i = at; i < end; i++) if (source[i] === '\n') line += 1
    at = end
  }
  const match = (pattern: RegExp) => {
    pattern.lastIndex = at
    return pattern.test(source) ? pattern.lastIndex : undefined
  }
  const template = () => {
    const end = endOfTemplate(source, at + 1)
    if (source[end - 1] === '{') {
      templateDepths.push(depth)
      depth += 1
    }
    push('template', end)
  }

  while (at < source.length) {
    const char = source[at]!
    const blankEnd = match(blankPattern)
    if (blankEnd !== undefined) advance(blankEnd)
    else if (source.startsWith('//', at)) advance(endOfLine(source, at))
    else if (source.startsWith('/*', at)) advance(endAfter(source, '*/', at + 2))
    else if (char === "'" || char === '"') {
      const end = endOfQuoted(source, at)
      push('string', end, source.slice(at + 1, end - 1))
    } else if (char === '`') template()
    else if (char === '}' && templateDepths.at(-1) === depth - 1) {
      templateDepths.pop()
      depth -= 1
      template()
    } else if (char === '/' && mayStartRegex(tokens.at(-1))) push('regex', endOfRegex(source, at))
    else {
      const wordEnd = match(wordPattern)
      const numberEnd = match(numberPattern)
      if (wordEnd !== undefined) push('word', wordEnd)
      else if (numberEnd !== undefined) push('number', numberEnd)
      else {
        if (char === '{') depth += 1
        if (char === '}') depth -= 1
        push('mark', source.startsWith('=>', at) || source.startsWith('?.', at) ? at + 2 : at + 1)
      }
    }
  }
  return tokens
}

function mayStartRegex(before: Token | undefined): boolean {
  if (before === undefined) return true
  if (before.kind === 'word') return wordsBeforeRegex.has(before.text)
  if (before.kind === 'template') return before.text.endsWith('${')
  return before.kind === 'mark' && ![')', ']', '}'].includes(before.text)
}

function endOfLine(source: string, from: number): number {
  const end = source.indexOf('\n', from)
  return end === -1 ? source.length : end
}

function endAfter(source: string, mark: string, from: number): number {
  const found = source.indexOf(mark, from)
  return found === -1 ? source.length : found + mark.length
}

function endOfQuoted(source: string, from: number): number {
  for (let i = from + 1; i < source.length; i++) {
    if (source[i] === '\\') i += 1
    else if (source[i] === source[from]) return i + 1
  }
  return source.length
}

/** After the closing backtick, or after the `${` that interrupts the template. */
function endOfTemplate(source: string, from: number): number {
  for (let i = from; i < source.length; i++) {
    if (source[i] === '\\') i += 1
    else if (source[i] === '`') return i + 1
    else if (source.startsWith('${', i)) return i + 2
  }
  return source.length
}

function endOfRegex(source: string, from: number): number {
  let isInClass = false
  for (let i = from + 1; i < source.length; i++) {
    if (source[i] === '\\') i += 1
    else if (source[i] === '[') isInClass = true
    else if (source[i] === ']') isInClass = false
    else if (source[i] === '/' && !isInClass) return i + 1
    else if (source[i] === '\n') return from + 1
  }
  return source.length
}
