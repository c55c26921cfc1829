// A bucket as a level of a cache: one object per entry, below the scope it belongs to.
//
//   <prefix>/memo/<scope>/<digest of the key>
//
// There is nobody there to hold scopes apart but the bucket's own rules: who may write below <prefix>/memo/main is theirs to say.
// A scope reads its own entries, then those of main. An entry replaces the one that is there, unless there was none when it was
// looked for: then whoever came first stays.

import { createHash } from 'node:crypto'
import { isReprise, RepriseError } from '../../../core/errors.ts'
import type { ObjectEntries } from '../../storage/open-store.ts'
import { type CacheLevel, type LevelAccess, type LevelEntry, LevelError } from './level.ts'

export interface ObjectLevelOptions {
  readonly url: string
  readonly scope: string
  /** The scope that every other one reads as well. */
  readonly mainScope: string
  /** The first folder below the prefix. */
  readonly space: string
  open(url: string): Promise<ObjectEntries>
}

/** So many keys are known not to have been there; of others, an entry is replaced. */
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
    // Whether it may write is seen when it does: the first upload that is refused is the last.
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

  /** Of a digest: a key may be long, and hold what an address cannot. */
  #keyOf(scope: string, key: string): string {
    return `${this.#options.space}/${scope}/${createHash('sha256').update(key).digest('hex')}`
  }

  #noteAbsent(at: string): void {
    this.#absent.delete(at)
    if (this.#absent.size >= absentMax) this.#absent.delete(this.#absent.values().next().value!)
    this.#absent.add(at)
  }
}

/** As it may be shown: without its query. INVALID_ARGUMENT for what is no address in an object store. */
export function nameOfObjects(url: string): string {
  const name = /^[sS]3:\/\/[a-z0-9][a-z0-9.-]+(?:\/[^?]*)?(?=\?|$)/.exec(url)?.[0]
  if (name !== undefined) return name.replace(/\/+$/, '')
  const what =
    'a bucket as a remote cache must be given as s3://bucket/prefix, without keys: they are in the environment'
  throw new RepriseError('INVALID_ARGUMENT', what, {})
}

/** What asking again does not change is refused. */
const refusals = new Set(['STORE_DENIED', 'NOT_FOUND', 'DRIVER_MISSING', 'INVALID_ARGUMENT'])

function levelErrorOf(error: unknown, what: 'open' | 'read' | 'write'): unknown {
  if (!isReprise(error)) return error
  const { code, message, data } = error
  if (code === 'LIMIT_EXCEEDED' || data.status === 413 || data.answer === 'EntityTooLarge') {
    return new LevelError('unfit', message, error)
  }
  // Who may not list a bucket is not told that an object is missing.
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
