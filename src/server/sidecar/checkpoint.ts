// Checkpoints of programs in other languages: the program's state, stored with the sequence it reflects and returned with it.
// The dedupe keys up to there are included, so that opening the timeline again reads only later entries.

import { isDeepStrictEqual } from 'node:util'
import { type Coordinate, type TimelineId, toHex } from '../../core/coordinate.ts'
import { isReprise, RepriseError } from '../../core/errors.ts'
import type { ManifestRecord } from '../../core/store/ports.ts'
import type { Reprise } from '../../engine/api/reprise.ts'
import { refusalError } from '../../engine/base/refusal-error.ts'
import { publishParts } from '../../engine/checkpoint/savepoint.ts'
import { existing, locate } from '../../engine/history/locate.ts'
import { recover } from '../../engine/history/recover.ts'
import { retryWithFreshHead } from '../../engine/history/retry-with-fresh-head.ts'
import { type Host, hostOf } from '../../engine/host/host.ts'
import { foldOf, type Put, sidecarFold } from './fold.ts'

const attemptsMax = 10

export interface PutRequest {
  readonly seq: number
  /** Digest of history up to there: another branch is refused with NOT_ON_BRANCH. */
  readonly digest?: string
  readonly epoch?: number
  /** Number of these checkpoints to keep; older ones are removed. */
  readonly keep: number
  /** A repeated request with the same id stores the checkpoint once. */
  readonly id?: string
}

export interface PutCheckpoint {
  readonly id: string
  readonly coordinate: Coordinate
  readonly bytes: number
  /** The checkpoint was stored before, under the same key. */
  readonly isDuplicate: boolean
}

export async function putCheckpoint(
  engine: Reprise,
  timeline: TimelineId,
  put: Put,
  request: PutRequest,
): Promise<PutCheckpoint> {
  if (foldOf(engine, timeline) !== sidecarFold) {
    const what = `the state of ${timeline} is folded by its definition, which makes its own checkpoints`
    throw new RepriseError('INVALID_ARGUMENT', what, { timeline })
  }
  const known = await find(engine, timeline, request.id)
  if (known) return await repeated(engine, timeline, put, request, known)
  for (let attempt = 1; ; attempt++) {
    try {
      const made = await publish(engine, timeline, put, request)
      await dropOlder(hostOf(engine), timeline, request.keep)
      return made
    } catch (error) {
      // A concurrent request with the same key finished first.
      const made = isReprise(error, 'EXISTS') ? await find(engine, timeline, request.id) : null
      if (made) return await repeated(engine, timeline, put, request, made)
      // Without a lease, other writers may commit in between under their own epoch; the captured state is still valid.
      if (!isReprise(error, 'FENCED') || request.epoch !== undefined || attempt >= attemptsMax) throw error
    }
  }
}

/** KEY_REUSED: a different checkpoint was stored under this key. */
async function repeated(
  engine: Reprise,
  timeline: TimelineId,
  put: Put,
  { seq }: PutRequest,
  known: PutCheckpoint,
): Promise<PutCheckpoint> {
  const { id, coordinate } = known
  const found = await getCheckpoint(engine, timeline, coordinate.seq).catch(() => null)
  // Another checkpoint of the same sequence may be the newest one, or this one is damaged: then only the sequence is
  // compared.
  const isSame = coordinate.seq === seq && (found?.id !== id || isDeepStrictEqual(plainPut(found.put), plainPut(put)))
  if (isSame) return known
  throw new RepriseError('KEY_REUSED', 'this Idempotency-Key was used for another checkpoint', { timeline })
}

function plainPut(put: Put): unknown {
  return put.kind === 'bytes' ? { ...put, bytes: Buffer.from(put.bytes).toString('base64') } : put
}

async function publish(
  engine: Reprise,
  timeline: TimelineId,
  put: Put,
  { seq, digest, epoch, id }: PutRequest,
): Promise<PutCheckpoint> {
  const { kernel } = hostOf(engine)
  const { head, point, state } = await retryWithFreshHead(async () => {
    const where = digest === undefined ? { timeline, seq } : { timeline, seq, epoch: epoch ?? 0, digest }
    const located = await locate(kernel, where)
    if (located.head.timeline !== timeline) {
      throw new RepriseError('NOT_ON_BRANCH', `${timeline}@${seq} was rolled back`, { timeline, seq })
    }
    const recovered = await recover(kernel, located.head, sidecarFold, { to: located.point.seq })
    return { ...located, state: recovered.state }
  })
  if (epoch !== undefined && head.epoch !== epoch) {
    throw new RepriseError('FENCED', `${timeline} is at epoch ${head.epoch}, not ${epoch}`, { timeline, epoch })
  }
  const parts = { ...state.parts(), value: put }
  const { label: _, ...made } = await publishParts(kernel, { head, point }, parts, {
    foldVersion: sidecarFold.version,
    trigger: 'put',
    pin: false,
    ...(id !== undefined && { id }),
  })
  return { ...made, isDuplicate: false }
}

export interface GotCheckpoint {
  readonly id: string
  readonly coordinate: Coordinate
  readonly createdAt: number
  readonly put: Put
}

/** The newest intact checkpoint at or below a sequence: a damaged one is skipped. NOT_FOUND if there is none. */
export async function getCheckpoint(engine: Reprise, timeline: TimelineId, seq?: number): Promise<GotCheckpoint> {
  const { kernel } = hostOf(engine)
  return await retryWithFreshHead(async () => {
    const { head, point } = await locate(kernel, { timeline, seq: seq ?? (await existing(kernel, timeline)).seq })
    const { state, report } = await recover(kernel, head, sidecarFold, { to: point.seq })
    const record = (await kernel.store.checkpoints(timeline)).find(({ id }) => id === report.checkpoint?.id)
    if (!record || state.value === null) {
      throw new RepriseError('NOT_FOUND', `${timeline} has no checkpoint`, { timeline })
    }
    return { id: record.id, coordinate: coordinateOf(timeline, record), createdAt: record.createdAt, put: state.value }
  })
}

async function find(engine: Reprise, timeline: TimelineId, id: string | undefined): Promise<PutCheckpoint | null> {
  if (id === undefined) return null
  const record = (await hostOf(engine).catalogOf(timeline)).find((each) => each.id === id)
  return record ? { id, coordinate: coordinateOf(timeline, record), bytes: record.totalBytes, isDuplicate: true } : null
}

function coordinateOf(timeline: string, { seq, epoch, digest }: ManifestRecord): Coordinate {
  return { timeline, seq, epoch, digest: toHex(digest) }
}

async function dropOlder(host: Host, timeline: TimelineId, keep: number): Promise<void> {
  const { epoch } = await host.existing(timeline)
  const own = (await host.catalogOf(timeline)).filter(({ foldVersion, isPinned }) => {
    return foldVersion === sidecarFold.version && !isPinned
  })
  const drop = own.slice(keep).map(({ id }) => id)
  if (drop.length === 0) return
  const outcome = await host.commit({ guard: { timeline, epoch }, drop })
  // Another writer committed, or a checkpoint is pinned: the next put removes it.
  if (!outcome.ok && outcome.code !== 'FENCED' && outcome.code !== 'PINNED') throw refusalError(timeline, outcome)
}
