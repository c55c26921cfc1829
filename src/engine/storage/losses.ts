// Losses: data that a repair could not restore. Each is recorded in the store until a person gives it up; until then verify,
// doctor, `changes` and the events of an application that opens the store name it. A store that rewrites its files records a
// loss in the new file (Salvage.losses); the notes here are a second copy of it, and the only one where there are no files.
//
//   $loss:ID, an attribute of `reprise/store` = JSON of { at, kept, lost, left }

import { timelineId } from '../../core/coordinate.ts'
import { isReprise, RepriseError } from '../../core/errors.ts'
import type { LossRecord, StoreLoss } from '../../core/store/ports.ts'
import { type Kernel, newId } from './kernel.ts'
import { changeNotes } from './key-notes.ts'

export interface AcceptLossOptions {
  /** The person who gives it up and the reason, for the record. */
  readonly by: string
  readonly reason: string
}

const prefix = '$loss:'
const noted = /^\$loss:(.+)$/
const storeTimeline = timelineId('reprise/store')
/** A note is one attribute: what does not fit is counted. */
const noteLengthMax = 1500
const reportAfterMs = 1000

/** Losses that were not given up, oldest first. */
export async function storeLosses(kernel: Pick<Kernel, 'store'>): Promise<LossRecord[]> {
  const all = new Map((await orNone(notedLosses(kernel))).map((loss) => [loss.id, loss]))
  for (const loss of await orNone(kernel.store.upkeep.salvage?.losses() ?? [])) {
    // A record that does not match its checksum has no time.
    if (loss.at > 0 || !all.has(loss.id)) all.set(loss.id, loss)
  }
  return [...all.values()].sort((a, b) => a.at - b.at)
}

/** The place that has them is damaged itself: that is a separate fault, which verify reports. */
async function orNone(losses: readonly LossRecord[] | Promise<readonly LossRecord[]>): Promise<readonly LossRecord[]> {
  try {
    return await losses
  } catch (error) {
    if (!isReprise(error, 'STORE_DAMAGED')) throw error
    return []
  }
}

async function notedLosses({ store }: Pick<Kernel, 'store'>): Promise<LossRecord[]> {
  const [head] = await store.head([storeTimeline])
  return Object.entries(head?.attributes ?? {}).flatMap(([name, text]) => {
    const id = noted.exec(name)?.[1]
    if (id === undefined || typeof text !== 'string') return []
    const { at, kept, lost, left } = JSON.parse(text) as Omit<LossRecord, 'id'> & { readonly left: number }
    return [{ id, at, kept, lost: left > 0 ? [...lost, more(left)] : lost }]
  })
}

function more(left: number): StoreLoss {
  return { timeline: null, where: 'store', what: `${left} more losses that are not listed here` }
}

/** At the end of a repair: records its losses, and those that the store recorded. */
export async function noteLosses(kernel: Kernel, lost: readonly StoreLoss[]): Promise<void> {
  const own = { id: `loss-${newId(kernel.random).slice(0, 8)}`, at: kernel.worker.now(), kept: null, lost }
  await copyLosses(kernel, [...(await storeLosses(kernel)), ...(lost.length > 0 ? [own] : [])])
}

/** After a backup or a repair: losses without a note get one. */
export async function copyLosses(kernel: Kernel, losses: readonly LossRecord[]): Promise<void> {
  if (losses.length === 0) return
  const known = new Set((await notedLosses(kernel)).map(({ id }) => id))
  const missing = losses.filter(({ id }) => !known.has(id))
  if (missing.length === 0) return
  await changeNotes(kernel, Object.fromEntries(missing.map((loss) => [prefix + loss.id, noteOf(loss)])))
}

/** Removes the notes of losses from an abandoned restore: all except `kept`. */
export async function dropLosses(kernel: Kernel, kept: ReadonlySet<string>): Promise<void> {
  const brought = (await notedLosses(kernel)).filter(({ id }) => !kept.has(id))
  if (brought.length === 0) return
  await changeNotes(kernel, Object.fromEntries(brought.map(({ id }) => [prefix + id, null])))
}

function noteOf({ at, kept, lost }: LossRecord): string {
  for (let named = lost.length; ; named = Math.floor(named / 2)) {
    const text = JSON.stringify({ at, kept, lost: lost.slice(0, named), left: lost.length - named })
    if (text.length <= noteLengthMax || named === 0) return text
  }
}

/** A person accepts a loss: it is no longer reported, and the log records the person. Throws NOT_FOUND, INVALID_ARGUMENT. */
export async function acceptLoss(kernel: Kernel, id: string, { by, reason }: AcceptLossOptions): Promise<LossRecord> {
  for (const [name, value] of Object.entries({ by, reason })) {
    if (typeof value === 'string' && value.trim() !== '') continue
    throw new RepriseError('INVALID_ARGUMENT', `${name} is required: it is recorded in the log of the store`, { id })
  }
  const loss = (await storeLosses(kernel)).find((each) => each.id === id)
  if (!loss)
    throw new RepriseError('NOT_FOUND', `there is no loss ${id}`, { id }, undefined, 'reprise changes lists them.')
  // Interrupted between the two, it is still listed.
  await changeNotes(kernel, { [prefix + id]: null })
  await kernel.store.upkeep.salvage?.losses(id)
  const what = `a loss was accepted by ${by}: ${reason}; ${lossWords(loss)}`
  kernel.events.emit('report', { kind: 'repair', timeline: null, what, data: { by, reason, loss } })
  return loss
}

/** The losses of these timelines. A loss of an unknown timeline may concern each. */
export function lossesOf(losses: readonly LossRecord[], timelines: readonly string[] | undefined): LossRecord[] {
  if (timelines === undefined) return [...losses]
  return losses.filter(({ lost }) => lost.some(({ timeline }) => timeline !== null && timelines.includes(timeline)))
}

/** @example lossWords(loss) // 'the repair of 2026-01-31T12:00:00.000Z lost: notes/a log: its history ends at 15; …' */
export function lossWords({ at, kept, lost }: LossRecord): string {
  const each = lost.slice(0, 3).map(({ timeline, where, what }) => `${timeline ?? ''} ${where}: ${what}`.trim())
  const rest = lost.length > 3 ? `; and ${lost.length - 3} more` : ''
  const old = kept === null ? '' : ` (the damaged file is ${kept})`
  const when = at > 0 ? `the repair of ${new Date(at).toISOString()}` : 'an earlier repair'
  return `${when} lost: ${each.join('; ')}${rest}${old}`
}

export function lossError(loss: LossRecord, timeline: string | null = null): RepriseError {
  const { id, at, lost } = loss
  const own = timeline === null ? lost : lost.filter((each) => each.timeline === timeline)
  return new RepriseError('DATA_LOST', lossWords({ ...loss, lost: own }), { id, at, timeline, lost: own })
}

/**
 * For open(): reports losses soon after, and again when the application opens an affected timeline. The store opens all the
 * same. Returns a function that stops it.
 */
export async function watchLosses(kernel: Kernel): Promise<() => void> {
  const losses = await storeLosses(kernel)
  if (losses.length === 0) return () => undefined
  const { events, clock } = kernel
  const cancel = clock.after(reportAfterMs, () => {
    for (const loss of losses) events.emit('problem', { where: 'store', error: lossError(loss) })
  })
  const off = events.on('recovered', ({ timeline }) => {
    for (const loss of lossesOf(losses, [timeline])) {
      events.emit('problem', { where: timeline, error: lossError(loss, timeline) })
    }
  })
  return () => {
    cancel()
    off()
  }
}
