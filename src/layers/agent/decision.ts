// A person's decision about a waiting session, written by its owner or sent to it by mail.

import { type Coordinate, type MessageId, type TimelineId, timelineId, toHex } from '../../core/coordinate.ts'
import { faultIn, type Shapes } from '../../core/data-shape.ts'
import { RepriseError } from '../../core/errors.ts'
import type { Head, Message } from '../../core/store/ports.ts'
import {
  checkAbout,
  conflictingDecision,
  entriesBelow,
  type RecordedDecision,
  unreadOf,
} from '../../engine/history/conflicting-decision.ts'
import { digestAt, entriesOf, floorOf, lineageOf, readHistory } from '../../engine/history/history.ts'
import { type Host, hostOf } from '../../engine/host/host.ts'
import { readShaped } from '../../engine/host/shaped-mail.ts'
import type { Engine } from '../../engine/model/definition.ts'
import type { OpenTimeline } from '../../engine/writing/timeline.ts'
import { makeDue } from './due.ts'
import { entry, type SessionState } from './state.ts'

/** Make the call, refuse it, use the recorded result of the similar call, treat it as done, or call again. */
export type ToolVerdict = 'approve' | 'refuse' | 'replay' | 'done' | 'retry'

/** The kind of mail that carries a decision. */
export const decisionKind = 'decision'

export interface ToolDecision {
  readonly verdict: ToolVerdict
  readonly by: string
  readonly reason?: string
  readonly args?: unknown
  readonly result?: unknown
  /** The end of the session's history that the person has seen: CONFLICT if it is another one now. Default: the current end. */
  readonly about?: Pick<Coordinate, 'seq' | 'digest'>
}

export async function writeDecision(
  open: OpenTimeline<SessionState<unknown>>,
  decision: ToolDecision,
  consume: readonly MessageId[],
): Promise<void> {
  const { waiting } = open.state
  if (!waiting) throw new RepriseError('CONFLICT', `${open.id} is not waiting for a decision`)
  const { verdict, by, reason, args, result } = decision
  const extras = { status: 'running', ...(consume.length > 0 && { consume }) }
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
      extras,
    )
    return
  }
  // 'retry' is recorded as an approval of the same call, under the same key.
  await open.write([verdict === 'retry' ? entry('decided', { verdict: 'approve', by }) : decided], extras)
}

/**
 * Sends a decision from a process that does not own the session; the session reads it when it resumes. It applies to
 * the session's current wait: a repetition is accepted, a different decision is rejected with CONFLICT, and none is
 * kept for a later wait.
 */
export async function sendDecision(rp: Engine, session: string, decision: ToolDecision, key?: string): Promise<void> {
  await decideOnce(rp, session, decision, key)
}

/** The same; returns the decision that was made before and is repeated. Null: this one counts. */
export async function decideOnce(
  rp: Engine,
  session: string,
  decision: ToolDecision,
  key?: string,
): Promise<RecordedDecision | null> {
  const engine = hostOf(rp)
  const timeline = timelineId(session)
  const head = await engine.head(timeline)
  if (!head) throw new RepriseError('NOT_FOUND', `there is no session ${session}`, { timeline })
  const about = { seq: head.seq, digest: toHex(head.digest) }
  checkAbout(head, decision.about)
  const before = await decidedBefore(engine, head)
  if (before) {
    agree(head, decision, before)
    return before
  }
  if (head.status !== 'waiting') throw waitsForNothing(head, null)
  await engine.send(session, decisionKind, { ...decision, about }, key === undefined ? {} : { id: key })
  // Another caller may have decided at the same moment: the first decision in the mail counts.
  const first = await decidedBefore(engine, (await engine.head(timeline)) ?? head)
  if (first) agree(head, decision, first)
  await makeDue(engine, timeline)
  return null
}

const mailShapes: Shapes = { [decisionKind]: { verdict: 'text', by: 'text', about: 'object?' } }

/**
 * The decision that the owner applies next, and the mail to consume with it: later decisions are about the same wait or
 * an older one.
 */
export async function nextDecision(
  engine: Host,
  timeline: TimelineId,
  messages: readonly Message[],
): Promise<{ readonly decision: ToolDecision | null; readonly consume: readonly MessageId[] }> {
  const decisions = messages.filter(({ kind }) => kind === decisionKind)
  const consume = decisions.map(({ id }) => id)
  for (const message of decisions) {
    const decision = readShaped(engine, message, mailShapes) as ToolDecision | null
    if (decision !== null && !(await isPast(engine, timeline, decision))) return { decision, consume }
  }
  return { decision: null, consume }
}

/** True if the wait that the decision is about was decided or rolled back since. */
async function isPast({ kernel }: Host, timeline: TimelineId, { about }: ToolDecision): Promise<boolean> {
  if (!about) return false
  const [head] = await kernel.store.head([timeline])
  const lineage = head ? await lineageOf(kernel, head) : []
  if (!head || about.seq > head.seq || about.seq < floorOf(lineage).seq) return true
  const digest = await digestAt(kernel, lineage, about.seq)
  if (toHex(digest) !== about.digest) return true
  for await (const run of readHistory(kernel, lineage, { seq: about.seq, digest }, head.seq)) {
    if (entriesOf(kernel, run).some(({ type }) => type === 'decided')) return true
  }
  return false
}

/** The unread decision in the mail; for a session that no longer waits, the last recorded one. */
async function decidedBefore(engine: Host, head: Head): Promise<RecordedDecision | null> {
  const { kernel } = engine
  for (const { data, at } of await unreadOf(kernel, head.timeline, decisionKind)) {
    // The owner drops malformed mail when it reads it.
    if (faultIn(data, mailShapes[decisionKind]!) !== null) continue
    const { verdict, by } = data as ToolDecision
    if (!(await isPast(engine, head.timeline, data as ToolDecision))) return { outcome: verdict, by, at }
  }
  if (head.status === 'waiting') return null
  let word: RecordedDecision | null = null
  for await (const { type, data, time } of entriesBelow(kernel, head)) {
    const { verdict, by } = data as ToolDecision
    if (type === 'decided') word = { outcome: verdict, by, at: time }
    if (type === 'turn.started' || type === 'rolled-back') word = null
  }
  return word
}

/** History uses fewer verdicts: 'retry' is recorded as an approval, and a call that did not happen as failed. */
const recordedAs: Readonly<Record<string, string>> = { retry: 'approve', refuse: 'failed' }

function agree(head: Head, { verdict }: ToolDecision, before: RecordedDecision): void {
  const plain = (word: string) => recordedAs[word] ?? word
  if (plain(verdict) === plain(before.outcome)) return
  if (head.status !== 'waiting') throw waitsForNothing(head, before)
  throw conflictingDecision(head.timeline, 'the pending decision', verdict, before)
}

function waitsForNothing({ timeline, status }: Head, last: RecordedDecision | null): RepriseError {
  const when = last?.at == null ? '' : ` at ${new Date(last.at).toISOString()}`
  const about = last ? `. The last decision was made by ${last.by}${when}: ${last.outcome}` : ''
  return new RepriseError('CONFLICT', `${timeline} is not waiting for a decision: it is ${status}${about}`, {
    timeline,
    status,
    ...last,
  })
}
