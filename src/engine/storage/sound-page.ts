// Verify's part for the store's own structures: pages, indexes, lists. Findings of the store's own check are faults;
// with `repair`, a store that can do so rewrites its files from their intact parts, and reports the losses. The rest of
// verify then reads the result.

import { timelineId } from '../../core/coordinate.ts'
import { isReprise, noTimeline, type RepriseError } from '../../core/errors.ts'
import { isWithin } from '../../core/history/scope.ts'
import type { Head, Inspection, TimelineQuery } from '../../core/store/ports.ts'
import { compareText } from '../../core/store/text-order.ts'
import { Yielder } from '../base/yielder.ts'
import type { Fault, HealedFault } from './fault.ts'
import { headsIn } from './heads.ts'
import type { Kernel } from './kernel.ts'

export interface Structures {
  readonly faults: readonly Fault[]
  /** Files are damaged, not only their content. */
  readonly isOfFile: boolean
}

export async function inspected(kernel: Kernel, location: string, inspection: Inspection): Promise<Structures> {
  const found = await kernel.store.upkeep.inspect(inspection)
  const faults = found.map(({ where, what, timeline = null }) => {
    return { timeline, seq: null, where: `${location}: ${where}`, what, code: 'STORE_DAMAGED' }
  })
  return { faults, isOfFile: found.some(({ isOfFile }) => isOfFile) }
}

/** Null: this store has no files of its own to rewrite. */
export async function renewed(
  kernel: Kernel,
  location: string,
): Promise<{ readonly healed: readonly HealedFault[]; readonly lost: readonly Fault[] } | null> {
  const { salvage } = kernel.store.upkeep
  if (!salvage?.renew) return null
  const fault = (where: string, what: string, timeline: string | null = null): Fault => {
    return { timeline, seq: null, where: `${location}: ${where}`, what, code: 'STORE_DAMAGED' }
  }
  try {
    const { kept, rebuilt, lost } = await salvage.renew()
    const from = `a new file; the old one is ${kept}`
    return {
      healed: rebuilt.map(({ where, what, isIncomplete }) => {
        return { ...fault(where, what), from, isPutRight: true, ...(isIncomplete && { isIncomplete }) }
      }),
      // Timelines with a marked head are reported by the mark, as long as it exists.
      lost: lost
        .filter(({ isUntilHead }) => !isUntilHead)
        .map(({ timeline, where, what }) => fault(where, what, timeline)),
    }
  } catch (error) {
    // The caller of a repair only learns which process has the file open.
    if (!isReprise(error) || error.code === 'STORE_BUSY') throw error
    return { healed: [], lost: [fault('file', `it could not be rewritten: ${error.message}`)] }
  }
}

export async function* headsOf(kernel: Kernel, only?: readonly string[]): AsyncGenerator<Head> {
  if (only) {
    const heads = await kernel.store.head(only.map((id) => timelineId(id)))
    for (let i = 0; i < heads.length; i++) {
      if (!heads[i]) throw noTimeline(only[i]!)
      yield heads[i]!
    }
    return
  }
  // A scan of a whole store yields regularly, regardless of the work per timeline.
  const yielder = new Yielder(kernel.clock)
  for await (const head of headsIn(kernel.store)) {
    if (yielder.isDue) await yielder.take()
    yield head
  }
}

export interface Quarantined {
  readonly timeline: string
  readonly error: RepriseError
}

/** The unreadable timelines among the first of a store. A damaged timeline does not affect the others. */
export async function quarantined(kernel: Kernel, lookedAtMax: number): Promise<Quarantined[]> {
  const found: Quarantined[] = []
  let count = 0
  for await (const _ of legibleHeads(kernel, undefined, (timeline, error) => found.push({ timeline, error }))) {
    count += 1
    if (count === lookedAtMax) break
  }
  return found
}

/** Damage of one timeline: work on many timelines skips and reports that one, and continues with the next. */
export function isDamageOfOne(error: unknown): error is RepriseError {
  return isReprise(error, 'STORE_DAMAGED', 'HISTORY_DAMAGED', 'CHECKPOINT_DAMAGED', 'HEAD_LOST', 'MALFORMED')
}

type OnDamage = (timeline: string, error: RepriseError) => void

const listPage = 500

/**
 * All matching heads, in id order. Unreadable timelines are skipped and passed to `onDamage`, and the others are found by
 * their names. Without names (Salvage.names) it rejects, as the store does.
 */
export async function* soundHeads(
  kernel: Kernel,
  query: Partial<TimelineQuery>,
  onDamage: OnDamage,
): AsyncGenerator<Head> {
  const { limit = listPage } = query
  const yielder = new Yielder(kernel.clock)
  for (let after = query.after; ; ) {
    const page = await soundPage(kernel, { ...query, limit, ...(after !== undefined && { after }) }, onDamage)
    for (const head of page) {
      if (yielder.isDue) await yielder.take()
      yield head
    }
    if (query.limit !== undefined || page.length < limit) return
    after = page.at(-1)!.timeline
  }
}

/** One page of the list. */
export async function soundPage(kernel: Kernel, query: TimelineQuery, onDamage: OnDamage): Promise<Head[]> {
  try {
    return await kernel.store.timelines(query)
  } catch (error) {
    if (!isReprise(error, 'STORE_DAMAGED') || !kernel.store.upkeep.salvage) throw error
  }
  const { prefix = '', after, limit } = query
  const names = (await kernel.store.upkeep.salvage!.names())
    .filter(
      (name) => (prefix === '' || isWithin(prefix, name)) && (after === undefined || compareText(name, after) > 0),
    )
    .sort(compareText)
  const heads: Head[] = []
  for await (const head of readEach(kernel, names, onDamage)) {
    if (!matches(query, head)) continue
    heads.push(head)
    if (heads.length === limit) break
  }
  return heads
}

function matches({ status, queue, owner, parent, attributes = {} }: TimelineQuery, head: Head): boolean {
  if (status !== undefined && head.status !== status) return false
  if (queue !== undefined && head.queue !== queue) return false
  if (owner !== undefined && head.owner !== owner) return false
  if (parent !== undefined && head.base?.timeline !== parent) return false
  return Object.entries(attributes).every(([name, value]) => head.attributes[name] === value)
}

/** The same where lists are damaged: by all readable names. Unreadable heads are passed to `onDamage`. */
export async function* legibleHeads(
  kernel: Kernel,
  only: readonly string[] | undefined,
  onDamage: OnDamage,
): AsyncGenerator<Head> {
  const given = new Set<string>()
  try {
    for await (const head of headsOf(kernel, only)) {
      given.add(head.timeline)
      yield head
    }
    return
  } catch (error) {
    if (!isReprise(error, 'STORE_DAMAGED') || !kernel.store.upkeep.salvage) throw error
  }
  const left = (only ?? (await kernel.store.upkeep.salvage!.names())).filter((name) => !given.has(name))
  yield* readEach(kernel, left, onDamage)
}

async function* readEach(kernel: Kernel, names: readonly string[], onDamage: OnDamage): AsyncGenerator<Head> {
  const yielder = new Yielder(kernel.clock)
  for (const name of names) {
    if (yielder.isDue) await yielder.take()
    try {
      const [head] = await kernel.store.head([timelineId(name)])
      if (head) yield head
    } catch (error) {
      // A damaged list may contain invalid names.
      if (!isReprise(error, 'STORE_DAMAGED') && !isReprise(error, 'INVALID_ID')) throw error
      onDamage(name, error)
    }
  }
}
