// Conditions for storing outputs: each pattern matched a file, this run wrote every file, and no output is an input. Any other
// file would be mistaken for an output, and a later restore would overwrite changes made to it since.

import { join } from 'node:path'
import { isMatchedBy, parsePatterns } from '../../engine/base/file-tree/patterns.ts'
import { signatureOf } from './files.ts'
import { anchoredAll } from './patterns.ts'
import { type FileLimits, matching } from './walk.ts'

/** The existing outputs, with their metadata. */
export type OutputsBefore = ReadonlyMap<string, string>

export async function outputsNow(
  directory: string,
  given: readonly string[],
  limits: FileLimits,
): Promise<OutputsBefore> {
  const found = new Map<string, string>()
  const options = { of: 'outputs', passesLinks: true } as const
  for await (const path of matching(directory, anchoredAll(given), limits, options)) {
    found.set(path, signatureOf(join(directory, ...path.split('/'))) ?? 'a link')
  }
  return found
}

/** True if a command that declares these outputs can have written the file, that is, if a walk would find it. */
export function isOutput(given: readonly string[], path: string): boolean {
  const rules = parsePatterns(anchoredAll(given).join('\n'))
  const names = path.split('/')
  if (names.some((name) => name === '.git' || name === '.reprise')) return false
  let isIn = false
  for (let depth = 1; depth <= names.length; depth++) {
    isIn = isMatchedBy(rules, names.slice(0, depth).join('/'), depth < names.length) ?? isIn
  }
  return isIn
}

export interface OutputRules {
  /** The outputs when the command started. */
  readonly before: OutputsBefore
  /** Outputs that existed before and were not written again. */
  readonly lacking: readonly string[]
  /** Digests by path. */
  readonly inputs: Readonly<Record<string, string>>
}

/** Null: the outputs may be stored. */
export async function whyNotKept(
  directory: string,
  patterns: readonly string[],
  limits: FileLimits,
  { before, lacking, inputs }: OutputRules,
): Promise<string | null> {
  for (const pattern of patterns) {
    if (pattern.startsWith('!')) continue
    if ((await outputsNow(directory, [pattern], limits)).size === 0) return `no file matches the output ${pattern}`
  }
  const now = await outputsNow(directory, patterns, limits)
  if (lacking.length > 0) {
    const others = lacking.length === 1 ? '' : ` and ${lacking.length - 1} more`
    return `${lacking[0]}${others} existed before and was not rewritten: remove it if no command writes it any longer; an incremental tool needs its own state among the outputs, such as tsconfig.tsbuildinfo`
  }
  for (const [path, signature] of now) {
    if (inputs[path] !== undefined && inputs[path] !== '') return `${path} is an input and an output`
    if (before.get(path) === signature) {
      return `${path} existed before and is not from this run: remove it, or have outputs removed first (clean)`
    }
  }
  return null
}
