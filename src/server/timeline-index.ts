// Searches all timelines by kind, status, attributes, text and time, most recently changed first. A store lists by id only;
// this is a copy of its heads in memory, built on the first search and updated from the feed before each search. A change
// without an entry (a lease, a wakeup) is noticed when its row is shown, or at the next full read; timelines of kinds that
// begin without an entry (pipelines) are read before each search, within a time budget. Timelines whose owner has died are read
// before each search, too: their status depends on it.

import { assert } from '../core/assert.ts'
import type { TimelineId } from '../core/coordinate.ts'
import { RepriseError } from '../core/errors.ts'
import { liveIdOf } from '../core/history/scope.ts'
import { type Attribute, type FeedPosition, feedStart, type Head } from '../core/store/ports.ts'
import type { Reprise } from '../engine/api/reprise.ts'
import { isOwnAttribute } from '../engine/checkpoint/stored-policy.ts'
import { hostOf } from '../engine/host/host.ts'
import { isOfStore } from '../engine/model/id-prefixes.ts'
import type { Model } from '../engine/model/model.ts'
import { feedEnd } from '../operations/feed-end.ts'
import { needsPerson, statusOf } from '../operations/heads.ts'
import { workersNow } from '../operations/workers.ts'
import { mayReach, type Principal } from './access.ts'
import { type Cause, causesOf, ErrorTexts } from './error-texts.ts'

const pageRuns = 1000
const wholeEveryMs = 5 * 60_000
/** Reading timelines that begin without an entry takes at most this fraction (1/n) of the time. */
const unwrittenShare = 20

export interface Indexed {
  readonly timeline: TimelineId
  readonly kind: string | null
  readonly status: string
  readonly isRun: boolean
  readonly isUnfinished: boolean
  readonly needsPerson: boolean
  /** True if a worker may have to take it: it is in a queue. */
  readonly isQueued: boolean
  /** The live owner, as of the last read. */
  readonly owner: string | null
  readonly attributes: Readonly<Record<string, Attribute>>
  readonly createdAt: number
  readonly updatedAt: number
}

export interface Wanted {
  readonly kinds?: readonly string[]
  readonly statuses?: readonly string[]
  readonly attributes?: Readonly<Record<string, Attribute>>
  /** Every word must be part of the id, the status, an attribute or the error; `key=value` is a whole value. */
  readonly text?: string
  readonly since?: number
  readonly until?: number
  readonly runs?: boolean
  readonly attention?: boolean
}

export interface Found {
  readonly rows: readonly Indexed[]
  /** Number of timelines that match all criteria. */
  readonly total: number
  /** Counts by status, of the timelines that match all criteria except the status. */
  readonly statuses: Readonly<Record<string, number>>
  /** Counts by kind, of all timelines that the caller reaches. */
  readonly kinds: Readonly<Record<string, number>>
  readonly attention: number
  /** Errors of the matching timelines that need a person, grouped. Empty unless these are requested. */
  readonly causes: readonly Cause[]
  readonly next: string | null
  /** The store has more timelines than the index holds. */
  readonly isPartial: boolean
}

export class TimelineIndex {
  readonly #engine: Reprise
  readonly #rowsMax: number
  #rows = new Map<TimelineId, Indexed>()
  /** Sorted, except for timelines that changed since. */
  #sorted: readonly Indexed[] = []
  readonly #changed = new Set<TimelineId>()
  #position: FeedPosition = feedStart
  #wholeAt: number | null = null
  #unwrittenDueAt = Number.NEGATIVE_INFINITY
  #isPartial = false
  #refreshing: Promise<void> | null = null
  readonly #errors: ErrorTexts
  /** The text that words are searched in, made when a search needs it: most rows of a large store are never searched. */
  readonly #texts = new WeakMap<Indexed, string>()

  constructor(engine: Reprise, rowsMax: number) {
    this.#engine = engine
    this.#rowsMax = rowsMax
    this.#errors = new ErrorTexts(engine)
  }

  /** `after`: the `next` of the previous page. */
  async find(principal: Principal, wanted: Wanted, limit: number, after?: string): Promise<Found> {
    await this.#refresh()
    const reads = wanted.attention === true || (wanted.text ?? '').trim() !== ''
    if (reads) await this.#errors.read(this.#inOrder().filter((row) => mayReach(principal, row.timeline)))
    const matches = matcherOf(wanted, {
      text: (row) => this.#textOf(row),
      error: (row) => this.#errors.of(row),
    })
    const failing: Indexed[] = []
    const statuses: Record<string, number> = {}
    const kinds: Record<string, number> = {}
    const rows: Indexed[] = []
    let [total, attention, next] = [0, 0, null as string | null]
    const from = after === undefined ? null : placeOf(after)
    for (const row of this.#inOrder()) {
      if (!mayReach(principal, row.timeline)) continue
      const kind = row.kind ?? ''
      kinds[kind] = (kinds[kind] ?? 0) + 1
      if (row.needsPerson) attention += 1
      if (!matches(row)) continue
      statuses[row.status] = (statuses[row.status] ?? 0) + 1
      if (wanted.statuses && !wanted.statuses.includes(row.status)) continue
      total += 1
      if (wanted.attention) failing.push(row)
      if (from && !isAfter(row, from)) continue
      if (rows.length < limit) rows.push(row)
      else next ??= `${rows[limit - 1]!.updatedAt}:${rows[limit - 1]!.timeline}`
    }
    const causes = causesOf(failing.map((row) => ({ ...row, error: this.#errors.of(row) })))
    return { rows, total, statuses, kinds, attention, causes, next, isPartial: this.#isPartial }
  }

  /** Reads all heads and the errors now, so that the first search need not. */
  async warm(): Promise<void> {
    await this.#refresh()
    await this.#errors.read(this.#inOrder())
  }

  /** Timelines that are in a queue or not finished; null: the index does not hold all timelines. */
  async workable(): Promise<readonly TimelineId[] | null> {
    await this.#refresh()
    if (this.#isPartial) return null
    const ids: TimelineId[] = []
    for (const { timeline, isQueued, isUnfinished } of this.#rows.values())
      if (isQueued || isUnfinished) ids.push(timeline)
    return ids
  }

  #textOf(row: Indexed): string {
    const known = this.#texts.get(row)
    if (known !== undefined) return known
    const text = textOf(row)
    this.#texts.set(row, text)
    return text
  }

  /** Updates the rows of these timelines from newly read heads. */
  note(heads: readonly (Head | null)[], names: readonly TimelineId[]): void {
    for (const [i, head] of heads.entries()) this.#put(names[i]!, head)
  }

  #inOrder(): readonly Indexed[] {
    if (this.#changed.size === 0) return this.#sorted
    const changed = [...this.#changed].flatMap((id) => this.#rows.get(id) ?? [])
    const same = this.#sorted.filter(({ timeline }) => !this.#changed.has(timeline))
    // Few rows have changed and most are in order, so sorting them together costs about as much as reading them.
    this.#sorted = [...changed, ...same].sort((a, b) => b.updatedAt - a.updatedAt || compare(a, b))
    this.#changed.clear()
    return this.#sorted
  }

  async #refresh(): Promise<void> {
    this.#refreshing ??= this.#catchUp()
      .then(() => this.#readAbandoned())
      .finally(() => {
        this.#refreshing = null
      })
    await this.#refreshing
  }

  async #catchUp(): Promise<void> {
    const { kernel } = hostOf(this.#engine)
    const elapsed = kernel.clock.elapsed()
    if (this.#wholeAt === null || elapsed - this.#wholeAt > wholeEveryMs) {
      await this.#readAll()
      this.#wholeAt = elapsed
      return
    }
    await this.#readUnwritten()
    for (;;) {
      const page = await kernel.store.feed(this.#position, {}, pageRuns)
      const changed = [...new Set(page.items.map(({ timeline }) => timeline))]
      if (changed.length > 0) this.note(await kernel.store.head(changed), changed)
      const isStill = page.next === this.#position
      this.#position = page.next
      if (page.isEnd || isStill) return
    }
  }

  /** The store counts a killed owner as alive until its lease expires. */
  async #readAbandoned(): Promise<void> {
    const owned = [...this.#rows.values()].filter(({ owner }) => owner !== null)
    if (owned.length === 0) return
    const alive = new Set(
      (await workersNow(this.#engine)).flatMap(({ id, isAlive }) => (isAlive ? [id as string] : [])),
    )
    const abandoned = owned.flatMap(({ owner, timeline }) => (alive.has(owner!) ? [] : [timeline]))
    if (abandoned.length === 0) return
    const { kernel } = hostOf(this.#engine)
    const heads = await kernel.store.head(abandoned)
    const isAlive = ({ owner, isOwnerAlive }: Head) => isOwnerAlive && owner !== null && alive.has(owner)
    this.note(
      heads.map((head) => head && { ...head, isOwnerAlive: isAlive(head) }),
      abandoned,
    )
  }

  async #readUnwritten(): Promise<void> {
    const { kernel, models } = hostOf(this.#engine)
    const startedAt = kernel.clock.elapsed()
    if (startedAt < this.#unwrittenDueAt) return
    const scopes = models
      .all()
      .flatMap(({ name, scope, beginsUnwritten }) => (name === null && beginsUnwritten ? scope : []))
    for (const prefix of scopes) for await (const head of this.#engine.each({ prefix })) this.#put(head.timeline, head)
    const tookMs = kernel.clock.elapsed() - startedAt
    this.#unwrittenDueAt = startedAt + tookMs * unwrittenShare
  }

  async #readAll(): Promise<void> {
    // Reads the end of the feed first: concurrent changes are read again rather than missed.
    const position = await feedEnd(this.#engine, this.#position)
    const before = this.#rows
    this.#rows = new Map()
    this.#isPartial = false
    try {
      for await (const head of hostOf(this.#engine).each()) {
        this.#put(head.timeline, head)
        if (this.#isPartial) break
      }
      this.#position = position
    } catch (error) {
      this.#rows = before
      throw error
    } finally {
      for (const timeline of before.keys()) this.#changed.add(timeline)
      for (const timeline of this.#rows.keys()) this.#changed.add(timeline)
    }
  }

  #put(timeline: TimelineId, head: Head | null): void {
    if (isOfStore(timeline) || liveIdOf(timeline) !== timeline) return
    const before = this.#rows.get(timeline)
    if (!head) {
      if (this.#rows.delete(timeline)) this.#changed.add(timeline)
      return
    }
    const model = hostOf(this.#engine).models.find(timeline)
    const row = indexed(head, model)
    if (before?.updatedAt === row.updatedAt && before.status === row.status && before.owner === row.owner) return
    this.#changed.add(timeline)
    if (this.#rows.size >= this.#rowsMax && !this.#rows.has(timeline)) this.#isPartial = true
    else this.#rows.set(timeline, row)
    assert(this.#rows.size <= this.#rowsMax, 'the index holds no more rows than it may')
  }
}

export function indexed(head: Head, model: Model | null): Indexed {
  const { timeline, attributes, createdAt, updatedAt } = head
  const status = statusOf(head, model)
  return {
    timeline,
    kind: model?.kind ?? null,
    status,
    isRun: model?.unfinished !== undefined,
    isUnfinished: model?.unfinished?.includes(status) ?? false,
    needsPerson: needsPerson(head, status, model),
    isQueued: head.queue !== null,
    owner: head.isOwnerAlive ? head.owner : null,
    attributes,
    createdAt,
    updatedAt,
  }
}

/** Matches all criteria except the status, which is counted per value. */
function matcherOf(
  { kinds, attributes, text = '', since, until, runs, attention }: Wanted,
  of: { text(row: Indexed): string; error(row: Indexed): string },
): (row: Indexed) => boolean {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean)
  const pairs = Object.entries(attributes ?? {})
  return (row) => {
    if (runs && !row.isRun) return false
    if (attention && !row.needsPerson) return false
    if (kinds && !kinds.includes(row.kind ?? '')) return false
    if (since !== undefined && row.updatedAt < since) return false
    if (until !== undefined && row.updatedAt >= until) return false
    if (pairs.some(([key, value]) => row.attributes[key] !== value)) return false
    return words.every((word) => hasWord(row, word, of.text) || of.error(row).toLowerCase().includes(word))
  }
}

/** `key=value` is the whole value of an attribute; any other word, and a part of an id, may be anywhere in the text. */
function hasWord(row: Indexed, word: string, textIn: (row: Indexed) => string): boolean {
  const at = word.indexOf('=')
  if (at < 1) return textIn(row).includes(word)
  const { timeline, attributes } = row
  if (timeline.toLowerCase().includes(word)) return true
  const [key, value] = [word.slice(0, at), word.slice(at + 1)]
  return Object.entries(attributes).some(
    ([name, known]) => !isOwnAttribute(name) && name.toLowerCase() === key && isWordOf(String(known), value),
  )
}

/** A value of several words is found by any of them, because a search is split at its spaces. */
function isWordOf(known: string, value: string): boolean {
  const lower = known.toLowerCase()
  return lower === value || lower.split(/\s+/)[0] === value
}

function textOf({ timeline, attributes, status }: Indexed): string {
  const shown = Object.entries(attributes).flatMap(([key, value]) => (isOwnAttribute(key) ? [] : [`${key}=${value}`]))
  return `${timeline} ${status} ${shown.join(' ')}`.toLowerCase()
}

interface Place {
  readonly updatedAt: number
  readonly timeline: string
}

function placeOf(after: string): Place {
  const [, updatedAt, timeline] = /^(\d{1,16}):(.+)$/s.exec(after) ?? []
  if (timeline === undefined)
    throw new RepriseError('INVALID_ARGUMENT', 'after must be the `next` of the previous page', {})
  return { updatedAt: Number(updatedAt), timeline }
}

function isAfter(row: Indexed, from: Place): boolean {
  return row.updatedAt < from.updatedAt || (row.updatedAt === from.updatedAt && compare(row, from) > 0)
}

function compare(a: Place, b: Place): number {
  return a.timeline < b.timeline ? -1 : a.timeline > b.timeline ? 1 : 0
}
