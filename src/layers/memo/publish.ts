// Publishes a computed result as an entry: written in chunks, read back, and made visible in one commit that also releases
// the timeline. A result that cannot be stored is still returned to the caller: a failing cache must not fail the work.

import type { TimelineId } from '../../core/coordinate.ts'
import { isReprise, isSignal, RepriseError } from '../../core/errors.ts'
import type { ByteSource } from '../../engine/checkpoint/chunk-writer.ts'
import { ChunkHold } from '../../engine/storage/chunk-hold.ts'
import type { Kernel } from '../../engine/storage/kernel.ts'
import { usedAttribute } from '../../engine/tools/cache/uses.ts'
import type { StateTimeline } from '../../engine/writing/state-timeline.ts'
import { readValue, removeRotten, writeValue } from '../../engine/writing/stored-value.ts'
import { type Envelope, foldVersion, type Remembered } from './entry.ts'

export interface Computed {
  readonly id: TimelineId
  readonly envelope: () => Envelope
  /** The stream of the result; its bytes are in the store afterwards. */
  readonly source: ByteSource | null
  /** The source can be read only once. */
  readonly isReadOnce: boolean
  /** True if all inputs still match the key. */
  readonly isSteady: () => Promise<boolean>
  /** Called with the reason if the result was not stored. */
  readonly problem: (error: unknown) => void
}

export interface Published extends Remembered {
  readonly isStored: boolean
}

const attemptsMax = 3

export async function publishEntry(kernel: Kernel, taken: StateTimeline, computed: Computed): Promise<Published> {
  const { id, isReadOnce, problem } = computed
  for (let attempt = 1; ; attempt++) {
    try {
      return await publishOnce(kernel, taken, computed)
    } catch (error) {
      // A stream that was already read cannot be returned or retried.
      if (isReadOnce) throw error
      const isGone = isSignal(error, 'SWEPT') || isReprise(error, 'CHUNK_DAMAGED', 'CHUNK_MISSING')
      if (isGone && attempt < attemptsMax) {
        await removeRotten(kernel, error)
        continue
      }
      if (isReprise(error, 'UNSERIALIZABLE', 'LIMIT_EXCEEDED')) {
        const what = `the result of ${id} cannot be kept: ${error.message}`
        throw new RepriseError(error.code, what, { ...error.data }, error)
      }
      problem(error)
      return { timeline: id, record: null, envelope: computed.envelope(), stream: null, isStored: false }
    }
  }
}

async function publishOnce(kernel: Kernel, taken: StateTimeline, computed: Computed): Promise<Published> {
  const { id, source, isSteady, problem } = computed
  const hold = await ChunkHold.begin(kernel)
  try {
    const envelope = computed.envelope()
    const written = await writeValue(kernel, hold, source, () => envelope)
    if (!(await isSteady())) {
      const what = `${id}: its inputs changed while it was computed, so no result is kept`
      problem(new RepriseError('CONFLICT', what, { timeline: id }))
      const stream = written.parts.find(({ kind }) => kind === 'stream')
      // The chunks exist until they are collected; the hold protects them only while this process reads.
      return {
        timeline: id,
        record: null,
        envelope,
        stream: stream?.kind === 'stream' ? stream.content : null,
        isStored: false,
      }
    }
    const record = await taken.publish({
      entry: { type: 'computed', data: { bytes: written.totalBytes, tookMs: envelope.tookMs } },
      ...written,
      foldVersion,
      baseId: null,
      trigger: 'memo',
      extras: { attributes: { [usedAttribute]: kernel.clock.now(), args: envelope.parts.args.slice(0, 16) } },
    })
    await taken.retain({ checkpoints: 1, history: 'needed' }, foldVersion)
    const { stream } = source ? await readValue(kernel, record) : { stream: null }
    return { timeline: id, record, envelope, stream, isStored: true }
  } finally {
    hold.end()
  }
}
