// All output of the command line passes through here (output.ts): external text cannot control the terminal. Our own colours
// are marked with a random nonce of this process, and converted to escape sequences last.

import { randomBytes } from 'node:crypto'
import { acting, printable } from '../core/printable.ts'

const nonce = randomBytes(8).toString('hex')
const mark = new RegExp(`\ufdd0${nonce}(\\d+)\ufdd1`, 'g')

/** Marks the start or end of a colour. */
export function colourMark(code: number): string {
  return `\ufdd0${nonce}${code}\ufdd1`
}

/** On one line, with newlines escaped. @example escaped('a\x1b[2J') // 'a\\x1b[2J' */
export function escaped(text: string): string {
  // Split puts the codes of our own marks at odd indexes.
  return text
    .split(mark)
    .map((part, i) => (i % 2 === 1 ? colourMark(Number(part)) : printable(part)))
    .join('')
}

/** Only our own marks are left. */
export function coloured(text: string): string {
  return text.replace(mark, (_, code: string) => `\x1b[${code}m`)
}

export function withoutColours(text: string): string {
  return text.replace(mark, '')
}

/** For JSON, where all text is inside strings: uses JSON escapes. */
export function escapedJson(json: string): string {
  return json.replace(acting, (character) => (character === '\n' ? character : unicode(character)))
}

function unicode(character: string): string {
  return [...Array(character.length).keys()]
    .map((i) => `\\u${character.charCodeAt(i).toString(16).padStart(4, '0')}`)
    .join('')
}
