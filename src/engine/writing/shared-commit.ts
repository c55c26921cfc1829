// Checkpoints and marks on a timeline by a process that does not own it at the moment, because several write it in
// turns. Not the epoch but the digest keeps stale writes out: it must be part of the current history.

import { equalBytes, type TimelineId } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import { mayBeAside } from '../../core/store/argument-checks.ts'
import type { ManifestRecord, NewManifest } from '../../core/store/ports.ts'
import { refusalError } from '../base/refusal-error.ts'
import { erasingFrom, erasureOf } from '../history/erasures.ts'
import { digestAt, lineageOf, offBranch } from '../history/history.ts'
import { existing } from '../history/locate.ts'
import { type Kernel, submit } from '../storage/kernel.ts'
import type { CommitExtras } from './writer.ts'

const attemptsMax = 20

/** Publishes a checkpoint under the current epoch, if its coordinate is on the current branch. */
export async function publishAside(
  kernel: Kernel,
  id: TimelineId,
  record: NewManifest,
  erasure: string | null,
): Promise<void> {
  await commitAside(kernel, id, { publish: [record] }, { ...record, erasure })
}

/** One commit under the current epoch; reads the head again if the epoch has moved. */
export async function commitAside(
  kernel: Kernel,
  id: TimelineId,
  extras: CommitExtras,
  at?: Pick<ManifestRecord, 'seq' | 'digest'> & { readonly erasure: string | null },
): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    const head = await existing(kernel, id)
    if (
      at &&
      (at.seq > head.seq || !equalBytes(await digestAt(kernel, await lineageOf(kernel, head), at.seq), at.digest))
    ) {
      throw offBranch(id, at.seq)
    }
    // A state read before an erasure may contain erased data.
    if (at && (erasingFrom(head) !== null || erasureOf(head) !== at.erasure)) {
      throw new RepriseError('FENCED', `${id}: entries were erased since its state was read`, { timeline: id })
    }
    const guard = { timeline: id, epoch: head.epoch }
    const aside = mayBeAside(extras)
    const outcome = await submit(kernel, { ...extras, guard, ...(aside && { aside }) })
    if (outcome.ok) return
    if (outcome.code !== 'FENCED' || attempt >= attemptsMax) throw refusalError(id, outcome)
  }
}
