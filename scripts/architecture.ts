// The import rules of ARCHITECTURE.md as a function from sources to faults: permitted imports, names that the pure core must not
// use, the length of a file. It reads text only; test/architecture.test.ts passes it the real tree.

import { posix } from 'node:path'
import { findIdComparisons } from './id-matching.ts'
import { type Token, tokenize } from './tokens.ts'

export interface Source {
  /** From the root of the repository, with forward slashes: src/core/history/entry-run.ts. */
  readonly path: string
  readonly text: string
}

export interface Fault {
  readonly path: string
  readonly line: number
  readonly what: string
}

export interface Import {
  /** Null: the name is computed. */
  readonly from: string | null
  readonly kind: 'static' | 'type' | 'dynamic'
  readonly line: number
}

interface Zone {
  /** Zones under src that it may import, itself included. */
  readonly zones: readonly string[]
  readonly mayUseNode: boolean
  /** Packages it may load; `any` leaves the choice to package.json. */
  readonly packages: readonly string[] | 'any'
}

const everything = ['root', 'lib', 'core', 'engine', 'stores', 'layers', 'adapters', 'operations', 'testing']

/** The pure half of a layer: the rules of its model. */
const rulesZone: Zone = { zones: ['core', 'layers'], mayUseNode: false, packages: [] }

const zones: Readonly<Record<string, Zone>> = {
  lib: { zones: ['lib'], mayUseNode: true, packages: [] },
  core: { zones: ['core'], mayUseNode: false, packages: [] },
  stores: {
    zones: ['lib', 'core', 'stores'],
    mayUseNode: true,
    packages: ['@photostructure/sqlite', 'pg', 'aws4fetch'],
  },
  engine: { zones: ['lib', 'core', 'engine'], mayUseNode: true, packages: [] },
  layers: { zones: ['lib', 'core', 'engine', 'layers'], mayUseNode: true, packages: ['croner', 'rfc6902'] },
  adapters: { zones: ['lib', 'core', 'engine', 'adapters'], mayUseNode: true, packages: [] },
  operations: { zones: ['lib', 'core', 'engine', 'layers', 'adapters', 'operations'], mayUseNode: true, packages: [] },
  server: {
    zones: ['lib', 'core', 'engine', 'layers', 'adapters', 'operations', 'server'],
    mayUseNode: true,
    packages: ['@hono/node-server', '@modelcontextprotocol/sdk'],
  },
  root: { zones: ['lib', 'core', 'engine'], mayUseNode: true, packages: [] },
  testing: { zones: everything, mayUseNode: true, packages: 'any' },
  cli: { zones: [...everything, 'server', 'cli'], mayUseNode: true, packages: 'any' },
}

/** An adapter may load the package of its framework, which its user has installed. */
const packagesOfAdapter: Readonly<Record<string, readonly string[]>> = {
  langgraph: ['@langchain/core', '@langchain/langgraph-checkpoint'],
  'openai-agents': ['@openai/agents'],
  'ai-sdk': ['ai'],
  kysely: ['kysely'],
  drizzle: ['drizzle-orm'],
  otel: ['@opentelemetry/api'],
  kafka: ['@kafkats/client'],
  nats: ['@nats-io/jetstream', '@nats-io/transport-node'],
  'postgres-cdc': ['pg'],
  kubernetes: ['@kubernetes/client-node'],
  sqs: ['aws4fetch'],
  amqp: ['amqplib'],
  redis: ['@redis/client'],
}

interface LayerContract {
  readonly layer: string
  readonly files: readonly string[]
}

const pipelineContract: LayerContract = {
  layer: 'pipeline',
  files: ['batch.ts', 'sink.ts', 'source.ts', 'sources/ready-queue.ts', 'rules/'],
}
const queueContract: LayerContract = { layer: 'job', files: ['queues/', 'source.ts'] }

/** An adapter that connects layers to an outside system may import their contracts, nothing else of them, and no other layer. */
const connectsLayers: Readonly<Record<string, readonly LayerContract[]>> = {
  kafka: [pipelineContract, queueContract],
  nats: [pipelineContract, queueContract],
  'postgres-cdc': [pipelineContract],
  sqs: [queueContract],
  amqp: [queueContract],
  redis: [queueContract],
  kubernetes: [{ layer: 'resource', files: ['origin.ts', 'rules/'] }],
}

/** An adapter that uses one file of a store, and why: both find the keys of AWS in the same places. */
const sharesFiles: Readonly<Record<string, readonly string[]>> = {
  'src/adapters/sqs/client.ts': ['src/stores/s3/credentials.ts'],
}

/** Entries of the package that join several layers under one name. They re-export, and do nothing else. */
const joinsLayers: Readonly<Record<string, readonly string[]>> = { 'src/resources.ts': ['config', 'resource'] }

/** The one file of the engine that imports stores, and only dynamically. */
const storeOpener = 'src/engine/storage/open-store.ts'
/** The floors of the engine, bottom first. A file imports from its own floor and from the floors below. */
const engineFloors = [
  'base',
  'model',
  'storage',
  'snapshot',
  'history',
  'checkpoint',
  'ownership',
  'writing',
  'feed',
  'branch',
  'host',
  'tools',
  'api',
]
/** Not available to every user or on every Node: never a static import. */
const loadedOnDemand = [
  ...['pg', 'aws4fetch', 'amqplib', '@redis/client', 'node:sqlite'],
  ...['@modelcontextprotocol/sdk', '@kubernetes/client-node'],
]

/** Files that may import a name held in a variable, each with its reason. The cli may anywhere: it runs users' files. */
const computedImports: Readonly<Record<string, string>> = {
  'src/layers/migrate/steps.ts': 'it runs the files of a folder that the user names',
  'src/stores/sqlite/file/driver.ts': 'node:sqlite is not known to every Node, nor to the compiler and to bundlers',
}

/** The folder for the differences between runtimes: all other files use its port. */
const runtimeFolder = 'src/lib/runtime/'
const runtimeGlobals = new Set(['Bun', 'Deno', 'WebSocketPair', 'EdgeRuntime', 'navigator'])

/** A file above this length holds several nouns. The limit that keeps code readable is that of functions (functions.ts). */
export const linesMax = 800

/** @example checkSource({ path: 'src/core/a.ts', text: "// A.\nimport 'node:fs'" }) // one fault */
export function checkSource(source: Source): Fault[] {
  const zoneName = zoneOf(source.path)
  const isRules = rulesOf(source.path) !== null
  const zone = isRules ? rulesZone : zones[zoneName]
  if (zone === undefined) return [{ path: source.path, line: 1, what: `no import rule for src/${zoneName}: add one` }]
  const tokens = tokenize(source.text)
  const faults: Omit<Fault, 'path'>[] = [...checkShape(source)]
  for (const found of findImports(tokens)) {
    const what = refuseImport(source.path, zoneName, zone, found)
    if (what !== undefined) faults.push({ line: found.line, what })
  }
  if (zoneName === 'core' || isRules) faults.push(...checkPurity(tokens))
  faults.push(...findIdComparisons(source.path, tokens), ...findRuntimeTests(source.path, tokens))
  return faults.map((fault) => ({ path: source.path, ...fault }))
}

/** Tests for a runtime by its version or its own globals. */
function findRuntimeTests(path: string, tokens: readonly Token[]): Omit<Fault, 'path'>[] {
  if (path.startsWith(runtimeFolder)) return []
  const what = 'tests for a runtime: take what differs from the port in src/lib/runtime'
  return tokens.flatMap(({ kind, text, line }, i) => {
    if (kind !== 'word') return []
    const isGlobal = runtimeGlobals.has(text) && !isKey(tokens, i)
    const isVersion = text === 'process' && ['versions', 'version', 'release'].includes(tokens[i + 2]?.text ?? '')
    return isGlobal || isVersion ? [{ line, what }] : []
  })
}

function lineCount(text: string): number {
  return text.split('\n').length - (text.endsWith('\n') ? 1 : 0)
}

export function isTest(path: string): boolean {
  return path.endsWith('.test.ts')
}

/** The folder of rules that contains a file; null: none. */
function rulesOf(path: string): string | null {
  return /^src\/layers\/[^/]+\/rules\//.exec(path)?.[0] ?? null
}

/** The folder under src, or root for a file directly in src. */
function zoneOf(path: string): string {
  const [, folder, ...rest] = path.split('/')
  return rest.length === 0 ? 'root' : folder!
}

/** A file in a folder and a file of that name beside it both belong to it: layers/job/run.ts to `job`. */
function folderOf(path: string): string {
  return path.split('/')[2]!.replace(/\.ts$/, '')
}

function checkShape(source: Source): Omit<Fault, 'path'>[] {
  const faults: Omit<Fault, 'path'>[] = []
  if (!/^(#![^\n]*\n)?\s*(\/\/|\/\*)/.test(source.text)) {
    faults.push({ line: 1, what: 'does not open with a comment that says what it is' })
  }
  const lines = lineCount(source.text)
  if (lines > linesMax) {
    faults.push({ line: linesMax + 1, what: `has ${lines} lines, more than ${linesMax}: find the second noun` })
  }
  return faults
}

function refuseImport(path: string, zoneName: string, zone: Zone, found: Import): string | undefined {
  const { from, kind } = found
  if (from === null) {
    return zoneName === 'cli' || Object.hasOwn(computedImports, path)
      ? undefined
      : 'imports a computed name: write it out'
  }
  if (from.startsWith('.')) {
    return refuseFile(path, zoneName, zone, posix.join(posix.dirname(path), from), kind)
  }
  if (from === '#runtime' && path === `${runtimeFolder}index.ts`) return undefined
  if (from.startsWith('node:') && !zone.mayUseNode) return `${zoneName} imports ${from}: it may not use node:`
  const own = zoneName === 'adapters' ? packagesOfAdapter[folderOf(path)] : undefined
  if (
    !from.startsWith('node:') &&
    zone.packages !== 'any' &&
    ![...zone.packages, ...(own ?? [])].includes(packageOf(from))
  ) {
    return `${zoneName} imports the package ${from}`
  }
  if (kind === 'static' && loadedOnDemand.includes(packageOf(from))) {
    return `imports ${from} statically: it is loaded only when it is needed, with import()`
  }
  return undefined
}

function refuseFile(
  path: string,
  zoneName: string,
  zone: Zone,
  target: string,
  kind: Import['kind'],
): string | undefined {
  if (!target.startsWith('src/')) return `imports ${target}, which lies outside src`
  if (isTest(target)) return `imports the test ${target}`
  const targetZone = zoneOf(target)
  if (path === storeOpener && targetZone === 'stores') {
    return kind === 'dynamic' ? undefined : `imports ${target} statically: stores are opened with import()`
  }
  if (zoneName === 'adapters' && targetZone === 'layers') {
    const contracts = connectsLayers[folderOf(path)] ?? []
    const isContract = contracts.some(({ layer, files }) =>
      files.some((file) => isAt(target, `src/layers/${layer}/${file}`)),
    )
    if (isContract) return undefined
  }
  if (sharesFiles[path]?.includes(target)) return undefined
  if (joinsLayers[path]?.some((layer) => target === `src/layers/${layer}/index.ts`)) return undefined
  if (!zone.zones.includes(targetZone)) {
    return targetZone === 'cli' ? 'imports the cli: nothing may' : `${zoneName} imports ${targetZone} (${target})`
  }
  if (zoneName === 'engine' && targetZone === 'engine') {
    const [floor, targetFloor] = [folderOf(path), folderOf(target)]
    const [at, to] = [engineFloors.indexOf(floor), engineFloors.indexOf(targetFloor)]
    if (at < 0) return `no floor of the engine is called ${floor}: see engineFloors`
    return to < 0 || to > at ? `engine/${floor} imports engine/${targetFloor}, a floor above it` : undefined
  }
  const rules = rulesOf(path)
  if (rules && targetZone === 'layers') {
    return target.startsWith(rules) ? undefined : `rules import ${target}: they import core and each other`
  }
  const isApart = zoneName === 'layers' || zoneName === 'adapters'
  if (isApart && targetZone === zoneName && folderOf(path) !== folderOf(target)) {
    return `${zoneName}/${folderOf(path)} imports ${zoneName}/${folderOf(target)}`
  }
  return undefined
}

/** `place`: a file, or a folder with a slash at its end. */
function isAt(path: string, place: string): boolean {
  return place.endsWith('/') ? path.startsWith(place) : path === place
}

function packageOf(name: string): string {
  return name
    .split('/')
    .slice(0, name.startsWith('@') ? 2 : 1)
    .join('/')
}

/** Every import, export from, import() and require() of a source, types included. */
export function findImports(tokens: readonly Token[]): Import[] {
  const found: Import[] = []
  tokens.forEach((token, i) => {
    if (token.kind !== 'word' || isMember(tokens, i) || isKey(tokens, i)) return
    const next = tokens[i + 1]
    if (token.text === 'require' && next?.text === '(') found.push(callImport(tokens, i, 'static'))
    // A method of that name: `import(path: string)`.
    if (token.text === 'import' && next?.text === '(' && tokens[i + 3]?.text === ':') return
    if (token.text === 'import' && next?.text === '(') found.push(callImport(tokens, i, 'dynamic'))
    else if (token.text === 'import' && next?.text !== '.') found.push(statementImport(tokens, i))
    else if (token.text === 'export' && isReexport(tokens, i)) found.push(statementImport(tokens, i))
  })
  return found
}

function callImport(tokens: readonly Token[], i: number, kind: Import['kind']): Import {
  const name = tokens[i + 2]
  const isPlain = name?.kind === 'string' && [')', ','].includes(tokens[i + 3]?.text ?? '')
  return { from: isPlain ? name.text : null, kind, line: tokens[i]!.line }
}

function statementImport(tokens: readonly Token[], i: number): Import {
  const name = tokens.slice(i + 1).find((token) => token.kind === 'string')
  const isType = tokens[i + 1]?.text === 'type' && !['from', ','].includes(tokens[i + 2]?.text ?? '')
  return { from: name?.text ?? null, kind: isType ? 'type' : 'static', line: tokens[i]!.line }
}

function isReexport(tokens: readonly Token[], i: number): boolean {
  let at = i + 1
  if (tokens[at]?.text === 'type') at += 1
  if (tokens[at]?.text === '*') return true
  if (tokens[at]?.text !== '{') return false
  while (at < tokens.length && tokens[at]?.text !== '}') at += 1
  return tokens[at + 1]?.text === 'from' && tokens[at + 2]?.kind === 'string'
}

// Names that give the core access to the clock, chance, time or the process. globalThis and Reflect.get would bypass this list,
// so globalThis is on it; the rest is left to review.
const impureWords = new Set([
  ...['async', 'await', 'performance', 'setTimeout', 'setInterval', 'setImmediate', 'queueMicrotask'],
  ...['crypto', 'process', 'globalThis', 'global', 'fetch'],
])

function checkPurity(tokens: readonly Token[]): Omit<Fault, 'path'>[] {
  const faults: Omit<Fault, 'path'>[] = []
  tokens.forEach((token, i) => {
    if (token.kind !== 'word' || isMember(tokens, i) || isKey(tokens, i)) return
    const what = impureWords.has(token.text) ? `uses ${token.text}` : refuseDateOrMath(tokens, i)
    if (what !== undefined) faults.push({ line: token.line, what: `core ${what}: it is given values instead` })
  })
  return faults
}

function refuseDateOrMath(tokens: readonly Token[], i: number): string | undefined {
  const [word, next, afterNext] = [tokens[i]!.text, tokens[i + 1]?.text, tokens[i + 2]?.text]
  const isDot = next === '.' || next === '?.'
  if (word === 'Math') return isDot && afterNext !== 'random' ? undefined : 'uses Math.random (or hides Math)'
  if (word !== 'Date') return undefined
  if (next === '[' && afterNext !== ']') return 'hides a use of Date'
  if (isDot && afterNext === 'now') return 'uses Date.now'
  if (tokens[i - 1]?.text === 'new') {
    return next === '(' && afterNext !== ')' ? undefined : 'uses new Date() without an argument'
  }
  return next === '(' ? 'calls Date()' : undefined
}

/** `.name`, but not `...name`. */
function isMember(tokens: readonly Token[], i: number): boolean {
  const [before, beforeThat] = [tokens[i - 1]?.text, tokens[i - 2]?.text]
  return before === '?.' || (before === '.' && beforeThat !== '.')
}

/** A property or parameter of that name: `name:` or `name?:`, but not the middle of `a ? name : b`. */
function isKey(tokens: readonly Token[], i: number): boolean {
  if (tokens[i - 1]?.text === '?') return false
  const next = tokens[i + 1]?.text
  return next === ':' || (next === '?' && tokens[i + 2]?.text === ':')
}
