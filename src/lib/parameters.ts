// The parameters that a function declares, read from its text: `length` stops at the first one with a default value.

/**
 * Whether a function declares a parameter at this position. Null if its text does not show it: rest parameters, bound and native
 * functions.
 * @example hasParameter((ctx: unknown, input = 5) => input, 1) // true
 */
export function hasParameter(call: (...given: never[]) => unknown, index: number): boolean | null {
  if (call.length > index) return true
  const declared = parametersIn(Function.prototype.toString.call(call))
  if (declared === null || declared.slice(0, index + 1).some((each) => each.startsWith('...'))) return null
  return declared.length > index
}

/** The text of each parameter. Null: a bound or native function, or a text that this reader does not understand. */
function parametersIn(text: string): readonly string[] | null {
  const single = /^(?:async\s+)?([\w$]+)\s*=>/.exec(text)
  if (single) return [single[1]!]
  const start = text.indexOf('(')
  if (!/^[\w$\s*#]*$/.test(text.slice(0, start)) || /\{\s*\[native code\]\s*\}\s*$/.test(text)) return null
  const found = ['']
  for (let at = start + 1, depth = 0; at < text.length; at++) {
    const skipped = /^(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|\/\*[\s\S]*?\*\/|\/\/.*)/.exec(text.slice(at, at + 1000))
    const char = text[at]!
    if (skipped) {
      // A comment is not part of a parameter.
      if (char !== '/') found[found.length - 1] += skipped[0]
      at += skipped[0].length - 1
      continue
    }
    // A template or a regular expression may contain brackets.
    if (char === '`' || char === '/') return null
    if (char === ')' && depth === 0) return found.map((each) => each.trim()).filter((each) => each !== '')
    if ('([{'.includes(char)) depth += 1
    if (')]}'.includes(char)) depth -= 1
    if (char === ',' && depth === 0) found.push('')
    else found[found.length - 1] += char
  }
  return null
}
