// An upload in the store: its newest intact checkpoint. If it is damaged, the previous checkpoint is used, which has fewer
// bytes: the client sees the lower offset at its next request, and sends the rest again.

import type { Part } from '../../core/checkpoint/manifest.ts'
import type { TimelineId } from '../../core/coordinate.ts'
import { isReprise, RepriseError } from '../../core/errors.ts'
import type { ManifestRecord } from '../../core/store/ports.ts'
import { readManifest } from '../../engine/history/recover.ts'
import { stateIo } from '../../engine/snapshot/kernel-io.ts'
import { ChunkInput } from '../../engine/snapshot/restore-input.ts'
import type { Kernel } from '../../engine/storage/kernel.ts'
import { type Cut, GrowingStream } from '../../engine/writing/growing-stream.ts'
import type { UploadState } from './rules/state.ts'

export const foldVersion = 'upload/1'

/** The value of a checkpoint, beside the bytes. */
export interface StoredState extends UploadState {
  readonly cut: Cut
}

/** Earlier versions stored the status 'ended' for a removed upload. */
export function currentState(stored: StoredState): StoredState {
  return (stored.status as string) === 'ended' ? { ...stored, status: 'removed' } : stored
}

export interface StoredUpload {
  readonly timeline: TimelineId
  readonly record: ManifestRecord
  readonly state: StoredState
  readonly parts: readonly Part[]
}

const damageCodes = ['CHUNK_MISSING', 'CHUNK_DAMAGED', 'CHECKPOINT_DAMAGED', 'MALFORMED'] as const
/** Maximum number of reads while a writer publishes new checkpoints. */
const looksMax = 10

/** Null: no such upload. */
export async function loadUpload(kernel: Kernel, timeline: TimelineId): Promise<StoredUpload | null> {
  return (
    (await newest(
      kernel,
      timeline,
      (stored) => Promise.resolve(stored),
      () => undefined,
    )) ?? null
  )
}

/** The same, with its stream ready to be extended. `onDamage` is called for skipped checkpoints. */
export async function resumeUpload(
  kernel: Kernel,
  timeline: TimelineId,
  onDamage: (record: ManifestRecord, why: string) => void,
): Promise<{ readonly stored: StoredUpload; readonly stream: GrowingStream } | null> {
  const resume = async (stored: StoredUpload) => {
    const isGone = stored.state.status === 'removed'
    const stream = isGone
      ? GrowingStream.empty()
      : await GrowingStream.resume(stored.parts, stored.state.cut, stateIo(kernel))
    return { stored, stream }
  }
  return (await newest(kernel, timeline, resume, onDamage)) ?? null
}

async function newest<T>(
  kernel: Kernel,
  timeline: TimelineId,
  use: (stored: StoredUpload) => Promise<T>,
  onDamage: (record: ManifestRecord, why: string) => void,
): Promise<T | undefined> {
  for (let look = 1; ; look++) {
    const records = await kernel.store.checkpoints(timeline)
    if (records.length === 0) return undefined
    const found = await firstSound(kernel, timeline, records, use, (record, why) => {
      if (look > 1) onDamage(record, why)
    })
    if (found !== undefined) return found
    // A newer checkpoint may have replaced them during the read.
    if (look < looksMax && (await kernel.store.checkpoints(timeline))[0]?.id !== records[0]!.id) continue
    if (look === 1) continue
    const what = `every checkpoint of ${timeline} is damaged`
    throw new RepriseError('UNRECOVERABLE', what, { timeline })
  }
}

async function firstSound<T>(
  kernel: Kernel,
  timeline: TimelineId,
  records: readonly ManifestRecord[],
  use: (stored: StoredUpload) => Promise<T>,
  onDamage: (record: ManifestRecord, why: string) => void,
): Promise<T | undefined> {
  for (const record of records) {
    if (record.invalid !== null || record.foldVersion !== foldVersion) continue
    try {
      return await use(await readStored(kernel, timeline, record))
    } catch (error) {
      if (!isReprise(error, ...damageCodes)) throw error
      kernel.events.emit('checkpoint-damaged', { timeline, id: record.id, reason: error.message })
      onDamage(record, error.message)
    }
  }
  return undefined
}

export async function readStored(kernel: Kernel, timeline: TimelineId, record: ManifestRecord): Promise<StoredUpload> {
  const { parts } = readManifest(kernel, record)
  const main = parts.find(({ name }) => name === null)
  if (main?.kind !== 'value') throw new RepriseError('CHECKPOINT_DAMAGED', `checkpoint ${record.id} has no value`)
  const { plain } = await new ChunkInput(stateIo(kernel)).readContent(main.content, null)
  const { value } = kernel.codec.decode(plain) as { readonly value: StoredState }
  return { timeline, record, state: currentState(value), parts }
}
