// Text from outside on its way to a terminal. A payload may hold escape sequences that move the cursor, change the title,
// hide or forge lines: what could act on a terminal is shown instead.

/** C0 and C1 controls, DEL, what turns, separates or hides text, tags, noncharacters, and halves of surrogate pairs. */
export const acting =
  /[\p{Cc}\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufdd0-\ufdef\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]|\p{Surrogate}/gu

/** On one line, newlines included. @example printable('a\x1b[2J') // 'a\\x1b[2J' */
export function printable(text: string): string {
  return text.replace(acting, shown)
}

function shown(character: string): string {
  const code = character.codePointAt(0)!
  if (character === '\n') return '\\n'
  if (character === '\r') return '\\r'
  if (character === '\t') return '\\t'
  return code < 256 ? `\\x${code.toString(16).padStart(2, '0')}` : `\\u{${code.toString(16)}}`
}
