// The direction of imports and the purity of the core, read from the sources themselves. The second half shows that
// the checker can fail: each rule is broken once in a small made-up source.

import { readdirSync, readFileSync } from 'node:fs'
import { posix } from 'node:path'
import { fileURLToPath } from 'node:url'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { checkSource, findImports, isTest, linesMax, type Source } from '../scripts/architecture.ts'
import { functionLinesMax, longFunctions } from '../scripts/functions.ts'
import { tokenize } from '../scripts/tokens.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const sources = sourcesIn('src', /\.ts$/)

function sourcesIn(folder: string, name: RegExp): Source[] {
  return readdirSync(root + folder, { recursive: true, encoding: 'utf8' })
    .map((path) => `${folder}/${path.replaceAll('\\', '/')}`)
    .filter((path) => name.test(path) && !isTest(path))
    .sort()
    .map((path) => ({ path, text: readFileSync(root + path, 'utf8') }))
}

describe('the sources', () => {
  it('are found', () => {
    expect(sources.map((source) => source.path)).toContain('src/core/store/ports.ts')
  })

  it('import only in the direction that ARCHITECTURE.md draws, and the core stays pure', () => {
    const faults = sources.flatMap(checkSource).map((fault) => `${fault.path}:${fault.line} ${fault.what}`)
    expect(faults).toEqual([])
  })

  it(`have functions of at most ${functionLinesMax} lines`, () => {
    const code = [...sources, ...sourcesIn('scripts', /\.([mc]js|ts)$/), ...sourcesIn('dashboard', /\.tsx?$/)]
    const found = code
      // The conformance suite consists of tests.
      .filter(({ path }) => !path.startsWith('src/testing/conformance/'))
      .flatMap((source) => longFunctions(source))
    expect(found.map(({ path, line, name, lines }) => `${path}:${line} ${name} has ${lines} lines`)).toEqual([])
  })

  it('of the engine are in folders of which no two import each other', () => {
    const roomOf = (path: string) => path.slice(0, path.lastIndexOf('/'))
    const rooms = new Map<string, Set<string>>()
    for (const { path, text } of sources.filter((source) => source.path.startsWith('src/engine/'))) {
      const room = roomOf(path)
      const imported = rooms.get(room) ?? new Set()
      rooms.set(room, imported)
      for (const { from } of findImports(tokenize(text))) {
        if (from?.startsWith('.')) imported.add(roomOf(posix.join(room, from)))
      }
    }
    const mutual = [...rooms].flatMap(([room, imported]) =>
      [...imported]
        .filter((other) => other > room && rooms.get(other)?.has(room))
        .map((other) => `${room} and ${other}`),
    )
    expect(mutual).toEqual([])
  })

  it('submit commits in one place per purpose, and above the engine through the host', () => {
    const submitting = sources.filter(({ text }) => /\bcommitter\.submit\(/.test(text)).map(({ path }) => path)
    // One commit under a new operation id; the commits of an import at once; the first commit of a timeline.
    expect(submitting).toEqual([
      'src/engine/storage/kernel.ts',
      'src/engine/tools/transfer/import.ts',
      'src/engine/writing/create.ts',
    ])
    const above = sources.filter(({ path }) => isAboveEngine(path))
    expect(above.filter(({ text }) => /\bcommitter\b/.test(text)).map(({ path }) => path)).toEqual([])
  })

  it('above the engine use the verbs of the host, and the kernel no more often than before', () => {
    const uses: Record<string, number> = {}
    for (const { path, text } of sources.filter((source) => isAboveEngine(source.path))) {
      const folder = path.split('/')[1]!
      uses[folder] = (uses[folder] ?? 0) + (text.match(/\.kernel\b/g)?.length ?? 0)
    }
    for (const [folder, most] of Object.entries(kernelUsesMax)) {
      expect(uses[folder] ?? 0, `src/${folder} reaches for .kernel: use a verb of Host`).toBeLessThanOrEqual(most)
    }
  })

  it('of the largest parts are in folders of at most 25 files', () => {
    const large = /^src\/(?:core|engine|layers\/workflow|stores\/sqlite)\//
    const counts = new Map<string, number>()
    for (const { path } of sources) {
      const folder = path.slice(0, path.lastIndexOf('/') + 1)
      if (large.test(folder)) counts.set(folder, (counts.get(folder) ?? 0) + 1)
    }
    expect([...counts].filter(([, count]) => count > 25)).toEqual([])
  })

  it('of fewer than 40 lines with a single importer are at most 20, except for the entries of the package', () => {
    expect(corridors(sources).length, corridors(sources).join('\n')).toBeLessThanOrEqual(20)
  })

  it('derive keys that leave the store in core/identity.ts alone', () => {
    const found = sources.flatMap(({ path, text }) => (path === 'src/core/identity.ts' ? [] : handMadeKeys(path, text)))
    expect(found).toEqual(insideTheStore)
    // Keys from before are for data from before.
    const former = sources.filter(({ path, text }) => path !== 'src/core/identity.ts' && /\bformer\w+Key\b/.test(text))
    expect(former.map(({ path }) => path)).toEqual([
      'src/layers/job/shard.ts',
      'src/layers/pipeline/operators/calls.ts',
      'src/layers/workflow/history/outside-calls.ts',
      'src/layers/workflow/run/step-key.ts',
    ])
    // One place per model derives its keys, and one the identities that they start from.
    const deriving = (name: RegExp) =>
      sources.filter(({ text }) => importsOfIdentity(text).some((each) => name.test(each))).map(({ path }) => path)
    expect(deriving(/^intentKey$/)).toEqual([
      'src/engine/history/effects.ts',
      'src/layers/agent/calls.ts',
      'src/layers/job/shard.ts',
      'src/layers/pipeline/run/record-origins.ts',
      'src/layers/workflow/run/step-key.ts',
    ])
    expect(deriving(/^identityOf$/)).toEqual(['src/engine/storage/store-identity.ts'])
  })

  it('have every import seen: no line that starts one is missed', () => {
    for (const source of sources) {
      const tokens = tokenize(source.text)
      const lines = new Set(findImports(tokens).map((found) => found.line))
      // Code inside a template (a snippet for people) is text, not an import of this file.
      for (const { kind, text, line } of tokens) {
        if (kind === 'template') text.split('\n').forEach((_, i) => void lines.add(line + i))
      }
      source.text.split('\n').forEach((line, i) => {
        if (/^import\b/.test(line)) expect(lines, `${source.path}:${i + 1}`).toContain(i + 1)
      })
    }
  })
})

function isAboveEngine(path: string): boolean {
  return /^src\/(?:layers|adapters|operations|server|cli)\//.test(path)
}

/** How often `.kernel` occurs in the folders above the engine: to lower, never to raise. */
const kernelUsesMax = { layers: 202, adapters: 0, operations: 5, server: 6, cli: 10 }

/** Short files with a single importer: a reader opens a second file for a few lines that could be in the first. */
function corridors(all: readonly Source[]): string[] {
  const importers = new Map<string, Set<string>>()
  for (const { path, text } of all) {
    for (const { from } of findImports(tokenize(text))) {
      if (!from?.startsWith('.')) continue
      const target = posix.join(posix.dirname(path), from)
      importers.set(target, (importers.get(target) ?? new Set()).add(path))
    }
  }
  return all
    .filter(({ path, text }) => importers.get(path)?.size === 1 && text.split('\n').length <= 40)
    .map(({ path }) => path)
    .filter((path) => !path.endsWith('/index.ts'))
}

/** Ids that never leave the store: of mail and entries that are to be there once, and the name of a session's fork. */
const insideTheStore = [
  'src/layers/agent/session.ts: ${this.id}-similar-${n}',
  'src/layers/events/process-manager.ts: ${this.#name}:${at.timeline}@${at.seq}.${which}#${index}',
  'src/layers/pipeline/sinks/store.ts: ${pipeline}/${name}/${checkpoint}/${at}',
]

/** Texts made of the name, life or epoch of a timeline, run or pipeline and called a key, an id, a position or a revision. */
function handMadeKeys(path: string, text: string): string[] {
  const called = '(?:key|\\w+Key|id|\\w+Id|position|\\w+Position|cursor|revision|operation)'
  const made = new RegExp(`\\b${called}\\b(?:\\(.*\\))?\\s*(?::|=|\\?\\?=|=>)\\s*(?:\\w+ \\?\\? )?\`([^\`]*)\``, 'g')
  const names = /\$\{[^}]*\b(?:timeline|keyBase|pipeline|open\.id|run\.id|this\.id|life|epoch|incarnation)\b[^}]*\}/
  const joined = /\b(?:timeline|keyBase|open\.id|run\.id)\s*\+\s*['"`][:/].*/g
  return [
    ...[...text.matchAll(made)].flatMap(([, key]) => (names.test(key!) ? [`${path}: ${key}`] : [])),
    ...[...text.matchAll(joined)].map(([found]) => `${path}: ${found}`),
  ]
}

/** The names that a source imports from core/identity.ts. */
function importsOfIdentity(text: string): string[] {
  const lists = [...text.matchAll(/import (?:type )?\{([^}]*)\} from '[./]*core\/identity\.ts'/g)]
  return lists.flatMap(([, list]) => list!.split(',').map((name) => name.trim().replace(/ as .*/, '')))
}

function faultsOf(path: string, code: string): string[] {
  return checkSource({ path, text: `// What it is.\n${code}\n` }).map((fault) => fault.what)
}

it('a short file with a single importer is found', () => {
  const short = { path: 'src/core/a.ts', text: '// A.\nexport const a = 1\n' }
  const one = { path: 'src/core/b.ts', text: "// B.\nimport { a } from './a.ts'\n" }
  expect(corridors([short, one])).toEqual(['src/core/a.ts'])
  expect(corridors([short, one, { ...one, path: 'src/core/c.ts' }])).toEqual([])
  expect(corridors([{ ...short, text: short.text + '\n'.repeat(40) }, one])).toEqual([])
})

it('a hand-made key is found', () => {
  expect(handMadeKeys('a.ts', 'const key = `${open.id}:${step}`')).toEqual(['a.ts: ${open.id}:${step}'])
  expect(handMadeKeys('a.ts', 'send({ key: `${context.pipeline}/${number}` })')).toHaveLength(1)
  expect(handMadeKeys('a.ts', 'const key = `${name} ${version}`')).toEqual([])
  expect(handMadeKeys('a.ts', "const outside = head.timeline + ':' + step")).toHaveLength(1)
  expect(handMadeKeys('a.ts', 'return { position: `${head.life}-${seq}` }')).toHaveLength(1)
  expect(handMadeKeys('a.ts', 'const callId = `${run.id}:${n}`')).toHaveLength(1)
  expect(importsOfIdentity("import { formerItemKey, intentKey } from '../../core/identity.ts'")).toContain('intentKey')
})

describe('the checker refuses', () => {
  it.each([
    ['node: in core', 'src/core/a.ts', "import { readFile } from 'node:fs'"],
    ['a type from node: in core', 'src/core/a.ts', "import type { Stats } from 'node:fs'"],
    ['a package in core', 'src/core/a.ts', "import pg from 'pg'"],
    ['a package type in core', 'src/core/a.ts', "let a: import('pg').Client"],
    ['the core in lib', 'src/lib/a.ts', "import { b } from '../core/b.ts'"],
    ['a package in lib', 'src/lib/a.ts', "import pg from 'pg'"],
    ['node: in rules', 'src/layers/job/rules/a.ts', "import { readFile } from 'node:fs'"],
    ['a clock in rules', 'src/layers/job/rules/a.ts', 'export const a = Date.now()'],
    ['the engine in rules', 'src/layers/job/rules/a.ts', "import '../../../engine/base/log.ts'"],
    ['the shell of a layer in its rules', 'src/layers/job/rules/a.ts', "import '../run.ts'"],
    ['lib in core', 'src/core/a.ts', "import { b } from '../lib/b.ts'"],
    ['the engine in core', 'src/core/a.ts', "import { open } from '../engine/open.ts'"],
    ['a re-export of the engine from core', 'src/core/a.ts', "export { open } from '../engine/open.ts'"],
    ['a star re-export of the engine from core', 'src/core/a.ts', "export type * from '../engine/open.ts'"],
    ['the engine in a store', 'src/stores/a.ts', "import '../engine/open.ts'"],
    ['an unknown package in a store', 'src/stores/a.ts', "import x from 'better-sqlite3'"],
    ['a static driver', 'src/stores/a.ts', "import pg from 'pg'"],
    ['a required driver', 'src/stores/a.ts', "const pg = require('pg')"],
    ['a global of a runtime', 'src/engine/base/a.ts', 'const isDeno = typeof Deno !== "undefined"'],
    ['a global of a runtime behind globalThis', 'src/cli/a.ts', 'const isBun = globalThis.Bun !== undefined'],
    ['the version of a runtime', 'src/stores/a.ts', 'const isBun = process.versions.bun !== undefined'],
    ['the user agent', 'src/stores/a.ts', 'const { navigator } = globalThis as Any'],
    ['the choice of a runtime elsewhere', 'src/stores/a.ts', "import { runtime } from '#runtime'"],
    ['a static node:sqlite', 'src/stores/a.ts', "import { DatabaseSync } from 'node:sqlite'"],
    ['a floor above', 'src/engine/history/a.ts', "import type { B } from '../writing/b.ts'"],
    ['a file on no floor', 'src/engine/a.ts', "import { b } from './base/b.ts'"],
    ['a store in the engine', 'src/engine/a.ts', "const a = () => import('../stores/memory.ts')"],
    [
      'a static store in open-store.ts',
      'src/engine/storage/open-store.ts',
      "import { memory } from '../../stores/memory.ts'",
    ],
    ['a layer in the engine', 'src/engine/a.ts', "import '../layers/job/index.ts'"],
    ['a layer in another layer', 'src/layers/job/a.ts', "import '../save/index.ts'"],
    ['an adapter in another adapter', 'src/adapters/langgraph/a.ts', "import '../ai-sdk/index.ts'"],
    ['a layer in an adapter', 'src/adapters/langgraph/a.ts', "import '../../layers/agent/index.ts'"],
    ['the inside of a layer in its connector', 'src/adapters/nats/a.ts', "import '../../layers/pipeline/run/run.ts'"],
    ['another layer in a connector', 'src/adapters/nats/a.ts', "import '../../layers/table/source.ts'"],
    ['an adapter in a layer', 'src/layers/agent/a.ts', "import '../../adapters/ai-sdk/index.ts'"],
    ["another adapter's package", 'src/adapters/ai-sdk/a.ts', "import '@langchain/core'"],
    ['a store in a layer', 'src/layers/job/a.ts', "import '../../stores/memory.ts'"],
    ['a store in src/index.ts', 'src/index.ts', "export * from './stores/memory.ts'"],
    ['the inside of a layer in an entry', 'src/resources.ts', "export * from './layers/config/handle.ts'"],
    ['a layer in another entry', 'src/index.ts', "export * from './layers/config/index.ts'"],
    ['the cli in testing', 'src/testing/a.ts', "import '../cli/main.ts'"],
    ['the cli in a layer', 'src/layers/job/a.ts', "import type { Main } from '../../cli/main.ts'"],
    ['a way out of src', 'src/testing/a.ts', "import '../../test/helper.ts'"],
    ['a test', 'src/engine/a.ts', "import './open.test.ts'"],
    ['a computed import', 'src/engine/a.ts', 'const a = (name: string) => import(name)'],
    ['a folder without a rule', 'src/extras/a.ts', 'export const a = 1'],
    ['await in core', 'src/core/a.ts', 'export const a = await b'],
    ['async in core', 'src/core/a.ts', 'export const a = async () => 1'],
    ['Date.now in core', 'src/core/a.ts', 'export const a = Date.now()'],
    ['Date?.now in core', 'src/core/a.ts', 'export const a = Date?.now'],
    ['the current Date in core', 'src/core/a.ts', 'export const a = new Date()'],
    ['the current Date without parentheses', 'src/core/a.ts', 'export const a = new Date'],
    ['the current date as text', 'src/core/a.ts', 'export const a = Date()'],
    ['a hidden Date', 'src/core/a.ts', "export const a = Date['now']()"],
    ['Math.random in core', 'src/core/a.ts', 'export const a = Math.random()'],
    ['a hidden Math.random', 'src/core/a.ts', 'const { random } = Math'],
    ['performance in core', 'src/core/a.ts', 'export const a = performance.now()'],
    ['a timer in core', 'src/core/a.ts', 'setTimeout(() => {}, 1)'],
    ['crypto in core', 'src/core/a.ts', 'crypto.getRandomValues(bytes)'],
    ['process in core', 'src/core/a.ts', 'const a = b ? process : c'],
    ['globalThis in core', 'src/core/a.ts', "globalThis['process']"],
    ['a clock inside a template', 'src/core/a.ts', 'const a = `at ${Date.now()} ms`'],
    ['an import on several lines', 'src/core/a.ts', "import {\n  a,\n  b,\n} from 'node:fs'"],
    ['the beginning of an id', 'src/engine/a.ts', "if (head.timeline.startsWith('x')) go()"],
    ['the beginning of an id with a kind', 'src/cli/a.ts', "const a = b.startsWith('job/')"],
    ['the beginning of an id with a prefix', 'src/layers/job/a.ts', 'const a = from.startsWith(definition.prefix)'],
    ['the beginning of an id with a made prefix', 'src/engine/a.ts', 'const a = b.startsWith(`job/${name}`)'],
    ['the beginning of an archive', 'src/engine/a.ts', 'const a = b.startsWith(`${id}~`)'],
    ['the beginning of an id in SQL', 'src/stores/postgres/a.ts', 'const a = `starts_with(t.id, $1)`'],
    ['an import after a regular expression with a quote', 'src/core/a.ts', "const a = /['\"`]/\nimport 'node:fs'"],
  ])('%s', (_name, path, code) => {
    expect(faultsOf(path, code)).toHaveLength(1)
  })

  it('a file without an opening comment', () => {
    expect(checkSource({ path: 'src/core/a.ts', text: 'export const a = 1\n' })).toHaveLength(1)
  })

  it('a file with one line too many, and not one with exactly as many as allowed', () => {
    const text = (lines: number) => `// What it is.\n${'\n'.repeat(lines - 1)}`
    expect(checkSource({ path: 'src/core/a.ts', text: text(linesMax) })).toEqual([])
    expect(checkSource({ path: 'src/core/a.ts', text: text(linesMax + 1) })).toHaveLength(1)
  })

  describe('functions with one line too many, and not those with exactly as many as allowed:', () => {
    const body = (lines: number) => 'work()\n'.repeat(lines)
    it.each([
      ['a function', (lines: number) => `function a() {\n${body(lines - 2)}}`],
      ['an arrow', (lines: number) => `const a = async () => {\n${body(lines - 2)}}`],
      ['a method', (lines: number) => `class A {\n  a() {\n${body(lines - 2)}}\n}`],
      ['a constructor', (lines: number) => `class A {\n  constructor() {\n${body(lines - 2)}}\n}`],
      ['an accessor', (lines: number) => `const o = {\n  get a() {\n${body(lines - 2)}}\n}`],
      ['a function with a callback', (lines: number) => `function a() {\n  each(() => {\n${body(lines - 4)}})\n}`],
      [
        'a function with a branch and a nested function',
        (lines: number) => `function a() {\n  if (b) c()\n  function d() {\n${body(lines - 5)}}\n}`,
      ],
      [
        'a method that a factory returns',
        (lines: number) => `const b = () => {\n${body(10)}  return {\n    a() {\n${body(lines - 2)}}\n  }\n}`,
      ],
    ])('%s', (_name, text) => {
      const found = (lines: number) => longFunctions({ path: 'a.ts', text: text(lines) })
      expect(found(functionLinesMax)).toEqual([])
      expect(found(functionLinesMax + 1).map(({ lines }) => lines)).toContain(functionLinesMax + 1)
    })
  })
})

describe('the checker accepts', () => {
  it.each([
    ['core and rules in rules', 'src/layers/job/rules/a.ts', "import '../../../core/b.ts'\nimport './b.ts'"],
    ['core in core', 'src/core/a.ts', "import { b } from './b.ts'"],
    ['a global of a runtime in its file', 'src/lib/runtime/deno.ts', 'const { Deno } = globalThis as Any'],
    ['lib in a layer', 'src/layers/save/a.ts', "import { isEqual } from '../../lib/differences.ts'"],
    ['core in a store', 'src/stores/sqlite/a.ts', "import type { Store } from '../../core/ports.ts'"],
    ['a driver on demand', 'src/stores/a.ts', "const pg = () => import('pg')"],
    ['the type of a driver', 'src/stores/a.ts', "import type { Client } from 'pg'"],
    [
      'a store on demand in open-store.ts',
      'src/engine/storage/open-store.ts',
      "const a = () => import('../../stores/memory.ts')",
    ],
    ['core and engine in a layer', 'src/layers/job/a.ts', "import '../../core/run.ts'\nimport '../../engine/open.ts'"],
    ['a file of the same layer', 'src/layers/job/a.ts', "import './b.ts'"],
    ['a layer in the entry that joins it', 'src/resources.ts', "export * from './layers/config/index.ts'"],
    ['everything in testing', 'src/testing/a.ts', "import '../stores/memory.ts'\nimport '../engine/open.ts'"],
    ['a given Date', 'src/core/a.ts', 'const a = (ms: number) => new Date(ms) instanceof Date'],
    ['a list of dates as a type', 'src/core/a.ts', 'const a: Date[] = []'],
    ['other mathematics', 'src/core/a.ts', 'const a = Math.max(1, 2)'],
    ['a property called process', 'src/core/a.ts', 'interface A { readonly process: string; crypto?: string }'],
    ['a member called process', 'src/core/a.ts', 'const a = worker.process'],
    ['words in comments', 'src/core/a.ts', "// await import('node:fs')\n/* Date.now() */"],
    ['words in strings', 'src/core/a.ts', 'const a = "await Date.now()" + `import \'pg\'`'],
    ['words in regular expressions', 'src/core/a.ts', 'const a = /await|Math.random/'],
    ['a computed import in the cli', 'src/cli/a.ts', 'const a = (path: string) => import(path)'],
    ['the beginning of a type', 'src/engine/a.ts', 'const a = entry.type.startsWith(systemPrefix)'],
    ['the beginning of a key', 'src/layers/table/a.ts', 'const a = key.startsWith(prefix)'],
    ['the beginning of a path', 'src/layers/agent/a.ts', "const a = path.startsWith('/')"],
    ['import.meta', 'src/engine/a.ts', 'const a = import.meta.url'],
  ])('%s', (_name, path, code) => {
    expect(faultsOf(path, code)).toEqual([])
  })
})

it('a factory is measured without the functions that it defines', () => {
  const method = (name: string) => `    ${name}() {\n${'work()\n'.repeat(40)}    },\n`
  const text = `function a() {\n  const b = c()\n  return {\n${method('d')}${method('e')}${method('f')}  }\n}`
  expect(longFunctions({ path: 'a.ts', text })).toEqual([])
  expect(longFunctions({ path: 'a.ts', text: text.replace('const b = c()', 'if (b) c()') })).toHaveLength(1)
})

describe('the tokenizer', () => {
  const harmless = fc.constantFrom(
    ...[
      "'it\\'s'",
      '"import"',
      '`a ${`b ${1} c`} d`',
      '/[/"]+/.test(a)',
      '// import "x"\n',
      '/* async */',
      '{ a: 1 }',
      'a / b / c',
    ],
  )
  const imports = fc.constantFrom("import 'seen'", "export * from 'seen'", "const q = import('seen')")

  it('sees an import between any pieces of source, and none that is not there', () => {
    fc.assert(
      fc.property(fc.array(harmless), imports, fc.array(harmless), (before, statement, after) => {
        const quiet = (pieces: string[]) => pieces.map((piece) => `x = ${piece};`).join('\n')
        const found = findImports(tokenize(`${quiet(before)}\n${statement};\n${quiet(after)}`))
        expect(found.map((one) => one.from)).toEqual(['seen'])
        expect(findImports(tokenize(quiet([...before, ...after])))).toEqual([])
      }),
    )
  })

  it('counts lines through templates and comments', () => {
    expect(tokenize('`\n${1}\n`\n/*\n*/ last').at(-1)).toEqual({ kind: 'word', text: 'last', line: 5 })
  })
})
