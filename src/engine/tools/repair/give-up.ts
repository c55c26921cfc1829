// Gives up damaged history that no copy has: a person decides, and the timeline continues without it. Lost entries are
// replaced with entries that are marked as lost, in runs whose digests are recorded like those of erasures
// (history/erasures.ts), with the person and the reason. If the model cannot do without the entries, the report contains the
// reason and the alternative.
//
// History after the damage follows from a digest that was lost with it. So the runs up to the next one with a stored digest
// are rewritten with new digests: their entries stay, unless they are encrypted, since an encrypted entry opens only with the
// digest before it.

import { type Digest, equalBytes, type TimelineId, timelineId } from '../../../core/coordinate.ts'
import { isReprise, RepriseError } from '../../../core/errors.ts'
import { lastSeq, readStart, unpackEntries, verifyEntries } from '../../../core/history/entry-run.ts'
import { erasedType, lostRun, reboundRun } from '../../../core/history/redact.ts'
import { checkIn } from '../../../core/history/redacted-run.ts'
import { epochGuardOf } from '../../../core/store/commit-guard.ts'
import type { EntryRun, Head, LegibleRun } from '../../../core/store/ports.ts'
import { forwardStore } from '../../../core/store/store-wrapper.ts'
import { refusalError } from '../../base/refusal-error.ts'
import { erasureMark, recordErasure, supposeErased } from '../../history/erasures.ts'
import { existing } from '../../history/locate.ts'
import { recover } from '../../history/recover.ts'
import { refuseOfStore } from '../../model/id-prefixes.ts'
import { takeTimeline } from '../../ownership/take-timeline.ts'
import { forksOf } from '../../storage/heads.ts'
import { type Kernel, newId, submit } from '../../storage/kernel.ts'
import { sealEntry } from '../../storage/seal/entries.ts'
import { ownStart } from '../erase/select.ts'
import { soundRuns } from './history.ts'

export interface GiveUpOptions {
  /** The person who decides, and the reason: for the record. */
  readonly by: string
  readonly reason: string
  /** Only reports the losses. */
  readonly dryRun?: boolean
}

export interface GiveUpReport {
  readonly timeline: string
  readonly isDryRun: boolean
  /** Ranges of unreadable sequences, both ends inclusive. */
  readonly lost: readonly { readonly from: number; readonly to: number }[]
  /** Other facts that are no longer known, as text. */
  readonly unknown: readonly string[]
  /** The reason for a refusal, and the alternative; null: it would not be refused. */
  readonly refusal: string | null
  /** The id of the recorded decision; null: nothing was given up. */
  readonly id: string | null
}

/** The type of a lost entry for `erased` of a fold: its real type is unknown. */
export const lostType = '$lost'

interface Plan {
  readonly lost: GiveUpReport['lost']
  /** The replacement runs. */
  readonly runs: readonly EntryRun[]
}

const pageBytes = 4 * 1024 * 1024
const replacesMax = 50

/** @example await giveUp(kernel, 'notes/ann', { by: 'ops', reason: 'bad disk', dryRun: true }) */
export async function giveUp(kernel: Kernel, id: string, options: GiveUpOptions): Promise<GiveUpReport> {
  const { by, reason, dryRun = false } = options
  for (const [name, value] of Object.entries({ by, reason })) {
    if (typeof value !== 'string' || value.trim() === '') {
      throw new RepriseError('INVALID_ARGUMENT', `${name} is required: it is recorded with the loss`, { timeline: id })
    }
  }
  refuseOfStore(id)
  const timeline = timelineId(id)
  const planned = await plan(kernel, await existing(kernel, timeline))
  const refusal =
    planned.runs.length === 0
      ? 'its history is intact: there is nothing to give up'
      : await refusalOf(kernel, timeline, planned)
  const unknown = planned.lost.length === 0 ? [] : unknowns
  const report = { timeline: id, isDryRun: dryRun, lost: planned.lost, unknown, refusal, id: null }
  if (dryRun) return report
  if (refusal !== null) throw new RepriseError('CONFLICT', `${id}: ${refusal}`, { timeline: id, lost: planned.lost })
  return { ...report, id: await carryOut(kernel, timeline, options) }
}

export const unknownDefinition = 'its definition is unknown: name the module that exports it'

const unknowns = [
  'outside effects of these entries, and whether they were undone',
  'their dedupe keys: an entry with one of these keys is appended again',
]

async function carryOut(kernel: Kernel, timeline: TimelineId, { by, reason }: GiveUpOptions): Promise<string> {
  const id = newId(kernel.random)
  // 1. Take the timeline: no other process writes, and other processes drop their cached state of it.
  const head = await takeTimeline(kernel, timeline, { mustExist: true }, erasureMark(id, 1))
  const { lost, runs } = await plan(kernel, head)
  const count = lost.reduce((sum, { from, to }) => sum + to - from + 1, 0)
  // 2. Record the decision first: a run without one is damage.
  const why = `given up by ${by}: ${reason}`
  await recordErasure(kernel, { id, why, entries: count, checks: runs.map((run) => checkIn(run.bytes)) })
  const changes = runs.map(({ first, count: entries, digest, bytes }) => {
    return { first, count: entries, digest, bytes, isLost: lost.some(({ from }) => from === first) }
  })
  for (let attempt = 1; ; attempt++) {
    const { left } = await kernel.store.upkeep.replace(timeline, changes)
    if (left === 0) break
    if (attempt >= replacesMax) throw new RepriseError('CONTENDED', `${timeline}: ${left} runs could not be replaced`)
  }
  // 3. Release the timeline.
  const outcome = await submit(kernel, {
    guard: epochGuardOf(head),
    release: true,
    attributes: erasureMark(id, null),
  })
  if (!outcome.ok) throw refusalError(timeline, outcome)
  const what = `entries ${lost.map(({ from, to }) => (from === to ? `${from}` : `${from} to ${to}`)).join(', ')} were ${why}`
  kernel.events.emit('report', { kind: 'repair', timeline, what, data: { by, reason, lost } })
  return id
}

async function refusalOf(kernel: Kernel, timeline: TimelineId, { lost, runs }: Plan): Promise<string | null> {
  const from = runs[0]!.first
  const head = await existing(kernel, timeline)
  const below = `continue from before the damage instead: reprise fork ${timeline}@${from - 1} NEW`
  const model = kernel.models.find(timeline)
  if (!model?.fold) return unknownDefinition
  if (!model.entries || model.fold.authority === 'state') return `a ${model.kind} needs all of its entries: ${below}`
  if (head.owner !== null && head.isOwnerAlive) {
    return `${head.owner} has it open, and may hold the lost entries in memory: wait for its next checkpoint, or stop it first`
  }
  const last = lost.at(-1)?.to ?? lastSeq(runs.at(-1)!)
  const above = (await kernel.store.checkpoints(timeline)).filter((record) => record.seq >= from)
  if (above.some((record) => record.seq >= last && record.invalid === null && record.verifiedAt !== null)) {
    return 'a checkpoint above the damage contains the state: nothing is lost, and recovery starts from there'
  }
  if (above.length > 0)
    return `checkpoints contain part of the lost data (${above.map((record) => record.id).join(', ')}): ${below}`
  const forks = (await forksOf(kernel, timeline)).filter(({ base }) => base && base.seq >= from)
  if (forks.length > 0) return `forks also read it: ${forks.map((fork) => fork.timeline).join(', ')}; ${below}`
  try {
    await recover(imagined(kernel, timeline, runs), head, model.fold)
    return null
  } catch (error) {
    if (!isReprise(error)) throw error
    return `the remaining entries do not fold (${error.message}): handle them in \`erased\`, or ${below}`
  }
}

/** The store as it will be. */
function imagined(kernel: Kernel, timeline: TimelineId, runs: readonly EntryRun[]): Kernel {
  const { store } = kernel
  const made = forwardStore(store, {
    async read(id, after, bytesMax) {
      if (id !== timeline) return await store.read(id, after, bytesMax)
      const next = runs.find((run) => lastSeq(run) > after)
      if (next && next.first <= after + 1) return [next]
      const found = await store.read(id, after, next ? 1 : bytesMax)
      return next ? found.filter((run) => run.first < next.first) : found
    },
  })
  supposeErased(
    made,
    runs.map((run) => checkIn(run.bytes)),
  )
  return { ...kernel, store: made }
}

/** The unreadable parts of the timeline's own history, and their replacements. Changes nothing. */
async function plan(kernel: Kernel, head: Head): Promise<Plan> {
  const lost: { from: number; to: number }[] = []
  const runs: EntryRun[] = []
  let at: Place = { ...ownStart(head), epoch: 1, time: head.createdAt }
  while (at.seq < head.seq) {
    const sound = await soundRuns(kernel, head, at)
    if (sound.length > 0) {
      at = placeAfter(sound.at(-1)!)
      continue
    }
    const legible = await legibleAfter(kernel, head, at)
    for (const next of legible) {
      if (next.first > at.seq + 1) at = lose(kernel, at, next.first - 1, null, lost, runs)
      if (next.isSound && kernel.sealer.keyId === null) {
        const run = reboundRun(kernel.hash, next, at.digest, next.digest)
        runs.push(run)
        at = placeAfter(run)
      } else at = lose(kernel, at, next.first + next.count - 1, next.digest, lost, runs)
    }
    const last = legible.at(-1)
    if (!last || last.digest === null) at = lose(kernel, at, head.seq, head.digest, lost, runs)
  }
  return { lost, runs }
}

interface Place {
  readonly seq: number
  readonly digest: Digest
  readonly epoch: number
  readonly time: number
}

function placeAfter(run: EntryRun): Place {
  const { epoch } = readStart(run.bytes)
  return { seq: lastSeq(run), digest: run.digest, epoch, time: unpackEntries(run).at(-1)!.time }
}

function lose(
  kernel: Kernel,
  at: Place,
  to: number,
  after: Digest | null,
  lost: { from: number; to: number }[],
  runs: EntryRun[],
): Place {
  const { hash, sealer, codec } = kernel
  const first = at.seq + 1
  if (to < first) return at
  const data = codec.encode({ type: lostType, version: 1 })
  const entry = { type: erasedType, version: 1, time: at.time, key: undefined, data }
  const drafts = Array.from({ length: to - at.seq }, (_, i) => sealEntry(sealer, entry, at.digest, i))
  const run = lostRun(hash, { before: at.digest, first, epoch: at.epoch, time: at.time }, drafts, after)
  runs.push(run)
  const before = lost.at(-1)
  if (before?.to === first - 1) before.to = to
  else lost.push({ from: first, to })
  return { ...at, seq: to, digest: run.digest }
}

/** The readable runs after the damage, up to the first whose digest is known. */
async function legibleAfter(kernel: Kernel, head: Head, at: Place): Promise<readonly LegibleRun[]> {
  const { store, hash } = kernel
  const { salvage } = store.upkeep
  if (salvage) return await salvage.legible(head.timeline, at.seq)
  const found = (await store.read(head.timeline, at.seq, pageBytes)).filter(({ first }) => first <= head.seq)
  // A run whose successor follows from its digest is trusted; nothing else proves that a run is intact.
  const end = found.findIndex((run, i) => {
    const next = found[i + 1]
    if (!next) return lastSeq(run) === head.seq && equalBytes(run.digest, head.digest)
    try {
      verifyEntries(hash, head.timeline, next, { seq: lastSeq(run), digest: run.digest })
      return true
    } catch (error) {
      if (!isReprise(error)) throw error
      return false
    }
  })
  if (end < 0) return []
  return found.slice(0, end + 1).map((run, i) => ({ ...run, digest: i === end ? run.digest : null, isSound: false }))
}
