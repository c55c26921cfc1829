// Takes a timeline under a new epoch, so that the previous owner can no longer write. A dead owner on this host is
// recognised at once, one elsewhere when its session with the store or its lease ends; a live owner is waited for, or
// displaced with `takeover`.

import type { TimelineId } from '../../core/coordinate.ts'
import { toMs } from '../../core/duration.ts'
import { noTimeline, RepriseError } from '../../core/errors.ts'
import { originDigest } from '../../core/history/entry-run.ts'
import { isHeadLost } from '../../core/history/lost-head.ts'
import { guardOf } from '../../core/store/commit-guard.ts'
import type { Commit, Head, Take } from '../../core/store/ports.ts'
import { sleep } from '../../lib/waiting.ts'
import { throwIfAborted } from '../base/abortable-wait.ts'
import { refusalError } from '../base/refusal-error.ts'
import { onRelease } from '../checkpoint/observed-failures.ts'
import { policyToStore } from '../checkpoint/stored-policy.ts'
import type { OpenOptions } from '../model/definition.ts'
import { type Kernel, submit } from '../storage/kernel.ts'
import { refuseNotHere } from '../storage/moved-mark.ts'
import { refuseHeld } from '../storage/restore-hold.ts'
import { madeAgain } from './lost-head.ts'

const pollMs = 50

/** Returns the head under the new epoch. */
export async function takeTimeline(
  kernel: Kernel,
  id: TimelineId,
  options: OpenOptions = {},
  noted: Commit['attributes'] = {},
): Promise<Head> {
  const { clock, store, worker } = kernel
  const until = clock.elapsed() + (options.wait === undefined ? 0 : toMs(options.wait, 'wait'))
  for (;;) {
    throwIfAborted(options.signal, id)
    const workerId = await worker.register()
    let [head] = await store.head([id])
    if (!head && options.mustExist) throw noTimeline(id)
    if (head) refuseNotHere(head)
    if (head) refuseHeld(kernel, head)
    if (head && isHeadLost(head)) head = await madeAgain(kernel, head)
    const take: Take = {
      worker: workerId,
      from: options.takeover ? 'anyone' : 'dead',
      ...(options.mustExist ? {} : { create: { digest: originDigest(kernel.hash, id) } }),
    }
    const attributes = { ...policyToStore(kernel, id, head ?? null), ...noted }
    const { epoch } = head ?? (await kernel.identity.past(id))
    const outcome = await submit(kernel, {
      guard: { timeline: id, epoch },
      take,
      ...(Object.keys(attributes).length > 0 && { attributes }),
    })
    if (outcome.ok) {
      kernel.failures.taken(id)
      return await headUnder(kernel, id, outcome.epoch)
    }
    // The head moved between the read and the take, or this worker was declared dead meanwhile: read again.
    if (outcome.code === 'FENCED' || outcome.code === 'WORKER_RETIRED') {
      if (outcome.code === 'WORKER_RETIRED') await worker.renewNow()
      continue
    }
    if (outcome.code !== 'OWNED') throw refusalError(id, outcome)
    if ((await kernel.deadWorkers.retireGone()).length > 0 || (await kernel.deadWorkers.retiredSoon()).length > 0)
      continue
    if (clock.elapsed() >= until) throw refusalError(id, outcome)
    await sleep(clock, pollMs)
  }
}

/** Releases a taken timeline that turned out unusable: other processes can take it at once. */
export async function giveBack(kernel: Kernel, head: Head): Promise<void> {
  const policy = kernel.models.foldOf(head.timeline)?.checkpoint
  const attributes = onRelease(policy, head.attributes, head.epoch, kernel.worker.now())
  const release = { guard: guardOf(head), release: true, ...(attributes && { attributes }) }
  await submit(kernel, release).catch(() => undefined)
}

/** The current head, if this process still owns it. */
export async function headUnder(kernel: Kernel, id: TimelineId, epoch: number): Promise<Head> {
  const [head] = await kernel.store.head([id])
  if (!head || head.epoch !== epoch) {
    throw new RepriseError('FENCED', `${id} was taken over again while it was being opened`, { timeline: id, epoch })
  }
  return head
}
