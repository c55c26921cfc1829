// What is asked of a run's code from any process: queries, which only read, and updates, which it takes as mail and answers in
// its history. Of a run that is not in memory here, the code is replayed aside.

import { type Duration, toMs } from '../../../core/duration.ts'
import { RepriseError } from '../../../core/errors.ts'
import { throwIfAborted } from '../../../engine/base/aborting.ts'
import { fromFailure } from '../history/failure.ts'
import { leaveScope } from '../run/scope.ts'
import { isWithoutCode } from '../without-code.ts'
import { pollMs, type RunView } from './run-view.ts'

export interface UpdateOptions {
  /** How long to wait for the answer; 1 minute if left out. The update itself is sent, and stays. */
  readonly timeout?: Duration
  /** Ends the wait for the answer. */
  readonly signal?: AbortSignal
  /** The same key counts once, and gives the same answer. */
  readonly key?: string
}

/** An update without an answer for this long: is there anybody who could give one? */
const doubtMs = 1000

/** What the handler of that query says; the run itself does not notice. */
export async function askQuery(view: RunView, name: string, args: readonly unknown[]): Promise<unknown> {
  const { live } = view
  if (live) {
    await Promise.race([live.replayed, live.left])
    if (!live.isLeaving) return leaveScope(() => live.queries.query(name, args))
  }
  const { queries, divergence } = await view.host.replay(view.definition, view.timeline, await view.state())
  if (divergence) throw divergence
  return queries.query(name, args)
}

/** The answer to an update that was sent under that id. */
export async function awaitUpdate(view: RunView, name: string, id: string, options: UpdateOptions): Promise<unknown> {
  const { clock } = view.host.kernel
  const until = clock.elapsed() + toMs(options.timeout ?? '1m', 'timeout')
  let doubtAt = clock.elapsed() + doubtMs
  for (;;) {
    throwIfAborted(options.signal, `waiting for the answer to update ${name}`)
    const changed = view.changed(Math.min(pollMs, until - clock.elapsed()), options.signal)
    // Late only if it is missing from what was read after the deadline.
    const isLate = clock.elapsed() >= until
    const { updates, end } = await view.state()
    const outcome = Object.hasOwn(updates, id) ? updates[id] : undefined
    if (outcome?.error) throw fromFailure(outcome.error)
    if (outcome) return outcome.result
    if (end) throw await view.endedError(`it did not take the update ${name}`)
    if (clock.elapsed() >= doubtAt) {
      doubtAt = Number.POSITIVE_INFINITY
      await checkUpdate(view, name)
    }
    if (isLate) {
      const what = `no answer to the update ${name} of ${view.timeline} yet: it is sent, and stays; sent again it counts twice, unless both have the same key. Nobody may be working on the run, or its code has not come to its handlers yet`
      throw new RepriseError('TIMEOUT', what, { update: name })
    }
    await changed
  }
}

/**
 * Nobody answers: perhaps nobody works on the run. If its code is here it says whether there is a handler, by the rule that
 * whoever takes the update will go by.
 */
async function checkUpdate(view: RunView, name: string): Promise<void> {
  const { live, host, definition, timeline } = view
  // In memory here it answers by itself.
  if (live || isWithoutCode(definition)) return
  const { queries, divergence, open } = await host.replay(definition, timeline, await view.state())
  const refusal = divergence ? null : queries.refusal(name, open)
  if (refusal) throw refusal
}
