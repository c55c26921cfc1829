// Makes outside text safe for a terminal. A payload may contain escape sequences that move the cursor, change the title,
// or hide or forge lines: characters that a terminal would act on are replaced by a visible escape.

/** C0 and C1 controls, DEL, bidi controls, separators, invisible characters, tags, noncharacters, and lone surrogates. */
export const acting =
  /[\p{Cc}\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufdd0-\ufdef\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]|\p{Surrogate}/gu

/** Returns text on one line: newlines are escaped too. @example printable('a\x1b[2J') // 'a\\x1b[2J' */
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
