// Texts of errors as history stores them: well-formed, of bounded length, and with the frames of the user's code only.

const textMax = 2000

/** @example boundedText('a\ud800') // 'a\ufffd' */
export function boundedText(text: string): string {
  // In unicode mode a whole surrogate pair is one character, so only a lone half matches.
  const whole = text.replace(/\p{Surrogate}/gu, '\ufffd')
  return whole.length > textMax ? `${whole.slice(0, textMax)}…` : whole
}

/** The text of a thrown value that is not an error. Its own conversion to text may throw. */
export function thrownText(value: unknown): string {
  try {
    return `a value that is not an error was thrown: ${boundedText(String(value))}`
  } catch {
    return `a value that is not an error was thrown: ${typeof value}`
  }
}

/** The innermost frames of a stack that are not Node's own. */
export function userFrames(stack: string, most: number): string {
  const frames = stack.split('\n').filter((line) => /^\s+at /.test(line) && !line.includes('node:internal'))
  return boundedText(frames.slice(0, most).join('\n'))
}
