// The hint of a code is printed wherever the code is raised without a hint of its own, so it must fit each of these places.
// The places are read from the syntax tree. Four codes are raised about many subjects: timelines, files, topics, letters.

import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { parseAst } from 'rolldown/parseAst'
import { describe, expect, it } from 'vitest'
import { explain, noTimeline } from '../src/core/errors.ts'
import { refusalError } from '../src/engine/base/refusal-error.ts'
import { missing } from '../src/server/scope-filter.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
/** Position of the argument `hint` of a RepriseError. */
const hintAt = 4

interface Node {
  readonly type: string
  readonly start: number
  readonly end: number
  readonly callee?: Node
  readonly arguments?: readonly Node[]
}

interface Raised {
  readonly code: string
  readonly path: string
  readonly hasOwnHint: boolean
}

const sources = readdirSync(`${root}src`, { recursive: true, encoding: 'utf8' })
  .map((name) => `src/${name.replaceAll('\\', '/')}`)
  .filter((path) => /\.ts$/.test(path) && !/\.test\.ts$|^src\/testing\//.test(path))

const raised = sources.flatMap((path) => raisedIn(path, readFileSync(root + path, 'utf8')))

/** Each `new RepriseError('CODE', …)`; a choice between two codes counts for both. */
function raisedIn(path: string, text: string): Raised[] {
  if (!text.includes('RepriseError(')) return []
  const found: Raised[] = []
  const visit = (node: Node): void => {
    const [code] = node.arguments ?? []
    if (node.type === 'NewExpression' && code && textOf(node.callee!) === 'RepriseError') {
      for (const [, name] of textOf(code).matchAll(/'([A-Z_]+)'/g)) {
        found.push({ code: name!, path, hasOwnHint: node.arguments!.length > hintAt })
      }
    }
    for (const child of Object.values(node).flat()) if (typeof child?.type === 'string') visit(child as Node)
  }
  const textOf = ({ start, end }: Node) => text.slice(start, end)
  for (const node of parseAst(text, { lang: 'ts' }, path).body) visit(node as unknown as Node)
  return found
}

/** The files that raise a code with its general hint. */
function withGeneralHint(code: string): string[] {
  return [...new Set(raised.filter((each) => each.code === code && !each.hasOwnHint).map(({ path }) => path))].sort()
}

/** Things that only some errors are about, and commands, calls and options for them. */
const subjects =
  /\b(timelines?|runs?|topics?|streams?|files?|letters?|stores?|cop(y|ies)|checkpoints?|namespaces?)\b|reprise \w|\w\(\)|--\w/i

describe('the hint of a code fits every place that raises it without its own', () => {
  it('the places are found', () => {
    expect(raised.length).toBeGreaterThan(800)
    expect(raised.filter(({ hasOwnHint }) => hasOwnHint).length).toBeGreaterThan(30)
  })

  it.each(['NOT_FOUND', 'CONFLICT'] as const)('%s is raised about many subjects, and its hint names none', (code) => {
    expect(withGeneralHint(code).length).toBeGreaterThan(10)
    expect(subjects.exec(explain(code).hint)?.[0]).toBeUndefined()
  })

  // The hint of POSITION_GONE is about a store that was restored to an older copy: a topic, a stream or a file has another one.
  it('POSITION_GONE advises on a restored store only where the position is one of the feed of the store', () => {
    expect(withGeneralHint('POSITION_GONE')).toEqual([
      'src/engine/feed/feed-marks.ts',
      'src/engine/feed/subscription.ts',
      'src/stores/refusals.ts',
    ])
  })

  // The hint of LIMIT_EXCEEDED is to make a value smaller, which does not help with letters, forks or the response of a service.
  it('LIMIT_EXCEEDED advises to make a value smaller only where a value, a tree or a request is too large', () => {
    const elsewhere = /letter|lines\.ts|feed|pipeline|branch|models|postgres-cdc|kafka|nats|host/
    expect(withGeneralHint('LIMIT_EXCEEDED').filter((path) => elsewhere.test(path))).toEqual([])
  })

  it('a timeline that is missing has the same advice everywhere, and a server does not show which one is hidden', () => {
    const { hint } = noTimeline('counter/visits')
    expect(hint).toContain('reprise ls')
    expect(missing('counter/visits').hint).toBe(hint)
    const refused = { ok: false, code: 'NOT_FOUND', reason: 'there is no timeline counter/visits', head: null } as const
    expect(refusalError('counter/visits', refused).hint).toBe(hint)
    const copies = sources.filter((path) =>
      /new RepriseError\('NOT_FOUND', `there is no timeline \$\{[^}]*\}`/.test(readFileSync(root + path, 'utf8')),
    )
    expect(copies).toEqual(['src/core/errors.ts'])
  })
})
