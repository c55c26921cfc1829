// The cache levels after the local store, in order. An entry found in one level is stored locally and in the levels before
// it; a computed entry is sent to all levels in the background. Scopes apply throughout: `main` reads only entries of `main`,
// and entries of a scope are sent only with credentials of that scope.

import type { TimelineId } from '../../core/coordinate.ts'
import { type Duration, toMs } from '../../core/duration.ts'
import { RepriseError } from '../../core/errors.ts'
import { checkOptions, namesOf } from '../../core/options.ts'
import type { Host } from '../../engine/host/host.ts'
import { isObjectStore, openObjectEntries } from '../../engine/storage/open-store.ts'
import { GuardedLevel } from '../../engine/tools/cache/guarded-level.ts'
import { baseOf, HttpLevel } from '../../engine/tools/cache/http-level.ts'
import type { CacheLevel } from '../../engine/tools/cache/level.ts'
import { nameOfObjects, ObjectLevel } from '../../engine/tools/cache/object-level.ts'
import { readStream } from '../../engine/writing/stored-value.ts'
import { type Envelope, mainScope, type Origin, readEntry } from './entry.ts'
import type { Key } from './key.ts'
import { type Frame, readFrame, writeFrame } from './transfer-format.ts'

/** A server of Reprise, or a bucket, as the next level of the cache. */
export interface RemoteCache {
  /** Address of the server, https://cache.example.com, or of the bucket: s3://bucket/prefix. */
  readonly url: string
  /**
   * Token of a server: its scopes determine where entries are read and stored. The keys of a bucket are in the
   * environment.
   */
  readonly token?: string
  /** Time limit per request; a level that exceeds it is skipped for a while. Default: 10 seconds. */
  readonly timeout?: Duration
}

/** A plain address is a `RemoteCache` without options. */
export type RemoteLevel = string | RemoteCache | CacheLevel

const known = namesOf<RemoteCache>()('url token timeout')
const usualTimeout = '10s'
/** The space below /cache that holds the entries. */
const space = 'memo'

export function checkRemote(what: string, remote: RemoteLevel | readonly RemoteLevel[]): void {
  for (const each of listed(remote).map(spelledOut)) {
    if (isLevel(each)) continue
    if (typeof each !== 'object' || each === null || typeof each.url !== 'string') {
      throw new RepriseError(
        'INVALID_ARGUMENT',
        `${what}: remote must be an address, { url, token }, a level, or a list of them`,
        {},
      )
    }
    checkOptions(`${what}: remote`, each, known)
    if (isObjectStore(each.url)) {
      nameOfObjects(each.url)
      if (each.token !== undefined) {
        const why = 'a bucket has no token: its keys are AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment'
        throw new RepriseError('INVALID_ARGUMENT', `${what}: ${why}`, {})
      }
    } else baseOf(each.url)
    if (each.timeout !== undefined) toMs(each.timeout, `${what}: remote.timeout`)
    if (each.token !== undefined && (typeof each.token !== 'string' || !/^[\x21-\x7e]+$/.test(each.token))) {
      throw new RepriseError(
        'INVALID_ARGUMENT',
        `${what}: remote.token must be printable characters without spaces`,
        {},
      )
    }
  }
}

/** A frame from a level; its stream may still turn out to be damaged. */
export interface FromLevel extends Frame {
  readonly origin: Origin
  /** Reports whether the whole frame was intact; if so, the levels before it receive it as well. */
  settle(error: unknown): void
}

export class Levels {
  readonly #host: Host
  readonly #name: string
  readonly #scope: string
  readonly #levels: readonly GuardedLevel[]

  constructor(host: Host, name: string, scope: string, remote: RemoteLevel | readonly RemoteLevel[] | undefined) {
    this.#host = host
    this.#name = name
    this.#scope = scope
    this.#levels = remote === undefined ? [] : listed(remote).map((each) => levelOf(host, spelledOut(each), scope))
  }

  get isEmpty(): boolean {
    return this.#levels.length === 0
  }

  /** Frames of the levels that have the entry, nearest first; the caller settles each before the next. */
  async *find(key: Key, accepts: (frame: Frame) => boolean): AsyncGenerator<FromLevel> {
    for (const level of this.#levels) {
      const fetched = await level.fetch(keyAt(this.#name, key.hex))
      if (!fetched) continue
      if (this.#scope === mainScope && fetched.scope !== mainScope) {
        fetched.settle(null)
        const why = `it returns results of ${fetched.scope}, which ${mainScope} does not read: set scope: '${fetched.scope}'`
        level.report('scope', 'FORBIDDEN', why)
        continue
      }
      let frame: Frame
      try {
        frame = await readFrame(this.#host.kernel, fetched.body, this.#name, key)
      } catch (error) {
        fetched.settle(error)
        continue
      }
      if (!accepts(frame)) {
        fetched.settle(null)
        continue
      }
      const origin = { cache: level.name, scope: fetched.scope, at: this.#host.clock.now() }
      const settle = (error: unknown) => fetched.settle(error)
      yield { ...frame, origin, settle }
    }
  }

  /** Sends the entry to every level, or to the levels before the one it came from. */
  send(key: Key, timeline: TimelineId, from?: string): void {
    for (const level of this.#levels) {
      if (level.name === from) return
      const mayPut = ({ scope }: { readonly scope: string }) => {
        if (scope !== this.#scope) {
          level.report(
            'other-scope',
            'FORBIDDEN',
            `results of ${this.#scope} are not sent: its token writes to ${scope}`,
          )
        }
        return scope === this.#scope
      }
      level.upload({ key: keyAt(this.#name, key.hex), body: () => this.#open(key, timeline), mayPut })
    }
  }

  async settled(): Promise<void> {
    await Promise.all(this.#levels.map((level) => level.settled()))
  }

  /** Null: the entry was removed meanwhile. */
  async #open(key: Key, timeline: TimelineId): Promise<AsyncIterable<Uint8Array> | null> {
    const { kernel } = this.#host
    const entry = await readEntry(kernel, timeline, { unverified: true })
    if (!entry) return null
    const { origin: _, ...envelope }: Envelope = entry.envelope
    const { stream } = entry
    const about = { name: this.#name, key: key.hex, envelope, streamBytes: stream?.size ?? null }
    return writeFrame(kernel, about, stream && readStream(kernel, stream))
  }
}

/** The name comes last: with a memo named `cas`, `cas/<key>` would declare the key as the digest of the content. */
function keyAt(name: string, hex: string): string {
  return `${hex}/${name}`
}

function listed(remote: RemoteLevel | readonly RemoteLevel[]): readonly RemoteLevel[] {
  return Array.isArray(remote) ? remote : [remote as RemoteLevel]
}

function spelledOut(remote: RemoteLevel): RemoteCache | CacheLevel {
  return typeof remote === 'string' ? { url: remote } : remote
}

function isLevel(remote: RemoteCache | CacheLevel): remote is CacheLevel {
  const { get, put, access } = (remote ?? {}) as Partial<CacheLevel>
  return [get, put, access].every((method) => typeof method === 'function')
}

const shared = {}

/**
 * One level per engine for each address and its credentials, so that all handles share its health. A bucket has one per
 * scope.
 */
function levelOf(host: Host, remote: RemoteCache | CacheLevel, scope: string): GuardedLevel {
  const levels = host.once(shared, () => new Map<unknown, GuardedLevel>())
  const { kernel } = host
  const timeoutMs = toMs(remote.timeout ?? usualTimeout, 'remote.timeout')
  const id = isLevel(remote) ? remote : JSON.stringify(identityOf(remote, scope, timeoutMs))
  let level = levels.get(id)
  if (!level) {
    const inner = isLevel(remote) ? remote : newLevel(remote, scope, timeoutMs)
    const problem = (error: RepriseError) => kernel.events.emit('problem', { where: `cache ${inner.name}`, error })
    level = new GuardedLevel(inner, timeoutMs, { clock: kernel.clock, problem })
    levels.set(id, level)
  }
  return level
}

function identityOf({ url, token }: RemoteCache, scope: string, timeoutMs: number): unknown[] {
  return isObjectStore(url) ? [url, scope, timeoutMs] : [baseOf(url), token, timeoutMs]
}

function newLevel({ url, token }: RemoteCache, scope: string, timeoutMs: number): CacheLevel {
  if (!isObjectStore(url)) return new HttpLevel({ url, token, space })
  // The time limit above it ends first, and reports the cause.
  const open = (address: string) => openObjectEntries(address, Math.min(timeoutMs * 2, 1e9))
  return new ObjectLevel({ url, scope, mainScope, space, open })
}
