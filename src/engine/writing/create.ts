// Creates a timeline with its first entries, in one commit and without reading anything back: for layers that start
// many short ones. A second creation with the same id changes nothing and learns that the timeline exists.

import type { Digest, TimelineId } from '../../core/coordinate.ts'
import { originDigest, packEntries } from '../../core/history/entry-run.ts'
import type { Head, PastLife } from '../../core/store/ports.ts'
import { refusalError } from '../base/refusal-error.ts'
import { onRelease } from '../checkpoint/observed-failures.ts'
import { policyToStore } from '../checkpoint/stored-policy.ts'
import type { Entry } from '../history/history.ts'
import type { Recovered } from '../history/recover.ts'
import { guards, TimelineState } from '../history/state.ts'
import type { Fold } from '../model/definition.ts'
import { type Kernel, newOperation } from '../storage/kernel.ts'
import { sealEntry } from '../storage/seal/entries.ts'
import type { NewEntry } from './timeline.ts'
import type { CommitExtras } from './writer.ts'

/** Entries that contain the identity of the timeline (core/identity.ts) are made once its life is known. */
export type FirstEntries = readonly NewEntry[] | ((identity: string, life: number) => readonly NewEntry[])

export interface Created<State> {
  readonly head: Head
  readonly recovered: Recovered<State>
}

/**
 * `answer` is called with the new timeline; null: it exists already. Not an async function: runs start here, and async
 * functions cost promises.
 */
export function createTimeline<State, Result>(
  kernel: Kernel,
  id: TimelineId,
  fold: Fold<State>,
  entries: FirstEntries,
  extras: CommitExtras,
  answer: (created: Created<State> | null) => Result,
  past: Pick<PastLife, 'life' | 'epoch'> = kernel.identity.usual,
): Promise<Result> {
  const again = (start = past) => createTimeline(kernel, id, fold, entries, extras, answer, start)
  const worker = kernel.worker.registered
  if (worker === null) return kernel.worker.register().then(() => again())
  if (!kernel.identity.known) return kernel.identity.load().then(() => again())
  try {
    const digest = originDigest(kernel.hash, id)
    const life = past.life + 1
    const epoch = past.epoch + 1
    const given = typeof entries === 'function' ? entries(kernel.identity.of(id, life), life) : entries
    const made: Entry[] = []
    const sealed = given.map((entry, i) => {
      const { type, key } = entry
      const version = entry.version ?? 1
      const time = entry.time ?? kernel.clock.now()
      const copy = kernel.codec.copy(entry.data)
      made.push({ timeline: id, seq: i + 1, epoch, type, version, time, key, data: copy.value })
      return sealEntry(
        kernel.sealer,
        { type, version, time, key, data: copy.bytes },
        digest,
        i,
        fold.compressAboveBytes,
      )
    })
    const run = packEntries(kernel.hash, { before: digest, first: 1, epoch }, sealed)
    const state = new TimelineState(fold, undefined, guards(kernel, fold))
    state.replay(made)
    const declared = policyToStore(kernel, id, null)
    const released = extras.release ? onRelease(fold.checkpoint, {}, epoch, kernel.worker.now()) : null
    const commit = {
      ...extras,
      ...(declared && { attributes: { ...extras.attributes, ...declared, ...released } }),
      operation: newOperation(kernel.random),
      guard: { timeline: id, epoch: past.epoch, seq: 0, digest },
      take: { worker, from: 'free', create: { digest, life } },
      run,
    } as const
    return kernel.committer.submit(commit).then((outcome) => {
      if (outcome.ok)
        return answer({
          head: headOf(kernel, { id, life, epoch }, digest, run, extras),
          recovered: recoveredOf(id, epoch, state, run),
        })
      if (outcome.code === 'WORKER_RETIRED') return kernel.worker.renewNow().then(() => again())
      // The id was used before: continue from its past life and epoch.
      if (outcome.code === 'FENCED' && !outcome.head) return kernel.identity.past(id).then(again)
      if (outcome.code === 'FENCED' || outcome.code === 'CONFLICT' || outcome.code === 'OWNED') return answer(null)
      throw refusalError(id, outcome)
    })
  } catch (error) {
    return Promise.reject(error)
  }
}

type FirstRun = { readonly count: number; readonly digest: Uint8Array }

function headOf(
  kernel: Kernel,
  { id, life, epoch }: { readonly id: TimelineId; readonly life: number; readonly epoch: number },
  origin: Digest,
  run: FirstRun,
  extras: CommitExtras,
): Head {
  const now = kernel.worker.now(id)
  return {
    timeline: id,
    seq: run.count,
    life,
    epoch,
    digest: run.digest,
    owner: extras.release ? null : kernel.worker.id,
    isOwnerAlive: !extras.release,
    floor: 0,
    floorDigest: origin,
    base: null,
    queue: extras.queue ?? null,
    priority: extras.priority ?? 0,
    status: extras.status ?? '',
    wakeup: extras.wakeup ?? null,
    mail: 0,
    attributes: {},
    operation: null,
    createdAt: now,
    updatedAt: now,
  }
}

function recoveredOf<State>(
  timeline: string,
  epoch: number,
  state: TimelineState<State>,
  run: FirstRun,
): Recovered<State> {
  const nothing = { checkpoint: null, skipped: [], healed: 0, entriesReplayed: 0, bytesRead: 0, entriesLost: 0 }
  return {
    state,
    point: { seq: run.count, digest: run.digest },
    lineage: [],
    base: null,
    damaged: [],
    replayMsPerEntry: 0,
    report: { timeline, seq: run.count, epoch, ...nothing, planMs: 0, restoreMs: 0, replayMs: 0, totalMs: 0 },
  }
}
