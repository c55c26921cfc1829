// A bucket as a cache level: one object per entry, below its scope.
//   <prefix>/memo/<scope>/<digest of the key>
// Only the bucket's own rules separate scopes: they decide which credentials may write below <prefix>/memo/main. A
// scope reads its own entries, then those of main. A put replaces an existing entry, unless none was found before: then
// the first entry stays.

import { createHash } from 'node:crypto'
import { isReprise, RepriseError } from '../../../core/errors.ts'
import type { ObjectEntries } from '../../storage/open-store.ts'
import { type CacheLevel, type LevelAccess, type LevelEntry, LevelError } from './level.ts'

export interface ObjectLevelOptions {
  readonly url: string
  readonly scope: string
  /** The scope that every other scope reads as well. */
  readonly mainScope: string
  /** The first folder below the prefix. */
  readonly space: string
  open(url: string): Promise<ObjectEntries>
}

/** How many keys are remembered as missing; the entries of other keys are replaced. */
const absentMax = 10_000

export class ObjectLevel implements CacheLevel {
  readonly name: string
  /** The parts of a large entry (stores/s3/entries.ts). */
  readonly pieceBytes = 8 * 1024 * 1024
  readonly #options: ObjectLevelOptions
  readonly #absent = new Set<string>()
  #entries: Promise<ObjectEntries> | null = null

  constructor(options: ObjectLevelOptions) {
    this.name = nameOfObjects(options.url)
    this.#options = options
  }

  async access(): Promise<LevelAccess> {
    await this.#opened()
    // Write permission is discovered by writing: after the first refused upload, no other is attempted.
    return { scope: this.#options.scope, mayWrite: true }
  }

  async get(key: string, signal: AbortSignal): Promise<LevelEntry | null> {
    const { scope, mainScope } = this.#options
    const entries = await this.#opened()
    for (const each of new Set([scope, mainScope])) {
      const at = this.#keyOf(each, key)
      const body = await entries.get(at, signal).catch((error) => {
        throw levelErrorOf(error, 'read')
      })
      if (body) {
        this.#absent.delete(at)
        return { scope: each, body: translated(body) }
      }
      if (each === scope) this.#noteAbsent(at)
    }
    return null
  }

  async put(key: string, body: AsyncIterable<Uint8Array>, signal: AbortSignal): Promise<void> {
    const at = this.#keyOf(this.#options.scope, key)
    const entries = await this.#opened()
    const onlyNew = this.#absent.delete(at)
    await entries.put(at, body, onlyNew, signal).catch((error) => {
      throw levelErrorOf(error, 'write')
    })
  }

  async #opened(): Promise<ObjectEntries> {
    this.#entries ??= this.#options.open(this.#options.url)
    try {
      return await this.#entries
    } catch (error) {
      this.#entries = null
      throw levelErrorOf(error, 'open')
    }
  }

  /** The digest of the key: a key may be long, and contain characters that an address cannot. */
  #keyOf(scope: string, key: string): string {
    return `${this.#options.space}/${scope}/${createHash('sha256').update(key).digest('hex')}`
  }

  #noteAbsent(at: string): void {
    this.#absent.delete(at)
    if (this.#absent.size >= absentMax) this.#absent.delete(this.#absent.values().next().value!)
    this.#absent.add(at)
  }
}

/** For display: without its query. INVALID_ARGUMENT if it is not an address in an object store. */
export function nameOfObjects(url: string): string {
  const name = /^[sS]3:\/\/[a-z0-9][a-z0-9.-]+(?:\/[^?]*)?(?=\?|$)/.exec(url)?.[0]
  if (name !== undefined) return name.replace(/\/+$/, '')
  const what = 'a bucket as a remote cache must be s3://bucket/prefix, without keys: they are read from the environment'
  throw new RepriseError('INVALID_ARGUMENT', what, {})
}

/** Errors that a retry does not fix are refusals. */
const refusals = new Set(['STORE_DENIED', 'NOT_FOUND', 'DRIVER_MISSING', 'INVALID_ARGUMENT'])

function levelErrorOf(error: unknown, what: 'open' | 'read' | 'write'): unknown {
  if (!isReprise(error)) return error
  const { code, message, data } = error
  if (code === 'LIMIT_EXCEEDED' || data.status === 413 || data.answer === 'EntityTooLarge') {
    return new LevelError('unfit', message, error)
  }
  // Without permission to list a bucket, a missing object is reported as forbidden.
  const isHidden = what === 'read' && data.status === 403 && data.answer === 'AccessDenied'
  const more = isHidden ? ' (without s3:ListBucket, a missing object is refused as well)' : ''
  return new LevelError(refusals.has(code) ? 'refused' : 'fault', message + more, error, code)
}

async function* translated(body: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  try {
    yield* body
  } catch (error) {
    const { cause } = error as { readonly cause?: { readonly code?: string; readonly message?: string } }
    throw new LevelError('fault', `the answer ended early: ${cause?.message ?? (error as Error).message}`, error)
  }
}
