// Whatever the command line prints goes through here (output.ts): text from outside cannot act on the terminal. Our own
// colours are marked by a word that nobody outside this process knows, and become sequences last.

import { randomBytes } from 'node:crypto'
import { acting, printable } from '../core/printable.ts'

const nonce = randomBytes(8).toString('hex')
const mark = new RegExp(`\ufdd0${nonce}(\\d+)\ufdd1`, 'g')

/** Where a colour starts or ends. */
export function colourMark(code: number): string {
  return `\ufdd0${nonce}${code}\ufdd1`
}

/** On one line, newlines included. @example escaped('a\x1b[2J') // 'a\\x1b[2J' */
export function escaped(text: string): string {
  // Split keeps the codes of our own marks at the odd places.
  return text
    .split(mark)
    .map((part, i) => (i % 2 === 1 ? colourMark(Number(part)) : printable(part)))
    .join('')
}

/** What is left are our own marks. */
export function coloured(text: string): string {
  return text.replace(mark, (_, code: string) => `\x1b[${code}m`)
}

export function withoutColours(text: string): string {
  return text.replace(mark, '')
}

/** In JSON, where all of it stands inside texts: written as JSON escapes it. */
export function escapedJson(json: string): string {
  return json.replace(acting, (character) => (character === '\n' ? character : unicode(character)))
}

function unicode(character: string): string {
  return [...Array(character.length).keys()]
    .map((i) => `\\u${character.charCodeAt(i).toString(16).padStart(4, '0')}`)
    .join('')
}
