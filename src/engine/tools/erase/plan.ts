// The plan of an erasure: the entries, the timelines that read them and lose checkpoints, and the reasons to refuse it.
// The remaining state is folded separately before anything is changed: a fold that fails without an entry fails here.

import { type TimelineId, timelineId } from '../../../core/coordinate.ts'
import { RepriseError } from '../../../core/errors.ts'
import { checkIn } from '../../../core/history/redacted-run.ts'
import type { EntryRun, Head, ManifestRecord } from '../../../core/store/ports.ts'
import { forwardStore } from '../../../core/store/store-wrapper.ts'
import { erasingFrom, supposeErased } from '../../history/erasures.ts'
import { floorOf, lineageOf } from '../../history/history.ts'
import { existing } from '../../history/locate.ts'
import { recover } from '../../history/recover.ts'
import { segmentsBelow } from '../../history/segments.ts'
import { refuseOfStore } from '../../model/id-prefixes.ts'
import type { Kernel } from '../../storage/kernel.ts'
import { redact } from './redaction.ts'
import {
  ancestorsOf,
  checkSelection,
  type EntrySelection,
  endsOf,
  familyOf,
  type Selected,
  select,
  type Target,
} from './select.ts'

export interface EraseEntriesOptions extends EntrySelection {
  /** Only report what would be erased. */
  readonly dryRun?: boolean
  /** Also drop savepoints that contain the state after an erased entry. Otherwise such a savepoint is a reason to refuse. */
  readonly savepoints?: boolean
  /** Take over timelines with a live owner: its state in memory is refused from then on. Aggregates do not need this. */
  readonly takeover?: boolean
  /** The reason, for the record: without personal data. */
  readonly reason?: string
}

export interface AffectedTimeline {
  readonly timeline: string
  /** The first erased sequence that it reads: its state from there on is rebuilt. */
  readonly from: number
  readonly checkpoints: number
  readonly savepoints: readonly string[]
}

export interface ErasePlan extends Selected {
  readonly timelines: readonly AffectedTimeline[]
  readonly refusals: readonly {
    readonly timeline: string
    readonly code: 'OWNED' | 'PINNED' | 'CONFLICT' | 'FOLD_FAILED' | 'INVALID_ARGUMENT'
    readonly why: string
  }[]
}

type Refusal = ErasePlan['refusals'][number]

export async function planErasure(kernel: Kernel, id: string, options: EraseEntriesOptions): Promise<ErasePlan> {
  refuseOfStore(id)
  checkSelection(options)
  const head = await existing(kernel, timelineId(id))
  const family = await familyOf(kernel, head)
  const selected = await select(kernel, head, family, options)
  const refusals: Refusal[] = []
  const floor = floorOf(await lineageOf(kernel, head)).seq
  if (options.entries && options.entries.from <= floor) {
    const why = `history up to ${floor} was trimmed: the data of those entries can only be in the state, which new entries may change`
    refusals.push({ timeline: id, code: 'CONFLICT', why })
  }
  refusals.push(...(await refusalsBelow(kernel, [...family.values()], options)))
  const timelines: AffectedTimeline[] = []
  for (const member of family.values()) {
    // After an interrupted attempt, a checkpoint may contain entries that still existed.
    const firsts = [firstIn(await ancestorsOf(family, member), selected.targets), erasingFrom(member)]
    const from = firsts.reduce((a, b) => (a === null || b === null ? (a ?? b) : Math.min(a, b)))
    if (from === null) continue
    const dropped = (await kernel.store.checkpoints(member.timeline)).filter(({ seq }) => seq >= from)
    const savepoints = dropped.filter(({ isPinned }) => isPinned).map((record) => record.id)
    timelines.push({ timeline: member.timeline, from, checkpoints: dropped.length, savepoints })
    const refusal = await refusalOf(kernel, member, from, savepoints, selected.targets, options)
    if (refusal) refusals.push(refusal)
  }
  return { ...selected, timelines, refusals }
}

/**
 * Entries in segments are not searched: if the selection may include one of them, it is refused instead of being
 * incomplete.
 */
async function refusalsBelow(
  kernel: Kernel,
  family: readonly Head[],
  { entries }: EraseEntriesOptions,
): Promise<Refusal[]> {
  const refusals: Refusal[] = []
  for (const head of family) {
    const [oldest] = await segmentsBelow(kernel, head)
    if (!oldest || (entries && entries.from > head.floor)) continue
    const why = `its history from ${oldest.from.seq + 1} to ${head.floor} is in a colder tier, where single entries cannot be erased: name entries above ${head.floor}, or erase the timeline`
    refusals.push({ timeline: head.timeline, code: 'CONFLICT', why })
  }
  return refusals
}

/** The first erased sequence of this lineage, or null. */
function firstIn(lineage: readonly Head[], targets: readonly Target[]): number | null {
  const ends = endsOf(lineage)
  let first = Number.POSITIVE_INFINITY
  for (const { timeline, seqs } of targets) {
    const end = ends[lineage.findIndex((each) => each.timeline === timeline)] ?? 0
    for (const seq of seqs) if (seq <= end) first = Math.min(first, seq)
  }
  return first === Number.POSITIVE_INFINITY ? null : first
}

async function refusalOf(
  kernel: Kernel,
  head: Head,
  from: number,
  savepoints: readonly string[],
  targets: readonly Target[],
  options: EraseEntriesOptions,
): Promise<Refusal | null> {
  const { timeline } = head
  const refuse = (code: Refusal['code'], why: string): Refusal => ({ timeline, code, why })
  const model = kernel.models.find(timeline)
  if (!model?.fold) return refuse('INVALID_ARGUMENT', 'its definition is unknown here: name the module that exports it')
  if (!model.entries || model.fold.authority === 'state') {
    return refuse('INVALID_ARGUMENT', `single entries of a ${model.kind} cannot be erased: erase the timeline`)
  }
  if (head.owner !== null && head.isOwnerAlive && !options.takeover && !model.entries.inTurns) {
    return refuse('OWNED', `${head.owner} owns it: close or stop it first, or pass { takeover: true }`)
  }
  if (savepoints.length > 0 && !options.savepoints) {
    const why = `savepoints keep it (${savepoints.join(', ')}): release them, or pass { savepoints: true }`
    return refuse('PINNED', why)
  }
  const floor = floorOf(await lineageOf(kernel, head)).seq
  if (from <= floor) {
    return refuse('CONFLICT', `its history up to ${floor} was trimmed, so its state cannot be rebuilt: erase it first`)
  }
  const catalog = await kernel.store.checkpoints(timeline)
  if (floor > 0 && !catalog.some((record) => isStart(record, floor, from))) {
    return refuse(
      'CONFLICT',
      `its history starts above ${floor}, and no checkpoint before ${from} is left to start from`,
    )
  }
  try {
    await recover(imagine(kernel, from, targets), head, model.fold)
    return null
  } catch (error) {
    if (!(error instanceof RepriseError)) throw error
    return refuse('FOLD_FAILED', `the remaining entries do not fold (${error.message}): handle them in \`erased\``)
  }
}

function isStart({ seq, verifiedAt, invalid }: ManifestRecord, floor: number, from: number): boolean {
  return seq >= floor && seq < from && verifiedAt !== null && invalid === null
}

/** The store as it will be after the erasure. */
function imagine(kernel: Kernel, from: number, targets: readonly Target[]): Kernel {
  const redacted = new Map<string, EntryRun>()
  for (const target of targets) {
    const run = redact(kernel, target.run, target.before, target.seqs)
    if (run) redacted.set(placeOf(target.timeline, run), run)
  }
  const { store } = kernel
  const imagined = forwardStore(store, {
    read: async (timeline, after, bytesMax) =>
      (await store.read(timeline, after, bytesMax)).map((run) => redacted.get(placeOf(timeline, run)) ?? run),
    checkpoints: async (timeline) => (await store.checkpoints(timeline)).filter(({ seq }) => seq < from),
  })
  const checks = [...redacted.values()].map((run) => checkIn(run.bytes))
  supposeErased(imagined, checks)
  return { ...kernel, store: imagined }
}

function placeOf(timeline: TimelineId, { first }: EntryRun): string {
  return `${first} ${timeline}`
}
