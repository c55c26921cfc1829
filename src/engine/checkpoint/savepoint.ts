// Savepoints: checkpoints that a person requested, kept until released. Taken through the open handle if there is one
// at that coordinate; otherwise the state is recovered separately and published under the epoch that was read.

import { encodeManifest } from '../../core/checkpoint/manifest.ts'
import { type Coordinate, type ManifestId, timelineId, toHex } from '../../core/coordinate.ts'
import { isReprise, isSignal, RepriseError } from '../../core/errors.ts'
import { epochGuardOf } from '../../core/store/commit-guard.ts'
import type { Commit, ManifestRecord } from '../../core/store/ports.ts'
import { refusalError } from '../base/refusal-error.ts'
import { existing, type Located, locate, type TimelinePoint } from '../history/locate.ts'
import { recover } from '../history/recover.ts'
import { retryWithFreshHead } from '../history/retry-with-fresh-head.ts'
import type { CapturedParts } from '../history/state.ts'
import { refuseInvalid } from '../history/validity.ts'
import type { Fold } from '../model/definition.ts'
import { captureState, writeCapture } from '../snapshot/capture.ts'
import { stateIo } from '../snapshot/kernel-io.ts'
import { verifyChunks } from '../snapshot/restore.ts'
import { ChunkHold } from '../storage/chunk-hold.ts'
import { type Kernel, newId, submit } from '../storage/kernel.ts'

export interface SavepointOptions {
  readonly label?: string
  /** Chosen by the caller, so that the catalog can be searched for it. Throws EXISTS if it is taken. */
  readonly id?: string
}

export interface Savepoint {
  readonly id: string
  readonly coordinate: Coordinate
  readonly label: string | null
  readonly bytes: number
}

export async function savepointAside(
  kernel: Kernel,
  where: TimelinePoint,
  fold: Fold<unknown>,
  options: SavepointOptions,
): Promise<Savepoint> {
  if (fold.authority !== 'state') return await checkpointAside(kernel, where, fold, { ...options, pin: true })
  await kernel.worker.register()
  return await pinState(kernel, where, fold, options)
}

/** The same without a pin, for an unrequested savepoint: retention removes it like any other checkpoint. */
export async function checkpointAside(
  kernel: Kernel,
  where: TimelinePoint,
  fold: Fold<unknown>,
  options: SavepointOptions & { readonly pin: boolean },
): Promise<Savepoint> {
  await kernel.worker.register()
  const { head, point, state } = await retryWithFreshHead(async () => {
    const located = await locate(kernel, where)
    const recovered = await recover(kernel, located.head, fold, { to: located.point.seq })
    return { ...located, state: recovered.state }
  })
  refuseInvalid(kernel, fold, state.value, { timeline: head.timeline, seq: point.seq })
  return await publishParts(kernel, { head, point }, state.parts(), {
    ...options,
    foldVersion: fold.version,
    trigger: 'savepoint',
  })
}

/** How a separately captured state is published. */
export interface AsideOptions extends SavepointOptions {
  readonly foldVersion: string
  readonly trigger: string
  readonly pin: boolean
}

/** Publishes these parts as the state at that point, under the epoch of the head that was read: FENCED if it has moved. */
export async function publishParts(
  kernel: Kernel,
  at: Pick<Located, 'head' | 'point'>,
  parts: CapturedParts,
  options: AsideOptions,
): Promise<Savepoint> {
  for (let attempt = 1; ; attempt++) {
    const hold = await ChunkHold.begin(kernel)
    try {
      return await publishUnder(hold, kernel, at, parts, options)
    } catch (error) {
      if (!isSignal(error, 'SWEPT') || attempt > 1) throw error
    } finally {
      hold.end()
    }
  }
}

/** With authority "state" there is nothing to rebuild: the existing checkpoint is pinned. */
async function pinState(
  kernel: Kernel,
  where: TimelinePoint,
  fold: Fold<unknown>,
  options: SavepointOptions,
): Promise<Savepoint> {
  const { head, recovered } = await retryWithFreshHead(async () => {
    const located = await locate(kernel, where)
    return { head: located.head, recovered: await recover(kernel, located.head, fold, { to: located.point.seq }) }
  })
  const { checkpoint } = recovered.report
  const record = (await kernel.store.checkpoints(head.timeline)).find(({ id }) => id === checkpoint?.id)
  if (!record)
    throw new RepriseError('NOT_FOUND', `${head.timeline} has no checkpoint yet`, { timeline: head.timeline })
  const outcome = await submit(kernel, {
    guard: epochGuardOf(head),
    aside: true,
    marks: [{ id: record.id, isPinned: true, ...(options.label !== undefined && { label: options.label }) }],
  })
  if (!outcome.ok) throw refusalError(head.timeline, outcome)
  const coordinate = { timeline: head.timeline, seq: record.seq, epoch: record.epoch, digest: toHex(record.digest) }
  return { id: record.id, coordinate, label: options.label ?? record.label, bytes: record.totalBytes }
}

async function publishUnder(
  hold: ChunkHold,
  kernel: Kernel,
  { head, point }: Pick<Located, 'head' | 'point'>,
  parts: CapturedParts,
  options: AsideOptions,
): Promise<Savepoint> {
  const io = stateIo(kernel, hold)
  const written = await writeCapture(captureState(parts, null, io), io)
  const manifest = {
    timeline: head.timeline,
    seq: point.seq,
    epoch: head.epoch,
    digest: point.digest,
    foldVersion: options.foldVersion,
    parts: written.parts,
  }
  const body = encodeManifest(manifest)
  const at = kernel.worker.now()
  const record: ManifestRecord = {
    id: (options.id ?? newId(kernel.random)) as ManifestId,
    seq: point.seq,
    epoch: head.epoch,
    digest: point.digest,
    body,
    bodyDigest: kernel.hash(body),
    baseId: null,
    createdAt: at,
    trigger: options.trigger,
    label: options.label ?? null,
    isPinned: options.pin,
    foldVersion: options.foldVersion,
    totalBytes: written.totalBytes,
    addedBytes: written.addedBytes,
    verifiedAt: null,
    invalid: null,
    drilledAt: null,
    drill: null,
  }
  const guard = epochGuardOf(head)
  const commit = async (part: Pick<Commit, 'publish' | 'marks'>) => {
    const outcome = await submit(kernel, {
      guard,
      aside: true,
      ...part,
    })
    if (!outcome.ok) throw refusalError(head.timeline, outcome)
  }
  await hold.publish(written.addedChunks, (chunksSince) => commit({ publish: [{ ...record, chunksSince }] }))
  try {
    await verifyChunks(manifest, io)
  } catch (error) {
    // The caller gets the error, so nothing is kept; a store that does not answer proves nothing about the chunks.
    const isDamaged = isReprise(error) && error.remedy !== 'retry'
    const mark = { id: record.id, isPinned: false, ...(isDamaged && { invalid: error.message }) }
    await commit({ marks: [mark] }).catch(() => undefined)
    throw error
  }
  // Only after the publication: unreferenced chunks may be swept between a check and a publication.
  await commit({ marks: [{ id: record.id, verifiedAt: kernel.worker.now() }] })
  const coordinate = { timeline: head.timeline, seq: point.seq, epoch: head.epoch, digest: toHex(point.digest) }
  return { id: record.id, coordinate, label: record.label, bytes: record.totalBytes }
}

/** A released savepoint becomes an ordinary checkpoint, subject to retention. */
export async function releaseSavepoint(kernel: Kernel, timeline: string, id: string): Promise<void> {
  const head = await existing(kernel, timelineId(timeline))
  const record = (await kernel.store.checkpoints(head.timeline)).find((each) => each.id === id)
  if (!record?.isPinned) throw new RepriseError('NOT_FOUND', `${timeline} has no savepoint ${id}`, { timeline, id })
  const outcome = await submit(kernel, {
    guard: epochGuardOf(head),
    aside: true,
    marks: [{ id: record.id, isPinned: false }],
  })
  if (!outcome.ok) throw refusalError(head.timeline, outcome)
}
