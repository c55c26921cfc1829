// Chooses the checkpoint from which a run begins: the newest, or the requested one. An automatic fallback to an older
// checkpoint would deliver records to sinks twice, so an unreadable newest checkpoint is an error that names the choices.

import { RepriseError } from '../../../core/errors.ts'
import { isBadMark } from '../../../core/history/validity.ts'
import type { ManifestRecord } from '../../../core/store/ports.ts'
import { isDamage } from '../../../engine/history/recover.ts'
import type { Kernel } from '../../../engine/storage/kernel.ts'
import type { StateTimeline } from '../../../engine/writing/state-timeline.ts'
import type { CheckpointBase } from './checkpoint-writer.ts'
import { type Flow, lettersOperator } from './flow.ts'
import type { PipelineOptions } from './options.ts'
import { readHeader, readTables } from './restore.ts'
import { emptyState, type PipelineState } from './state.ts'

export interface Candidate {
  readonly record: ManifestRecord
  readonly state: PipelineState
}

/** Null: there is no checkpoint yet. */
export async function chooseCheckpoint(
  kernel: Kernel,
  taken: StateTimeline,
  from: NonNullable<PipelineOptions['from']> | null,
): Promise<Candidate | null> {
  const records = await taken.records()
  const record = from === null ? records[0] : requestedCheckpoint(taken, records, from)
  if (!record) {
    if (taken.head.seq === 0) return null
    throw unusable(taken, 'its checkpoints no longer exist', [])
  }
  const others = records.filter((each) => each !== record)
  const [head] = await kernel.store.head([taken.id])
  const isForked = head?.base?.seq === taken.head.seq
  if (from === null && record.seq !== taken.head.seq && !isForked) {
    throw unusable(taken, `the newest checkpoint, at ${taken.head.seq}, no longer exists`, records)
  }
  if (isBadMark(record.invalid)) throw unusable(taken, `checkpoint ${record.id} was marked: ${record.invalid}`, others)
  const state = await orUnusable(taken, record, others, () => readHeader(kernel, record))
  // Ids are never reused, not even after a run began from an older checkpoint.
  return { record, state: { ...state, checkpoint: Math.max(state.checkpoint, taken.head.seq) } }
}

function requestedCheckpoint(
  { id: timeline }: StateTimeline,
  records: readonly ManifestRecord[],
  from: NonNullable<PipelineOptions['from']>,
): ManifestRecord {
  if (typeof from === 'string') {
    const named = records.find(({ id }) => id === from)
    if (named) return named
    throw new RepriseError('NOT_FOUND', `${timeline} has no checkpoint ${from}`, { timeline, id: from })
  }
  const time = Number(from.time)
  // The list begins with the newest.
  const made = records.find(({ createdAt, invalid }) => createdAt <= time && !isBadMark(invalid))
  if (made) return made
  const oldest = records.at(-1)
  const since = oldest ? `the oldest one kept is of ${new Date(oldest.createdAt).toISOString()}` : 'it has none'
  const what = `${timeline} has no checkpoint of ${new Date(time).toISOString()} or before: ${since}`
  throw new RepriseError('NOT_FOUND', what, { timeline, time })
}

/** Fills the tables of the flow, and returns the base of the next checkpoint. */
export async function fillTables(
  kernel: Kernel,
  taken: StateTimeline,
  candidate: Candidate | null,
  flow: Flow,
  names: { readonly storedAs: (name: string) => string; readonly isKnown: (name: string) => boolean },
): Promise<{ readonly state: PipelineState; readonly base: CheckpointBase | null }> {
  if (!candidate) return { state: emptyState, base: null }
  const { record, state } = candidate
  const tables = flow.tables().filter(({ operator }) => operator === lettersOperator || names.isKnown(operator))
  const others = (await taken.records()).filter(({ id }) => id !== record.id)
  const read = await orUnusable(taken, record, others, () => readTables(kernel, record, state, tables, names.storedAs))
  flow.restored()
  if (record.invalid !== null) await taken.mark({ id: record.id, invalid: null })
  return { state, base: { id: record.id, tables: read.tables } }
}

/** True for the savepoint of a stop without a label: it is not needed once the next checkpoint exists. */
export function isLeftBy({ record, state }: Candidate): boolean {
  return state.stage === 'suspended' && record.isPinned && record.label === null
}

/** Marks a damaged checkpoint in the catalog, and throws an error with the possible remedies. */
async function orUnusable<T>(
  taken: StateTimeline,
  record: ManifestRecord,
  others: readonly ManifestRecord[],
  read: () => Promise<T>,
): Promise<T> {
  try {
    return await read()
  } catch (error) {
    if (!isDamage(error)) throw error
    await taken.mark({ id: record.id, invalid: error.message })
    throw unusable(taken, `checkpoint ${record.id} is damaged: ${error.message}`, others, error)
  }
}

function unusable(taken: StateTimeline, why: string, others: readonly ManifestRecord[], cause?: unknown): RepriseError {
  const sound = others.filter(({ invalid }) => invalid === null).map(({ id, seq }) => `${id} (at ${seq})`)
  const choice =
    sound.length > 0
      ? `run it with { from: ID } to continue from an older one; sinks then receive later records twice: ${sound.join(', ')}`
      : 'no older one is left: repair the store, or run it under another id from the beginning'
  const what = `${taken.id} cannot continue: ${why}; ${choice}`
  return new RepriseError('UNRECOVERABLE', what, { timeline: taken.id, checkpoints: others.map(({ id }) => id) }, cause)
}
