// The key of a result: a digest of all its declared inputs. The entry stores each part as a digest of its own, so that a miss
// can name the part that changed. The parts are encoded canonically, with their lengths: two different sets of parts never
// produce the same encoding.

import { isReprise, RepriseError } from '../../core/errors.ts'
import type { Kernel } from '../../engine/storage/kernel.ts'
import type { Look } from './files.ts'

/** The parts of the key. Values are digests; '' represents a missing value. */
export interface KeyParts {
  readonly version: string
  readonly args: string
  /** By path, as declared: digest of content, type and executable bit. */
  readonly files: Readonly<Record<string, string>>
  /** By name. The digests are short on purpose: a value must not be found by brute force. */
  readonly env: Readonly<Record<string, string>>
}

export interface Key {
  readonly hex: string
  /** The digest of the arguments. */
  args(): string
  /** Not needed for a hit. Call it before the next scan of the files. */
  parts(): Promise<KeyParts>
  /** Metadata of the files: not part of the key, but a difference means that a file may have changed and changed back. */
  readonly look: string
}

/** Changes with the encoding of keys: entries stored before are then misses. */
const format = 'memo/1'
const shortLength = 8

type Coding = Pick<Kernel, 'codec' | 'hash'>

export interface KeyInput {
  readonly name: string
  readonly version: string
  readonly args: unknown
  /** Null: no files are declared. */
  readonly files: Pick<Look, 'digest' | 'files'> | null
  readonly look?: string
  readonly env: Readonly<Record<string, string | undefined>>
}

export function keyOf(coding: Coding, input: KeyInput): Key {
  const { codec, hash } = coding
  const { name, version, files } = input
  const args = encodedArgs(coding, name, input.args)
  const env = Object.entries(input.env)
    .map(([key, value]) => [key, value ?? null] as const)
    .sort(byName)
  const digest = hash(codec.encode([format, name, version, args, files ? files.digest : [], env]))
  const argsDigest = () => hexOf(hash(args))
  let parts: Promise<KeyParts> | null = null
  const partsNow = async (): Promise<KeyParts> => ({
    version,
    args: argsDigest(),
    files: files ? await files.files() : {},
    env: Object.fromEntries(env.map(([key, value]) => [key, value === null ? '' : shortDigest(coding, key, value)])),
  })
  return {
    hex: hexOf(digest),
    look: input.look ?? '',
    args: argsDigest,
    parts() {
      parts ??= partsNow()
      return parts
    },
  }
}

function hexOf({ buffer, byteOffset, length }: Uint8Array): string {
  return Buffer.from(buffer, byteOffset, length).toString('hex')
}

/** A short digest for the name of a step: equal for equal arguments. */
export function argsPrint(coding: Coding, name: string, args: unknown): string {
  return hexOf(coding.hash(encodedArgs(coding, name, args))).slice(0, shortLength)
}

function shortDigest({ codec, hash }: Coding, name: string, value: string): string {
  return hexOf(hash(codec.encode(['memo/env', name, value]))).slice(0, shortLength)
}

function encodedArgs({ codec }: Coding, name: string, args: unknown): Uint8Array {
  try {
    checkLists(args)
    return codec.encode(args)
  } catch (error) {
    if (!isReprise(error, 'UNSERIALIZABLE', 'LIMIT_EXCEEDED')) throw error
    const what = `memo ${name}: its arguments cannot be part of a key (${error.message}); set key to identify them`
    throw new RepriseError('INVALID_ARGUMENT', what, { name }, error)
  }
}

/** A list with properties of its own would have the same key as the list without them. */
function checkLists(value: unknown, above: Set<unknown> = new Set()): void {
  if (typeof value !== 'object' || value === null || ArrayBuffer.isView(value) || above.has(value)) return
  const isList = Array.isArray(value)
  if (isList && hasProperties(value)) {
    throw new RepriseError('UNSERIALIZABLE', 'a list has properties beside its items', {})
  }
  above.add(value)
  const inner = value instanceof Map || value instanceof Set ? value : Object.values(value)
  for (const each of inner) if (typeof each === 'object') checkLists(each, above)
  above.delete(value)
}

function hasProperties(list: readonly unknown[]): boolean {
  const keys = Object.keys(list)
  // Items come before properties: a list whose last key is its last index has no properties.
  return keys.at(-1) !== String(list.length - 1) && keys.some((key) => !/^\d+$/.test(key))
}

function byName([a]: readonly [string, unknown], [b]: readonly [string, unknown]): number {
  return a < b ? -1 : a > b ? 1 : 0
}

/** Prefix for tools among the variables: no variable has such a name. */
export const toolPart = 'tool:'

export interface KeyChange {
  readonly part: 'version' | 'args' | 'file' | 'env' | 'tool'
  /** Name of the file, the variable or the tool. */
  readonly name: string | null
  /** 'declared' and 'undeclared': the part is missing on both sides, and declared on only one. */
  readonly how: 'changed' | 'added' | 'removed' | 'declared' | 'undeclared'
}

/** The differences between two sets of parts, the most relevant first. */
export function changesBetween(before: KeyParts, now: KeyParts): KeyChange[] {
  const changes: KeyChange[] = []
  if (before.version !== now.version) changes.push({ part: 'version', name: null, how: 'changed' })
  if (before.args !== now.args) changes.push({ part: 'args', name: null, how: 'changed' })
  changes.push(...namedChanges('env', before.env, now.env), ...namedChanges('file', before.files, now.files))
  return changes
}

function namedChanges(
  part: 'file' | 'env',
  before: Readonly<Record<string, string>>,
  now: Readonly<Record<string, string>>,
): KeyChange[] {
  const names = [...new Set([...Object.keys(before), ...Object.keys(now)])].sort()
  return names.flatMap((name): KeyChange[] => {
    const [was, is] = [before[name] ?? '', now[name] ?? '']
    const isTool = part === 'env' && name.startsWith(toolPart)
    const named = isTool ? ({ part: 'tool', name: name.slice(toolPart.length) } as const) : { part, name }
    if (was !== is) return [{ ...named, how: was === '' ? 'added' : is === '' ? 'removed' : 'changed' }]
    const [isNow, wasThen] = [Object.hasOwn(now, name), Object.hasOwn(before, name)]
    return isNow === wasThen ? [] : [{ ...named, how: isNow ? 'declared' : 'undeclared' }]
  })
}

/** True if none of the key's inputs changed in between, not even temporarily. */
export function isSteady(before: Key, now: Key): boolean {
  return before.hex === now.hex && before.look === now.look
}
