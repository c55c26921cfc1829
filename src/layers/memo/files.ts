// Digests of declared files, for keys. A file whose size, times and inode are those of the last look is not read again; one that
// was changed just before that look is, for its times may be too coarse to show a second change. A link counts with what it leads
// to, and one that leads to a directory is refused. Reading is done in slices, so that a large tree does not hold up the process.

import { createHash } from 'node:crypto'
import { type BigIntStats, lstatSync, readdirSync, readFileSync, readlinkSync, statSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { RepriseError } from '../../core/errors.ts'
import type { Limits } from '../../core/limits.ts'
import { shown, tooManyNames } from '../../core/tree-path.ts'
import { isMatchedBy, parsePatterns } from '../../engine/tree/patterns.ts'
import { anchoredAll, unmatchedOf } from './patterns.ts'

/** What a file looked like when it was read, and its digest. */
interface Seen {
  readonly signature: string
  readonly digest: string
}

/** The cache as it is stored: by path, one text each, which is read quickest. An older process stored five in a list. */
export type SeenFiles = Readonly<Record<string, string | readonly string[]>>

export type FileLimits = Pick<Limits, 'treeDepth' | 'treeNames'>

const sliceMs = 8
/** Times of a file are at worst this coarse (two seconds, on FAT). */
const coarseNs = 2_000_000_000n
/** Larger files are read piece by piece. */
const wholeBytes = 1024 * 1024
const linesBytes = 256 * 1024
/** Never looked at, unless a pattern names them by themselves. */
const leftOut = { inputs: parsePatterns('.git/\n.reprise/\nnode_modules/'), outputs: parsePatterns('.git/\n.reprise/') }

/**
 * What files match, and what they and their folders looked like: another look is another one, though the digests may
 * be the same.
 */
export interface Look {
  readonly files: Record<string, string>
  readonly signature: string
}

export class FileDigests {
  readonly root: string
  readonly #limits: FileLimits
  readonly #seen: Map<string, Seen>
  #hasNew = false
  read = 0
  /** Patterns of the last look that no file matched: most likely a slip of the pen. */
  unmatched: readonly string[] = []

  constructor(root: string, limits: FileLimits, seen: SeenFiles = {}) {
    this.root = resolve(root)
    this.#limits = limits
    this.#seen = new Map()
    for (const path in seen) this.#seen.set(path, seenOf(seen[path]!))
  }

  /** Whether there is something that `seen` did not have before. */
  get hasNew(): boolean {
    return this.#hasNew
  }

  get seen(): SeenFiles {
    const stored = ([path, { signature, digest }]: [string, Seen]) => [path, `${signature} ${digest}`] as const
    return Object.fromEntries(Array.from(this.#seen, stored))
  }

  async of(patterns: readonly string[]): Promise<Record<string, string>> {
    return (await this.look(patterns)).files
  }

  /**
   * By path below the root, with '/': what matches. A pattern without wildcards that leads to nothing is there with '', so that
   * a file which appears changes the key.
   */
  async look(given: readonly string[]): Promise<Look> {
    const patterns = anchoredAll(given)
    // A file may be called __proto__.
    const found = new Map<string, string>()
    const signature = new Lines()
    for (const path of plainPaths(patterns)) found.set(path, '')
    const onFolder = (path: string) => signature.add(`${path}/ ${signatureOf(this.#whole(path)) ?? ''}`)
    for (const path of walked(this.root, patterns, this.#limits, { of: 'inputs', onFolder })) {
      if (path === null) {
        await nextTurn()
        continue
      }
      const whole = this.#whole(path)
      const stats = lstatSync(whole, { bigint: true, throwIfNoEntry: false })
      const known = stats?.isFile() ? this.#seen.get(path) : undefined
      // As nearly all are at a second look: one call each, and no promise.
      if (stats && known && known.signature === textOf(stats)) {
        found.set(path, withMode(stats, known.digest))
        signature.add(`${path} ${known.signature}`)
      } else {
        found.set(path, await this.#inputDigest(path))
        signature.add(`${path} ${signatureOf(whole) ?? ''}`)
      }
    }
    const files = Object.fromEntries(found)
    this.unmatched = unmatchedOf(given, files)
    return { files, signature: signature.digest() }
  }

  #whole(path: string): string {
    return `${this.root}/${path}`
  }

  /** A link to a file counts with what that holds. */
  async #inputDigest(path: string): Promise<string> {
    const digest = await this.digestOf(path)
    if (!digest.startsWith('l:')) return digest
    const whole = this.#whole(path)
    const target = statSync(whole, { bigint: true, throwIfNoEntry: false })
    if (target?.isDirectory()) throw linkedFolder(path)
    return target?.isFile() ? `${digest} ${await this.#readDigest(whole, target)}` : digest
  }

  /** Of one file or link; '' if it is not there. */
  async digestOf(path: string): Promise<string> {
    const whole = this.#whole(path)
    const stats = lstatSync(whole, { bigint: true, throwIfNoEntry: false })
    if (!stats) return ''
    if (stats.isSymbolicLink()) return `l:${createHash('sha256').update(readlinkSync(whole)).digest('hex')}`
    if (!stats.isFile()) return 'other'
    const signature = textOf(stats)
    const known = this.#seen.get(path)
    if (known?.signature === signature) return withMode(stats, known.digest)
    const digest = await this.#readDigest(whole, stats)
    const isCoarse = BigInt(Date.now()) * 1_000_000n - stats.ctimeNs < coarseNs
    if (isCoarse) this.#seen.delete(path)
    else this.#seen.set(path, { signature, digest })
    this.#hasNew = true
    return withMode(stats, digest)
  }

  async #readDigest(path: string, stats: BigIntStats): Promise<string> {
    this.read += 1
    const hash = createHash('sha256')
    if (stats.size <= wholeBytes) return hash.update(readFileSync(path)).digest('hex')
    const file = await open(path)
    try {
      for await (const piece of file.readableWebStream()) hash.update(new Uint8Array(piece as ArrayBuffer))
    } finally {
      await file.close().catch(() => undefined)
    }
    return hash.digest('hex')
  }
}

/** Size, times and inode of a file or folder, links followed; null if it is not there. */
export function signatureOf(path: string): string | null {
  const stats = statSync(path, { bigint: true, throwIfNoEntry: false })
  return stats ? textOf(stats) : null
}

function textOf({ size, mtimeNs, ctimeNs, ino }: BigIntStats): string {
  return `${size} ${mtimeNs} ${ctimeNs} ${ino}`
}

function withMode({ mode }: BigIntStats, digest: string): string {
  return `${(mode & 0o100n) === 0n ? 'f' : 'x'}:${digest}`
}

function seenOf(stored: string | readonly string[]): Seen {
  const text = typeof stored === 'string' ? stored : stored.join(' ')
  const cut = text.lastIndexOf(' ')
  return { signature: text.slice(0, cut), digest: text.slice(cut + 1) }
}

/** A digest of many lines, hashed some thousand at a time. */
class Lines {
  readonly #hash = createHash('sha256')
  #waiting = ''

  add(line: string): void {
    this.#waiting += `${line}\n`
    if (this.#waiting.length > linesBytes) this.#pass()
  }

  digest(): string {
    this.#pass()
    return this.#hash.digest('hex')
  }

  #pass(): void {
    this.#hash.update(this.#waiting)
    this.#waiting = ''
  }
}

function nextTurn(): Promise<void> {
  return new Promise((done) => setImmediate(done))
}

export interface MatchingOptions {
  readonly of: 'inputs' | 'outputs'
  /** Told of folders that match as a whole. */
  readonly onFolder?: (path: string) => void
  /** Links to directories are passed over: whoever puts files there replaces them. */
  readonly passesLinks?: boolean
}

/** By path, in order: whatever matches the anchored patterns and is no folder. */
export async function* matching(
  root: string,
  patterns: readonly string[],
  limits: FileLimits,
  options: MatchingOptions,
): AsyncGenerator<string> {
  for (const path of walked(root, patterns, limits, options)) {
    if (path === null) await nextTurn()
    else yield path
  }
}

/** The same, with null where others should have their turn. */
function* walked(
  root: string,
  patterns: readonly string[],
  limits: FileLimits,
  { of, onFolder, passesLinks = false }: MatchingOptions,
): Generator<string | null> {
  const rules = parsePatterns(patterns.join('\n'))
  const skips = patterns.some((each) => /(^|\/)(\.git|\.reprise|node_modules)(\/|$)/.test(each)) ? [] : leftOut[of]
  const takesBack = patterns.some((each) => each.startsWith('!'))
  let names = 0
  let sliceEnd = performance.now() + sliceMs
  const walk = function* (folder: string, depth: number, isIn: boolean): Generator<string | null> {
    if (depth > limits.treeDepth) {
      const what = `${shown(folder)} lies more than ${limits.treeDepth} directories deep (treeDepth)`
      throw new RepriseError('LIMIT_EXCEEDED', what, { path: folder })
    }
    for (const entry of listed(join(root, folder))) {
      names += 1
      if (names > limits.treeNames) throw tooManyNames(limits)
      if (performance.now() >= sliceEnd) {
        yield null
        sliceEnd = performance.now() + sliceMs
      }
      const path = folder === '' ? entry.name : `${folder}/${entry.name}`
      const isFolder = entry.isDirectory()
      if (isFolder && isMatchedBy(skips, path, isFolder)) continue
      // Below a folder that matches all does, unless a pattern takes something back.
      const isWanted = (isIn && !takesBack) || (isMatchedBy(rules, path, isFolder) ?? isIn)
      if (isWanted && entry.name.includes('\u{FFFD}')) {
        throw new RepriseError('INVALID_ARGUMENT', `a name below ${shown(folder || '.')} is no text: rename it`, {
          folder,
        })
      }
      if (isFolder) {
        if (isWanted || patterns.includes(`/${path}/**`)) onFolder?.(path)
        if (isWanted || mayHold(patterns, path)) yield* walk(path, depth + 1, isWanted)
      } else if (isWanted) yield path
      else if (
        !passesLinks &&
        entry.isSymbolicLink() &&
        isOnTheWay(patterns, path) &&
        leadsToFolder(join(root, path))
      ) {
        throw linkedFolder(path)
      }
    }
  }
  yield* walk('', 0, false)
}

function linkedFolder(path: string): RepriseError {
  const what = `${shown(path)} is a link to a directory, and what lies behind it would not be seen: name the directory itself`
  return new RepriseError('INVALID_ARGUMENT', what, { path })
}

function leadsToFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false
}

function listed(folder: string) {
  try {
    return readdirSync(folder, { withFileTypes: true }).sort((a, b) => (a.name < b.name ? -1 : 1))
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT' || code === 'ENOTDIR') return []
    throw new RepriseError('TREE_BLOCKED', `${shown(folder)} cannot be listed: ${(error as Error).message}`, {}, error)
  }
}

/** A folder that does not match may hold what does: unless every pattern begins elsewhere. */
function mayHold(patterns: readonly string[], folder: string): boolean {
  return patterns.some((pattern) => {
    if (pattern.startsWith('!')) return false
    const wildcard = pattern.search(/[*?[\\]/)
    const fixed = wildcard < 0 ? pattern : pattern.slice(0, wildcard)
    const start = fixed.slice(1, fixed.lastIndexOf('/') + 1)
    return `${folder}/`.startsWith(start) || start.startsWith(`${folder}/`)
  })
}

/** The part of a pattern before its first wildcard leads through this. */
function isOnTheWay(patterns: readonly string[], path: string): boolean {
  return patterns.some((pattern) => !pattern.startsWith('!') && `${fixedPart(pattern)}/`.startsWith(`${path}/`))
}

/** @example fixedPart('/src/x/*.ts') // 'src/x' */
function fixedPart(pattern: string): string {
  const wildcard = pattern.search(/[*?[\\]/)
  return wildcard < 0 ? pattern.slice(1) : pattern.slice(1, pattern.lastIndexOf('/', wildcard))
}

/** Those without wildcards. */
function plainPaths(patterns: readonly string[]): string[] {
  const plain = patterns.filter((pattern) => !pattern.startsWith('!') && !/[*?[\\]/.test(pattern))
  return plain.map((pattern) => pattern.slice(1).replace(/\/$/, ''))
}
