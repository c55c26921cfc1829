// Queries and updates from any process. Queries only read; updates are sent as mail and answered in the run's history.
// For a run that is not in this process's memory, a query replays the code in a temporary instance.

import { type Duration, toMs } from '../../../core/duration.ts'
import { RepriseError } from '../../../core/errors.ts'
import { throwIfAborted } from '../../../engine/base/abortable-wait.ts'
import { fromFailure } from '../history/failure.ts'
import { leaveScope } from '../run/scope.ts'
import { isWithoutCode } from '../without-code.ts'
import { pollMs, type RunView } from './run-view.ts'

export interface UpdateOptions {
  /** How long to wait for the answer. The update itself stays sent. Default: 1 minute. */
  readonly timeout?: Duration
  /** Ends the wait for the answer. */
  readonly signal?: AbortSignal
  /** An update with the same key is applied once and returns the same answer. */
  readonly key?: string
}

/** After this long without an answer, check whether the run has a handler. */
const doubtMs = 1000

/** Returns the answer of the query's handler. The run is not affected. */
export async function askQuery(view: RunView, name: string, args: readonly unknown[]): Promise<unknown> {
  const { live } = view
  if (live) {
    await Promise.race([live.code.replayed, live.tenure.left])
    if (!live.tenure.isLeaving) return leaveScope(() => live.code.queries.query(name, args))
  }
  const { queries, divergence } = await view.host.replay(view.definition, view.timeline, await view.state())
  if (divergence) throw divergence
  return queries.query(name, args)
}

/** Waits for the answer to the update that was sent under that id. */
export async function awaitUpdate(view: RunView, name: string, id: string, options: UpdateOptions): Promise<unknown> {
  const { clock } = view.host.engine
  const until = clock.elapsed() + toMs(options.timeout ?? '1m', 'timeout')
  let doubtAt = clock.elapsed() + doubtMs
  for (;;) {
    throwIfAborted(options.signal, `waiting for the answer to update ${name}`)
    const changed = view.changed(Math.min(pollMs, until - clock.elapsed()), options.signal)
    // The wait times out only if the answer is missing from a read that began after the deadline.
    const isLate = clock.elapsed() >= until
    const { updates, end } = await view.state()
    const outcome = Object.hasOwn(updates, id) ? updates[id] : undefined
    if (outcome?.error) throw fromFailure(outcome.error)
    if (outcome) return outcome.result
    if (end) throw await view.endedError(`it did not accept the update ${name}`)
    if (clock.elapsed() >= doubtAt) {
      doubtAt = Number.POSITIVE_INFINITY
      await checkUpdate(view, name)
    }
    if (isLate) {
      const what = `no answer to the update ${name} of ${view.timeline} yet. The update is stored; a second update is executed as well, unless both have the same key. No worker may be executing the run, or its code has not registered its handlers yet`
      throw new RepriseError('TIMEOUT', what, { update: name })
    }
    await changed
  }
}

/**
 * Without an answer, the run may have no worker. If its code is here, check for a handler by the same rule that the
 * run's owner applies.
 */
async function checkUpdate(view: RunView, name: string): Promise<void> {
  const { live, host, definition, timeline } = view
  // A run in this process's memory answers the update itself.
  if (live || isWithoutCode(definition)) return
  const { queries, divergence, open } = await host.replay(definition, timeline, await view.state())
  const refusal = divergence ? null : queries.refusal(name, open)
  if (refusal) throw refusal
}
