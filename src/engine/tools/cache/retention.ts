// Removes cache entries: those unused for long, and the least recently used if all together are too large. Pinned
// entries stay. Their chunks are removed by the next collection. A cache is a kind of timelines with one entry each:
// results of functions and commands, artifacts of build tools.

import { type Duration, toMs } from '../../../core/duration.ts'
import { isReprise, RepriseError } from '../../../core/errors.ts'
import { checkOptions, namesOf } from '../../../core/options.ts'
import { refusalError } from '../../base/refusal-error.ts'
import type { Host } from '../../host/host.ts'
import { deleteTimeline } from '../housekeeping/delete.ts'
import { pinnedAttribute, usedAttribute } from './uses.ts'

export interface CacheKeep {
  /** Remove entries unused for this long. Uses are recorded to the hour. */
  readonly unused?: Duration
  /** Keep the most recently used entries up to this many bytes in total. */
  readonly bytes?: number
}

const known = namesOf<CacheKeep>()('unused bytes')

export interface Forgotten {
  readonly entries: number
  readonly bytes: number
  readonly kept: number
  readonly keptBytes: number
  readonly timelines: readonly string[]
}

export function checkKeep(where: string, keep: CacheKeep): void {
  checkOptions(where, keep, known)
  if (keep.unused !== undefined) toMs(keep.unused, `${where}: unused`)
  if (keep.bytes !== undefined && !(Number.isFinite(keep.bytes) && keep.bytes >= 0)) {
    throw new RepriseError('INVALID_ARGUMENT', `${where}: bytes must be 0 or more`, { bytes: keep.bytes })
  }
}

/** A kind of timelines that hold one entry each. */
export interface CacheKind {
  /** The scope of the entries of a name, or of all. */
  within(name?: string): string
  /** The name and scope in an id. Null: not an entry. */
  place(id: string): { readonly name: string; readonly scope: string } | null
}

/** One row in the list of entries. */
export interface CacheEntry {
  readonly timeline: string
  readonly name: string
  readonly scope: string
  /** When it was last used, to the hour. */
  readonly usedAt: number
  readonly bytes: number
  readonly isPinned: boolean
  /** A process is computing it at this moment. */
  readonly isBusy: boolean
  /** There is no usable result: it was never finished, or is damaged. */
  readonly isEmpty: boolean
}

/** The entries of these kinds; with `name`, of that name only. */
export async function* cacheEntries(
  host: Host,
  kinds: readonly CacheKind[],
  name?: string,
): AsyncGenerator<CacheEntry> {
  for (const kind of kinds) {
    for await (const head of host.each({ prefix: kind.within(name) })) {
      const place = kind.place(head.timeline)
      if (!place || (name !== undefined && place.name !== name)) continue
      const records = await host.kernel.store.checkpoints(head.timeline)
      yield {
        timeline: head.timeline,
        ...place,
        usedAt: Number(head.attributes[usedAttribute] ?? 0),
        bytes: records.reduce((sum, record) => sum + record.totalBytes, 0),
        isPinned: head.attributes[pinnedAttribute] === true,
        isBusy: head.owner !== null,
        isEmpty: !records.some(({ invalid }) => invalid === null),
      }
    }
  }
}

/** Pinned entries are never removed. */
export async function pinEntry(host: Host, timeline: string, isPinned: boolean): Promise<void> {
  const head = await host.head(timeline)
  if (!head) throw new RepriseError('NOT_FOUND', `there is no entry ${timeline}`, { timeline })
  const outcome = await host.change(head, { attributes: { [pinnedAttribute]: isPinned ? true : null } })
  if (!outcome.ok) throw refusalError(timeline, { ...outcome, reason: 'the entry is being computed' })
}

/** Applies to all entries of these kinds, or to those with this name. */
export async function forgetUnused(
  host: Host,
  kinds: readonly CacheKind[],
  name: string | undefined,
  keep: CacheKeep,
  isDry = false,
): Promise<Forgotten> {
  const now = host.clock.now()
  const entries: CacheEntry[] = []
  for await (const entry of cacheEntries(host, kinds, name)) entries.push(entry)
  entries.sort((a, b) => b.usedAt - a.usedAt)
  let [kept, keptBytes] = [0, 0]
  const gone: CacheEntry[] = []
  for (const entry of entries) {
    const isOld = keep.unused !== undefined && now - entry.usedAt > toMs(keep.unused, 'unused')
    const isTooMuch = keep.bytes !== undefined && keptBytes + entry.bytes > keep.bytes
    if ((isOld || isTooMuch) && !entry.isPinned && !entry.isBusy) {
      if (isDry || (await forgetEntry(host, entry.timeline))) gone.push(entry)
      continue
    }
    kept += 1
    keptBytes += entry.bytes
  }
  const bytes = gone.reduce((sum, entry) => sum + entry.bytes, 0)
  return { entries: gone.length, bytes, kept, keptBytes, timelines: gone.map(({ timeline }) => timeline) }
}

/** False: it did not exist, or a process is computing it at this moment. */
export async function forgetEntry(host: Host, timeline: string): Promise<boolean> {
  try {
    await deleteTimeline(host.kernel, timeline)
    return true
  } catch (error) {
    if (isReprise(error, 'NOT_FOUND', 'OWNED', 'FENCED', 'PINNED', 'CONFLICT')) return false
    throw error
  }
}

const storedBetween = 1000
const everyMs = 3_600_000

/** Removes entries in the background, occasionally, while results are stored. */
export class Pruner {
  readonly #host: Host
  readonly #kind: CacheKind
  readonly #name: string | undefined
  readonly #keep: CacheKeep
  #stored = 0
  #prunedAt = Number.NEGATIVE_INFINITY
  #pruning: Promise<unknown> | null = null

  /** Without a name: all entries of the kind. */
  constructor(host: Host, kind: CacheKind, name: string | undefined, keep: CacheKeep) {
    this.#host = host
    this.#kind = kind
    this.#name = name
    this.#keep = keep
  }

  stored(): void {
    const { clock, events } = this.#host
    this.#stored += 1
    if (this.#pruning || (this.#keep.unused === undefined && this.#keep.bytes === undefined)) return
    if (this.#stored < storedBetween && clock.elapsed() - this.#prunedAt < everyMs) return
    this.#stored = 0
    this.#prunedAt = clock.elapsed()
    this.#pruning = forgetUnused(this.#host, [this.#kind], this.#name, this.#keep)
      .catch((error) => events.emit('problem', { where: this.#kind.within(this.#name), error }))
      .finally(() => {
        this.#pruning = null
      })
  }

  async settled(): Promise<void> {
    await this.#pruning
  }
}
