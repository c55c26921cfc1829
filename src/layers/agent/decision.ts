// What a person decides about a session that waits, written by whoever owns it, or sent to it by mail.

import type { MessageId } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import type { Engine } from '../../engine/definition.ts'
import { hostOf } from '../../engine/host.ts'
import type { OpenTimeline } from '../../engine/timeline.ts'
import { entry, type SessionState } from './state.ts'

/** Make the call, do not, use the recorded result of the similar one, it did happen, call it again. */
export type Verdict = 'approve' | 'refuse' | 'replay' | 'done' | 'retry'

export interface Decision {
  readonly verdict: Verdict
  readonly by: string
  readonly reason?: string
  readonly args?: unknown
  readonly result?: unknown
}

export async function writeDecision(
  open: OpenTimeline<SessionState<unknown>>,
  decision: Decision,
  consume: readonly MessageId[],
): Promise<void> {
  const { waiting } = open.state
  if (!waiting) throw new RepriseError('CONFLICT', `${open.id} does not wait for a decision`)
  const { verdict, by, reason, args, result } = decision
  const along = { status: 'running', ...(consume.length > 0 && { consume }) }
  const decided = entry('decided', {
    verdict,
    by,
    ...(reason !== undefined && { reason }),
    ...(args !== undefined && { args }),
  })
  if (waiting.kind === 'in-doubt' && waiting.call !== undefined && (verdict === 'done' || verdict === 'refuse')) {
    const id = waiting.call
    const outcome = verdict === 'done' ? 'done' : 'failed'
    const isModel = open.state.calls.get(id)?.kind === 'model'
    const meaning =
      verdict === 'done'
        ? isModel
          ? entry('answered', { id, answer: { content: result ?? null } })
          : entry('returned', { id, result: result ?? null })
        : entry('failed', { id, error: reason ?? 'it did not happen' })
    await open.write(
      [{ type: '$effect.settled', data: { id, outcome, by } }, entry('decided', { verdict: outcome, by }), meaning],
      along,
    )
    return
  }
  // Calling again after all is an approval of the same call, under the same key.
  await open.write([verdict === 'retry' ? entry('decided', { verdict: 'approve', by }) : decided], along)
}

/** A decision from a process that does not own the session; taken when it resumes. */
export async function sendDecision(rp: Engine, session: string, decision: Decision, key?: string): Promise<void> {
  const engine = hostOf(rp)
  await engine.send(session, 'decision', decision, key === undefined ? {} : { id: key })
}
