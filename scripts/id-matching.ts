// Finds comparisons of timeline ids outside src/core/history/scope.ts, which owns the rule that ids are matched by whole
// segments. It reads text only: the compared name (`timeline.startsWith`), and the other side (a prefix, `'job/'`, text and a
// tilde).

import type { Token } from './tokens.ts'

/** Files with an exception: the rule itself, its form in SQL, and text that a person is typing. */
const owners: Readonly<Record<string, string>> = {
  'src/core/history/scope.ts': 'owns the rule',
  'src/core/coordinate.ts': 'says what an id is',
  'src/stores/postgres/scope.ts': 'the rule in SQL',
  'src/stores/sqlite/rows/query.ts': 'the rule in SQL',
  'src/cli/find-timeline.ts': 'finds what a person began to type',
}

/** Names of variables that hold ids of timelines, whatever they are compared with. */
const ids = new Set(['timeline', 'archive', 'scope', 'parent', 'owner', 'head'])
/** Names of prefixes that are not prefixes of ids. */
const otherPrefixes = new Set(['systemPrefix', 'layerPrefix'])
/** Names of variables that are compared with prefixes and hold no ids of timelines: keys of a table. */
const notIds = new Set(['key', 'start'])

export function findIdComparisons(path: string, tokens: readonly Token[]): { line: number; what: string }[] {
  if (Object.hasOwn(owners, path)) return []
  const faults: { line: number; what: string }[] = []
  tokens.forEach((token, i) => {
    if (token.kind === 'template' && /\bstarts_with\(|\bGLOB\b/.test(token.text)) {
      faults.push({ line: token.line, what: 'compares ids in SQL: leave it to the scope of its store' })
    }
    if (token.text !== 'startsWith' || tokens[i + 1]?.text !== '(') return
    const [receiver, given] = [tokens[i - 2], tokens.slice(i + 2, i + 8)]
    if (!isIdComparison(receiver, given)) return
    faults.push({
      line: token.line,
      what: `compares an id by its beginning: use isWithin of src/core/history/scope.ts`,
    })
  })
  return faults
}

function isIdComparison(receiver: Token | undefined, [first, ...rest]: readonly Token[]): boolean {
  if (receiver?.kind === 'word' && ids.has(receiver.text)) return true
  if (first?.kind === 'string') return /^[a-z-]+\/$/.test(first.text)
  if (first?.kind === 'template') return /^`[a-z-]*\/|~`$/.test(first.text) || rest.some((each) => each.text === '}~`')
  const isName = (text: string) => /prefix$/i.test(text) && !otherPrefixes.has(text)
  const last = rest.find((each) => each.text === ')')
  const argument = last ? [first!, ...rest.slice(0, rest.indexOf(last))] : [first!]
  return !notIds.has(receiver?.text ?? '') && argument.some((each) => each.kind === 'word' && isName(each.text))
}
