// Selects the entries to erase, and finds where they are stored. A sequence belongs to the requested lineage: its entry
// may be stored in an ancestor. A search covers the whole family: the timeline, its archives, its ancestors, and all
// forks of one of them, because the same person's data may be on a branch that is no longer used.

import type { Digest, TimelineId } from '../../../core/coordinate.ts'
import { RepriseError } from '../../../core/errors.ts'
import { isEffectType } from '../../../core/history/effects.ts'
import { unpackEntries } from '../../../core/history/entry-run.ts'
import { liveIdOf } from '../../../core/history/scope.ts'
import type { EntryRun, Head } from '../../../core/store/ports.ts'
import { synchronous } from '../../../core/synchronous.ts'
import { type Entry, entriesOf, readHistory } from '../../history/history.ts'
import { systemPrefix } from '../../model/definition.ts'
import { forksOf } from '../../storage/heads.ts'
import type { Kernel } from '../../storage/kernel.ts'
import { archivesOf } from '../housekeeping/delete.ts'

/** All conditions must hold. Fields are named by their path ('address.city'), and compared by their text. */
export interface EntryFilter {
  readonly type?: string
  /** The dedupe key. */
  readonly key?: string
  readonly fields?: Readonly<Record<string, unknown>>
}

export interface EntrySelection {
  /** Sequences `from` to `to`, both inclusive. */
  readonly entries?: { readonly from: number; readonly to: number }
  readonly where?: EntryFilter | ((entry: Entry) => boolean)
}

/** A run with entries to erase, in the timeline that stores it. */
export interface Target {
  readonly timeline: TimelineId
  readonly run: EntryRun
  readonly before: Digest
  readonly seqs: ReadonlySet<number>
}

export interface Selected {
  readonly targets: readonly Target[]
  readonly types: Readonly<Record<string, number>>
  /** Selected entries that were erased before. */
  readonly already: number
}

export function checkSelection({ entries, where }: EntrySelection): void {
  if (!entries && !where) throw invalid('select entries: a range of sequences (entries), or a condition (where)')
  if (entries) {
    const { from, to } = entries
    const isRange = Number.isSafeInteger(from) && Number.isSafeInteger(to) && from >= 1 && to >= from
    if (!isRange) throw invalid('entries must be sequences of at least 1: { from, to }, both included')
  }
  if (typeof where !== 'object') return
  const unknown = Object.keys(where).filter((name) => !['type', 'key', 'fields'].includes(name))
  if (unknown.length > 0 || Object.keys(where).length === 0) {
    throw invalid(`where has a type, a key or fields, not ${unknown.join(', ') || 'nothing'}`)
  }
}

function invalid(what: string): RepriseError {
  return new RepriseError('INVALID_ARGUMENT', what)
}

/** Itself first. Follows the bases, even if history up to there was trimmed. */
export async function ancestorsOf(family: ReadonlyMap<string, Head>, head: Head): Promise<Head[]> {
  const found = [head]
  for (let base = head.base; base; ) {
    const parent = family.get(base.timeline)
    if (!parent || found.includes(parent)) break
    found.push(parent)
    base = parent.base
  }
  return found
}

/** The last sequence that each member of a lineage contributes. */
export function endsOf(lineage: readonly Head[]): number[] {
  const ends = [lineage[0]!.seq]
  for (const { base } of lineage.slice(0, -1)) ends.push(Math.min(ends.at(-1)!, base!.seq))
  return ends
}

/** Every timeline that shares a history with it, or did. */
export async function familyOf(kernel: Kernel, head: Head): Promise<Map<string, Head>> {
  const family = new Map<string, Head>()
  const waiting: Head[] = [head, ...(await archivesOf(kernel, liveIdOf(head.timeline) as TimelineId))]
  for (let next = waiting.pop(); next; next = waiting.pop()) {
    if (family.has(next.timeline)) continue
    family.set(next.timeline, next)
    if (next.base) {
      const [parent] = await kernel.store.head([next.base.timeline])
      if (parent) waiting.push(parent)
    }
    waiting.push(...(await forksOf(kernel, next.timeline)))
  }
  return family
}

export async function select(
  kernel: Kernel,
  head: Head,
  family: ReadonlyMap<string, Head>,
  { entries: range, where }: EntrySelection,
): Promise<Selected> {
  const targets: Target[] = []
  const types: Record<string, number> = {}
  let already = 0
  const lineage = await ancestorsOf(family, head)
  const ends = endsOf(lineage)
  const isWanted = where ? matcher(kernel, where) : () => true
  for (const [id, member] of family) {
    const place = lineage.findIndex(({ timeline }) => timeline === id)
    if (range && place < 0) continue
    const from = Math.max(range?.from ?? 1, ownStart(member).seq + 1)
    const to = Math.min(range ? Math.min(range.to, ends[place]!) : member.seq, member.seq)
    if (to < from) continue
    for await (const verified of readHistory(kernel, [{ ...member, base: null }], ownStart(member), member.seq)) {
      const { run, before } = verified
      if (run.first > to) break
      if (run.first + run.count - 1 < from) continue
      const gone = new Set(unpackEntries(run).flatMap(({ seq, isErased }) => (isErased ? [seq] : [])))
      const seqs = new Set<number>()
      for (const entry of entriesOf(kernel, { ...verified, skipTo: run.first - 1 })) {
        if (entry.seq < from || entry.seq > to) continue
        if (gone.has(entry.seq)) {
          already += range ? 1 : 0
          continue
        }
        if (!canGo(entry.type) || !isWanted(entry)) continue
        seqs.add(entry.seq)
        types[entry.type] = (types[entry.type] ?? 0) + 1
      }
      if (seqs.size > 0) targets.push({ timeline: member.timeline, run, before, seqs })
    }
  }
  return { targets, types, already }
}

/** The engine's own entries contain no personal data, except for the inputs and results of effects. */
function canGo(type: string): boolean {
  return !type.startsWith(systemPrefix) || isEffectType(type)
}

/** Where its own history starts: above its base, or its floor. */
export function ownStart({ base, floor, floorDigest }: Head): { readonly seq: number; readonly digest: Digest } {
  return base && floor < base.seq ? base : { seq: floor, digest: floorDigest }
}

function matcher(kernel: Kernel, where: NonNullable<EntrySelection['where']>): (entry: Entry) => boolean {
  if (typeof where === 'function')
    return synchronous(where, 'where of the entries to erase', 'decide from the entry alone')
  const { type, key, fields = {} } = where
  return (entry) => {
    if (type !== undefined && entry.type !== type) return false
    if (key !== undefined && entry.key !== key) return false
    const own = kernel.models.find(entry.timeline)?.entries?.fields(entry) ?? entry.data
    return Object.entries(fields).every(([path, value]) => {
      const found = at(own, path)
      return found !== undefined && (Object.is(found, value) || String(found) === String(value))
    })
  }
}

function at(value: unknown, path: string): unknown {
  let found = value
  for (const name of path.split('.')) {
    if (typeof found !== 'object' || found === null || !Object.hasOwn(found, name)) return undefined
    found = (found as Record<string, unknown>)[name]
  }
  return found
}
