// Actions on an upload outside its protocol: a copy that shares its chunks, and another attempt at onComplete.

import { type TimelineId, timelineId, toHex } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import { isWithin } from '../../core/history/scope.ts'
import { readManifest } from '../../engine/history/recover.ts'
import { hostOf } from '../../engine/host/host.ts'
import { checkSameKind } from '../../engine/model/id-prefixes.ts'
import type { ActionReport, Target } from '../../engine/model/model.ts'
import { stateIo } from '../../engine/snapshot/kernel-io.ts'
import { liveChunks } from '../../engine/snapshot/restore.ts'
import { ChunkHold } from '../../engine/storage/chunk-hold.ts'
import type { Kernel } from '../../engine/storage/kernel.ts'
import { StateTimeline } from '../../engine/writing/state-timeline.ts'
import type { UploadEvent } from './rules/state.ts'
import { foldVersion, readStored } from './stored-upload.ts'
import { headOf, queueOf } from './upload-head.ts'
import { UploadWriter } from './writer.ts'

/** An independent copy: changes of one do not affect the other. */
export async function forkUpload({ engine, head }: Target, { seq, to }: { readonly seq: number; readonly to: string }) {
  const { kernel } = hostOf(engine)
  checkSameKind(head.timeline, to)
  if (!isWithin(`${queueOf(head.timeline)}/`, to)) {
    throw new RepriseError('INVALID_ARGUMENT', `a copy of ${head.timeline} must be below ${queueOf(head.timeline)}/`, {
      to,
    })
  }
  const record = (await kernel.store.checkpoints(head.timeline)).find(
    (each) => each.seq === seq && each.invalid === null,
  )
  if (!record) {
    const what = `no checkpoint of ${head.timeline} is at ${seq}: an upload can be copied only at a checkpoint`
    throw new RepriseError('OUT_OF_RANGE', what, { timeline: head.timeline, seq })
  }
  const { state } = await readStored(kernel, head.timeline, record)
  const made = await copyRecord(kernel, head.timeline, record, timelineId(to), headOf(state))
  return { ...made, parent: head.timeline }
}

async function copyRecord(
  kernel: Kernel,
  from: TimelineId,
  record: Parameters<typeof readManifest>[1],
  to: TimelineId,
  { status, wakeup, attributes }: ReturnType<typeof headOf>,
) {
  const { parts } = readManifest(kernel, record)
  const hold = await ChunkHold.begin(kernel)
  try {
    const chunks = await liveChunks({ parts }, stateIo(kernel))
    await hold.reuse(chunks)
    const taken = await StateTimeline.create(kernel, to)
    await taken.publish({
      entry: { type: 'forked', data: { from, seq: record.seq } },
      ...{
        parts,
        foldVersion,
        totalBytes: record.totalBytes,
        addedBytes: 0,
        addedChunks: [],
        reusedChunks: chunks,
        hold,
      },
      baseId: null,
      trigger: 'fork',
      extras: {
        ...{ status, attributes, queue: queueOf(to), release: true },
        wakeup: wakeup === 0 ? kernel.worker.now(to) : wakeup,
      },
    })
    const { seq, epoch, digest } = taken.head
    return { timeline: to, seq, epoch, digest: toHex(digest) }
  } finally {
    hold.end()
  }
}

/** Calls onComplete again, with a fresh set of attempts. */
export async function retryUpload({ engine, head }: Target): Promise<ActionReport> {
  const { kernel } = hostOf(engine)
  if (head.status !== 'failed') throw notFailed(head.timeline, head.status)
  const writer = await UploadWriter.take(kernel, head.timeline, { writers: 0 })
  if (!writer) throw new RepriseError('NOT_FOUND', `there is no upload ${head.timeline}`, {})
  try {
    if (writer.state.status !== 'failed') throw notFailed(head.timeline, writer.state.status)
    const events: UploadEvent[] = [{ type: 'retried' }]
    await writer.step({ events, release: true })
  } finally {
    await writer.close()
  }
  return { text: `onComplete of ${head.timeline} is called again`, facts: { timeline: head.timeline } }
}

function notFailed(timeline: string, status: string): RepriseError {
  return new RepriseError('CONFLICT', `${timeline} has not failed: it is ${status}`, { status })
}
