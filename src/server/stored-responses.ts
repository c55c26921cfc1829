// Stored responses of requests with an Idempotency-Key, each in a small timeline of its own under `reprise/requests/`: a
// repeated request receives the same response, also after a crash or from another server on the same store. The engine's
// dedupe keys prevent a second execution; this class only stores the response.

import { createHash } from 'node:crypto'
import { assert } from '../core/assert.ts'
import { type TimelineId, timelineId } from '../core/coordinate.ts'
import { isReprise, RepriseError } from '../core/errors.ts'
import { guardOf } from '../core/store/commit-guard.ts'
import type { Reprise } from '../engine/api/reprise.ts'
import { hostOf } from '../engine/host/host.ts'
import type { Fold } from '../engine/model/definition.ts'
import { newOperation } from '../engine/storage/kernel.ts'
import { entriesAfter } from '../operations/history.ts'
import { plain } from '../operations/json.ts'

const scope = 'reprise/requests/'
const sweepEveryMs = 3_600_000
const sweptMax = 500

interface Kept {
  /** Digest of the request. */
  readonly print: string
  readonly json: string
}

/** Read entry by entry; the fold has no state. */
const fold: Fold<null> = { version: 'requests/1', initial: () => null, apply: () => null }

export interface KeyedRequest {
  readonly principal: string
  readonly key: string
  /** Method, path and body: a different request with the same key is refused. */
  readonly what: string
}

export class Answers {
  readonly #engine: Reprise
  readonly #keepMs: number
  readonly #pending = new Map<string, { readonly print: string; readonly answer: Promise<string> }>()
  readonly #used = new Set<string>()
  #sweptAt: number | null = null

  constructor(engine: Reprise, keepMs: number) {
    this.#engine = engine
    this.#keepMs = keepMs
  }

  /** Returns the result of `act` as JSON, or the stored one of the first call. */
  async once(
    { principal, key, what }: KeyedRequest,
    act: () => Promise<unknown>,
  ): Promise<{ readonly json: string; readonly isAgain: boolean }> {
    const id = timelineId(`${scope}${digest(`${principal}\n${key}`)}`)
    const print = digest(what)
    const pending = this.#pending.get(id)
    if (pending) return { json: await checked(pending, print).answer, isAgain: true }
    const kept = await this.#read(id)
    if (kept) return { json: checked(kept, print).json, isAgain: true }
    const raced = this.#pending.get(id)
    if (raced) return { json: await checked(raced, print).answer, isAgain: true }
    assert(!this.#pending.has(id), 'requests with one key are executed one at a time')
    const answer = this.#act(id, print, act)
    this.#pending.set(id, { print, answer })
    try {
      return { json: await answer, isAgain: false }
    } finally {
      this.#pending.delete(id)
    }
  }

  /** Stores a value under a key until it is swept. The first stored value is kept and returned. */
  async keep(key: string, value: unknown): Promise<unknown> {
    const json = JSON.stringify(value ?? null, plain)
    const id = timelineId(`${scope}${digest(key)}`)
    const entry = { type: 'answered', data: { print: '', json } satisfies Kept }
    const made = await hostOf(this.#engine).create(id, fold, [entry], { release: true, status: 'completed' })
    void this.sweep().catch(() => undefined)
    return made === null ? await this.kept(key) : JSON.parse(json)
  }

  /** True for the first call with this key, of any server on the store. A store that cannot be written counts its own only. */
  async isFirst(key: string): Promise<boolean> {
    const mark = newOperation(hostOf(this.#engine).random)
    try {
      return (await this.keep(key, mark)) === mark
    } catch (error) {
      if (!isReprise(error, 'STORE_READ_ONLY')) throw error
      const isNew = !this.#used.has(key)
      this.#used.add(key)
      return isNew
    }
  }

  /** Undefined: no value is stored under this key. */
  async kept(key: string): Promise<unknown> {
    const kept = await this.#read(timelineId(`${scope}${digest(key)}`))
    return kept ? JSON.parse(kept.json) : undefined
  }

  async #act(id: TimelineId, print: string, act: () => Promise<unknown>): Promise<string> {
    const json = JSON.stringify((await act()) ?? null, plain)
    const entry = { type: 'answered', data: { print, json } satisfies Kept }
    // Null: another server stored its response first; it is the same one, because the engine deduplicates by the key.
    await hostOf(this.#engine).create(id, fold, [entry], { release: true, status: 'completed' })
    void this.sweep().catch(() => undefined)
    return json
  }

  async #read(id: TimelineId): Promise<Kept | null> {
    const head = await this.#engine.head(id)
    if (!head) return null
    for await (const entry of entriesAfter(this.#engine, head, 0)) return entry.data as Kept
    return null
  }

  /** Removes responses older than `answersMs` (limits.ts), at most once an hour unless `isNow`. */
  async sweep(isNow = false): Promise<number> {
    const host = hostOf(this.#engine)
    const elapsed = host.clock.elapsed()
    if (!isNow && this.#sweptAt !== null && elapsed - this.#sweptAt < sweepEveryMs) return 0
    this.#sweptAt = elapsed
    const before = host.now() - this.#keepMs
    let count = 0
    for await (const head of this.#engine.each({ prefix: scope })) {
      if (head.updatedAt >= before) continue
      await host.commit({ guard: guardOf(head), forget: true })
      count += 1
      if (count >= sweptMax) break
    }
    return count
  }
}

function checked<T extends { readonly print: string }>(known: T, print: string): T {
  if (known.print === print) return known
  throw new RepriseError('KEY_REUSED', 'this Idempotency-Key was used for another request', {})
}

function digest(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}
