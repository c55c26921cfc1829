// Making a timeline with its first entries, in one commit and without reading anything back: for layers that start many
// short ones. Whoever comes second with the same id is told that it exists, and has changed nothing.

import type { Digest, TimelineId } from '../core/coordinate.ts'
import { originDigest, packEntries } from '../core/entry-run.ts'
import type { Head } from '../core/ports.ts'
import { onRelease } from './checkpoint/observed-failures.ts'
import { refusalError } from './commit/refusal-error.ts'
import type { CommitExtras } from './commit/writer.ts'
import { declare } from './declaration.ts'
import type { Fold } from './definition.ts'
import { type Kernel, newOperation } from './kernel.ts'
import type { Entry } from './recovery/history.ts'
import type { Recovered } from './recovery/recover.ts'
import { sealEntry } from './seal/entries.ts'
import { guards, TimelineState } from './state.ts'
import type { NewEntry } from './timeline.ts'

export interface Created<State> {
  readonly head: Head
  readonly recovered: Recovered<State>
}

/**
 * `made` is given what was made; null: there is one already. Not an async function: runs start here, and each of those costs
 * promises.
 */
export function createTimeline<State, Result>(
  kernel: Kernel,
  id: TimelineId,
  fold: Fold<State>,
  entries: readonly NewEntry[],
  along: CommitExtras,
  made: (created: Created<State> | null) => Result,
): Promise<Result> {
  const again = () => createTimeline(kernel, id, fold, entries, along, made)
  const worker = kernel.worker.registered
  if (worker === null) return kernel.worker.register().then(again)
  try {
    const digest = originDigest(kernel.hash, id)
    const copies = entries.map((entry) => kernel.codec.copy(entry.data))
    const drafts = entries.map((entry, i) => ({
      type: entry.type,
      version: entry.version ?? 1,
      time: entry.time ?? kernel.clock.now(),
      key: entry.key,
      data: copies[i]!.bytes,
    }))
    const sealed = drafts.map((draft, i) => sealEntry(kernel.sealer, draft, digest, i, fold.compressAboveBytes))
    const run = packEntries(kernel.hash, { before: digest, first: 1, epoch: 1 }, sealed)
    const state = new TimelineState(fold, undefined, guards(kernel, fold))
    state.replay(
      drafts.map(
        ({ type, version, time, key }, i): Entry => ({
          ...{ timeline: id, seq: i + 1, epoch: 1, type, version, time, key },
          data: copies[i]!.value,
        }),
      ),
    )
    const declared = declare(kernel, id, null)
    const released = along.release ? onRelease(fold.checkpoint, {}, 1, kernel.worker.now()) : null
    const commit = {
      ...along,
      ...(declared && { attributes: { ...along.attributes, ...declared, ...released } }),
      operation: newOperation(kernel.random),
      guard: { timeline: id, epoch: 0, seq: 0, digest },
      take: { worker, from: 'free', create: { digest } },
      run,
    } as const
    return kernel.committer.submit(commit).then((outcome) => {
      if (outcome.ok)
        return made({ head: headOf(kernel, id, digest, run, along), recovered: recoveredOf(id, state, run) })
      if (outcome.code === 'WORKER_RETIRED') return kernel.worker.renewNow().then(again)
      if (outcome.code === 'FENCED' || outcome.code === 'CONFLICT' || outcome.code === 'OWNED') return made(null)
      throw refusalError(id, outcome)
    })
  } catch (error) {
    return Promise.reject(error)
  }
}

type FirstRun = { readonly count: number; readonly digest: Uint8Array }

function headOf(kernel: Kernel, id: TimelineId, origin: Digest, run: FirstRun, along: CommitExtras): Head {
  const now = kernel.worker.now(id)
  return {
    timeline: id,
    seq: run.count,
    epoch: 1,
    digest: run.digest,
    owner: along.release ? null : kernel.worker.id,
    isOwnerAlive: !along.release,
    floor: 0,
    floorDigest: origin,
    base: null,
    queue: along.queue ?? null,
    priority: along.priority ?? 0,
    status: along.status ?? '',
    wakeup: along.wakeup ?? null,
    mail: 0,
    attributes: {},
    operation: null,
    createdAt: now,
    updatedAt: now,
  }
}

function recoveredOf<State>(timeline: string, state: TimelineState<State>, run: FirstRun): Recovered<State> {
  const nothing = { checkpoint: null, skipped: [], healed: 0, entriesReplayed: 0, bytesRead: 0, entriesLost: 0 }
  return {
    state,
    point: { seq: run.count, digest: run.digest },
    lineage: [],
    base: null,
    damaged: [],
    replayMsPerEntry: 0,
    report: { timeline, seq: run.count, epoch: 1, ...nothing, planMs: 0, restoreMs: 0, replayMs: 0, totalMs: 0 },
  }
}
