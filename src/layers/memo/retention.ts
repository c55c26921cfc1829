// What is forgotten: entries that were not used for long, and the ones used longest ago where all together are too
// large. Pinned ones stay. Their chunks go with the next collection.

import { type Duration, toMs } from '../../core/duration.ts'
import { isReprise, RepriseError } from '../../core/errors.ts'
import { checkOptions, namesOf } from '../../core/options.ts'
import type { Host } from '../../engine/host.ts'
import { deleteTimeline } from '../../engine/tools/delete.ts'
import { pinnedAttribute, usedAttribute } from './uses.ts'

export interface MemoKeep {
  /** Forgotten when it was not used for so long. Uses are noted to the hour. */
  readonly unused?: Duration
  /** The entries used last that have so many bytes together stay. */
  readonly bytes?: number
}

const known = namesOf<MemoKeep>({ unused: true, bytes: true })

export interface Forgotten {
  readonly entries: number
  readonly bytes: number
  readonly kept: number
  readonly keptBytes: number
  readonly timelines: readonly string[]
}

export function checkKeep(where: string, keep: MemoKeep): void {
  checkOptions(where, keep, known)
  if (keep.unused !== undefined) toMs(keep.unused, `${where}: unused`)
  if (keep.bytes !== undefined && !(Number.isFinite(keep.bytes) && keep.bytes >= 0)) {
    throw new RepriseError('INVALID_ARGUMENT', `${where}: bytes must be 0 or more`, { bytes: keep.bytes })
  }
}

/** One line of the list of entries. */
export interface MemoEntry {
  readonly timeline: string
  readonly name: string
  readonly scope: string
  /** When it was last used, to the hour. */
  readonly usedAt: number
  readonly bytes: number
  readonly isPinned: boolean
  /** Somebody computes it at this moment. */
  readonly isBusy: boolean
  /** Nothing usable is there: it was never finished, or is damaged. */
  readonly isEmpty: boolean
}

/** Of a memo, or of all; without those that only help to look at files. */
export async function* memoEntries(host: Host, name?: string): AsyncGenerator<MemoEntry> {
  for await (const head of host.each({ prefix: name === undefined ? 'memo/' : `memo/${name}/` })) {
    const [, memo, scope] = head.timeline.split('/')
    if (memo === undefined || scope === undefined || memo.startsWith('.')) continue
    const records = await host.kernel.store.checkpoints(head.timeline)
    yield {
      timeline: head.timeline,
      name: memo,
      scope,
      usedAt: Number(head.attributes[usedAttribute] ?? 0),
      bytes: records.reduce((sum, record) => sum + record.totalBytes, 0),
      isPinned: head.attributes[pinnedAttribute] === true,
      isBusy: head.owner !== null,
      isEmpty: !records.some(({ invalid }) => invalid === null),
    }
  }
}

/** Pinned ones stay, whatever is forgotten. */
export async function pinEntry(host: Host, timeline: string, isPinned: boolean): Promise<void> {
  const head = await host.head(timeline)
  if (!head) throw new RepriseError('NOT_FOUND', `there is no entry ${timeline}`, { timeline })
  const outcome = await host.change(head, { attributes: { [pinnedAttribute]: isPinned ? true : null } })
  if (!outcome.ok) throw new RepriseError(outcome.code, `${timeline} is computed at this moment`, { timeline })
}

/** Of one memo, or of all. */
export async function forgetUnused(
  host: Host,
  name: string | undefined,
  keep: MemoKeep,
  isDry = false,
): Promise<Forgotten> {
  const now = host.kernel.clock.now()
  const entries: MemoEntry[] = []
  for await (const entry of memoEntries(host, name)) entries.push(entry)
  entries.sort((a, b) => b.usedAt - a.usedAt)
  let [kept, keptBytes] = [0, 0]
  const gone: MemoEntry[] = []
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

/** False: it was not there, or somebody computes it at this moment. */
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

/** Forgets in the background, now and then, as long as something is stored. */
export class Pruner {
  readonly #host: Host
  readonly #name: string
  readonly #keep: MemoKeep
  #stored = 0
  #prunedAt = Number.NEGATIVE_INFINITY
  #pruning: Promise<unknown> | null = null

  constructor(host: Host, name: string, keep: MemoKeep) {
    this.#host = host
    this.#name = name
    this.#keep = keep
  }

  stored(): void {
    const { clock, events } = this.#host.kernel
    this.#stored += 1
    if (this.#pruning || (this.#keep.unused === undefined && this.#keep.bytes === undefined)) return
    if (this.#stored < storedBetween && clock.elapsed() - this.#prunedAt < everyMs) return
    this.#stored = 0
    this.#prunedAt = clock.elapsed()
    this.#pruning = forgetUnused(this.#host, this.#name, this.#keep)
      .catch((error) => events.emit('problem', { where: `memo/${this.#name}`, error }))
      .finally(() => {
        this.#pruning = null
      })
  }

  async settled(): Promise<void> {
    await this.#pruning
  }
}
