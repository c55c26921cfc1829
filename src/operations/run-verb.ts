// Runs a verb on a timeline through its model, for the command line and the server.

import { type HistoryPoint, timelineId } from '../core/coordinate.ts'
import { noTimeline, RepriseError } from '../core/errors.ts'
import type { Head } from '../core/store/ports.ts'
import type { Reprise } from '../engine/api/reprise.ts'
import { checkAbout } from '../engine/history/conflicting-decision.ts'
import { hostOf } from '../engine/host/host.ts'
import { type ActionReport, actionOf, type Target, type Verb } from '../engine/model/model.ts'
import { refuseNotHere } from '../engine/storage/moved-mark.ts'
import { refuseHeld } from '../engine/storage/restore-hold.ts'
import { sleep } from '../lib/waiting.ts'

const lookMs = 100

/** Rollback and fork have arguments and results of their own: `rp.rollback`, `rp.fork`. */
export type PlainVerb = Exclude<Verb, 'rollback' | 'fork'>

/**
 * `key`: a repeated call with the same key acts once. `args.about`: the end of the history that the caller has seen; CONFLICT if
 * it has changed.
 * @example await act(engine, head, 'cancel', { reason })
 * /
 */
export async function act(
  engine: Reprise,
  head: Head,
  verb: PlainVerb,
  args: Readonly<Record<string, unknown>>,
  key?: string,
): Promise<ActionReport> {
  refuseNotHere(head)
  const action = actionOf(hostOf(engine).models.find(head.timeline), verb, head.timeline)
  checkAbout(head, args.about as HistoryPoint | undefined)
  const target: Target = { engine, head, ...(key !== undefined && { key }) }
  return await (action as (target: Target, args: unknown) => Promise<ActionReport>)(target, args)
}

/**
 * Throws the error with which the verb would be refused, and changes nothing: a refusal is reported before a person is asked
 * to confirm.
 * @example await mayAct(engine, head, 'terminate')
 * /
 */
export async function mayAct(
  engine: Reprise,
  head: Head,
  verb: Verb,
  args: { readonly seq?: number; readonly takeover?: boolean } = {},
): Promise<void> {
  refuseNotHere(head)
  const { models, kernel } = hostOf(engine)
  const model = models.find(head.timeline)
  // The kernel provides rollback and fork for models without their own.
  const isKernels = (verb === 'rollback' || verb === 'fork') && !model?.actions?.[verb]
  if (!isKernels) actionOf(model, verb, head.timeline)
  await model?.refuse?.({ engine, head }, verb, args)
  if (verb !== 'rollback' || !isKernels || args.takeover || !head.isOwnerAlive || head.owner === null) return
  if ((await kernel.deadWorkers.retireGone()).some((gone) => gone === head.owner)) return
  const what = `${head.timeline} is owned by ${head.owner}: stop it first, or take it over`
  throw new RepriseError('OWNED', what, { timeline: head.timeline, owner: head.owner })
}

/**
 * The same for the members of a group: live owners have the same time to release their timelines as in the restore.
 * @example await mayRestore(engine, plan.members.map(({ timeline }) => timeline), { waitMs: 10_000 })
 * /
 */
export async function mayRestore(
  engine: Reprise,
  members: readonly string[],
  { waitMs, takeover = false }: { readonly waitMs: number; readonly takeover?: boolean },
): Promise<void> {
  const { kernel } = hostOf(engine)
  const until = kernel.clock.elapsed() + waitMs
  for (const member of members) {
    for (;;) {
      const [head] = await kernel.store.head([timelineId(member)])
      if (!head) throw noTimeline(member)
      refuseHeld(kernel, head)
      if (takeover || head.owner === null || !head.isOwnerAlive || head.owner === kernel.worker.id) break
      if ((await kernel.deadWorkers.retireGone()).some((gone) => gone === head.owner)) break
      if (kernel.clock.elapsed() >= until) {
        const what = `${member} is owned by ${head.owner}: stop it first, or take it over`
        throw new RepriseError('OWNED', what, { timeline: member, owner: head.owner })
      }
      await sleep(kernel.clock, lookMs)
    }
  }
}
