// Actions on one timeline, through its model, as on the command line. A verb that a model does not have is refused with a
// pointer to the right one.

import { type HistoryPoint, toHex } from '../../core/coordinate.ts'
import { isReprise, RepriseError } from '../../core/errors.ts'
import type { CompensationPlan } from '../../core/history/effects.ts'
import { isWithin } from '../../core/history/scope.ts'
import type { Head } from '../../core/store/ports.ts'
import type { RollbackOptions } from '../../engine/branch/rollback.ts'
import type { Before } from '../../engine/branch/rollback-plan.ts'
import { checkAbout } from '../../engine/history/conflicting-decision.ts'
import { hostOf } from '../../engine/host/host.ts'
import type { ForkOptions } from '../../engine/model/fork-edit.ts'
import { type ActionReport, modelsOf } from '../../engine/model/model.ts'
import type { Consumer } from '../../engine/model/rollback-report.ts'
import { effectsOf } from '../../operations/effects.ts'
import { forkAt } from '../../operations/fork.ts'
import { discard, familyOf, lettersOf } from '../../operations/letters.ts'
import { act, type PlainVerb } from '../../operations/run-verb.ts'
import { runOf, runWithCode } from '../../operations/runs.ts'
import { mayReach } from '../access.ts'
import { checkpointIdOf } from '../checkpoint-id.ts'
import type { Call, Route } from '../route.ts'
import type { Schema } from '../schema.ts'
import { missing, reachedId, withoutUnreached } from '../scope-filter.ts'
import * as shapes from '../shapes.ts'

const report = shapes.named(
  'ActionReport',
  shapes.answer({ text: { type: 'string', description: 'the result, in words' }, facts: shapes.any }),
)
const undo: Schema = {
  type: 'string',
  enum: ['inherited'],
  description: 'of a fork: also undo effects of its original; ALREADY_UNDONE if they were undone',
}
const consumed: Schema = {
  type: 'string',
  enum: ['force'],
  description: 'roll back although consumers have acted on the undone entries (default: refused with CONSUMED)',
}
const about: Schema = {
  ...shapes.object({ seq: shapes.count, digest: shapes.text }, ['seq', 'digest']),
  description: 'the end of the history as the person saw it; CONFLICT if it has changed',
}
const keys: Schema = { type: 'array', items: shapes.text, maxItems: 10_000 }

/** A rollback that was planned. */
interface RollbackBody {
  readonly to: number
  readonly from: number
  readonly about?: HistoryPoint
}

/** A route for a verb of the model, with its arguments. */
function verb(name: PlainVerb, summary: string, body: Schema, args: (call: Call) => Record<string, unknown>): Route {
  return {
    method: 'POST',
    path: `/v1/timelines/{timeline}/${name}`,
    id: name,
    tag: 'actions',
    summary,
    role: 'operate',
    body,
    answer: report,
    once: 'answer',
    async call(call) {
      const head = await call.head()
      await checkFamily(call, head)
      const report = await act(call.engine, head, name, args(call), keyFor(call, name))
      return name === 'decide' ? await resumed(call, report) : report
    },
  }
}

/**
 * A decision counts when its session resumes: by a worker, in this process or in another one; else by this server, if it has
 * the code of the agent. If the session is open in another process, that process reads the decision.
 */
async function resumed({ engine, params, server }: Call, report: ActionReport): Promise<ActionReport> {
  const timeline = params.timeline!
  const { models, dispatcher } = hostOf(engine)
  const isHere = server.definitions.some((each) => modelsOf(each).some(({ scope }) => isWithin(scope, timeline)))
  const resume = models.find(timeline)?.actions?.resume
  if (!isHere || server.readOnly || typeof resume !== 'function') return report
  const head = await engine.head(timeline)
  const isWorkedOn = dispatcher.queues.some((queue) => isWithin(queue, timeline))
  if (head && !isWorkedOn) {
    resume({ engine, head }).catch((error) => {
      if (!isReprise(error, 'OWNED', 'CLOSED')) hostOf(engine).events.emit('problem', { where: timeline, error })
    })
  }
  return { text: `${report.text.split(';')[0]}; the server resumes it`, facts: { ...report.facts, resumes: true } }
}

export const actionRoutes: readonly Route[] = [
  verb(
    'stop',
    'Stop a pipeline or a job so that it can be resumed later',
    shapes.object({ reason: shapes.reason }),
    ({ body }) => ({ reason: body.reason ?? 'stopped by hand' }),
  ),
  verb('cancel', 'Cancel a run', shapes.object({ reason: shapes.reason, undo }), ({ body }) => ({
    reason: body.reason ?? 'cancelled by hand',
    ...(body.undo !== undefined && { undo: body.undo }),
  })),
  verb(
    'terminate',
    'End a run at once, without compensation',
    shapes.object({ reason: shapes.reason }),
    ({ body }) => ({
      reason: body.reason ?? 'terminated by hand',
    }),
  ),
  verb('retry', 'Resume a run that failed, or a job that stopped or failed', shapes.object({}), () => ({})),
  verb(
    'rerun',
    'Repeat one step of a run and the steps that depend on it; the others keep their results',
    shapes.object({ step: { ...shapes.text, minLength: 1 }, undo, consumed }, ['step']),
    ({ body }) => body,
  ),
  {
    method: 'GET',
    path: '/v1/timelines/{timeline}/steps',
    id: 'listSteps',
    tag: 'actions',
    summary: 'The steps of a run, the steps that each depends on, and those that its re-run would repeat',
    role: 'read',
    answer: shapes.answer({
      timeline: shapes.text,
      steps: shapes.list(
        shapes.answer({
          step: shapes.text,
          outcome: { type: 'string', enum: ['done', 'failed'] },
          after: shapes.list(shapes.text),
          isDeclared: { type: 'boolean' },
          repeats: shapes.list(shapes.text),
        }),
      ),
    }),
    async call(call) {
      const head = await call.head()
      return { timeline: head.timeline, steps: await runOf(call.engine, head, 'steps').steps() }
    },
  },
  verb(
    'signal',
    'Send a signal to a run: durable when the request is answered',
    shapes.object({ name: { ...shapes.text, minLength: 1 }, value: shapes.any }, ['name']),
    ({ body }) => body,
  ),
  verb(
    'settle',
    'Record the outcome of a held step or a stuck compensation',
    shapes.object(
      {
        step: shapes.text,
        outcome: { type: 'string', enum: ['done', 'failed', 'retry', 'compensated'] },
        by: shapes.by,
        result: shapes.any,
        about,
      },
      ['step', 'outcome'],
    ),
    ({ body, principal }) => ({ by: principal.name, ...body }),
  ),
  verb(
    'decide',
    'Decide a pending call of a session',
    shapes.object(
      {
        verdict: { type: 'string', enum: ['approve', 'refuse', 'replay', 'done', 'retry'] },
        by: shapes.by,
        reason: shapes.reason,
        about,
      },
      ['verdict'],
    ),
    ({ body, principal }) => ({ by: principal.name, ...body }),
  ),
  verb(
    'redrive',
    'Retry dead letters: all of them, or those with these keys',
    shapes.object({ keys, items: { type: 'object', description: 'items in place of the stored ones, by key' } }),
    ({ body }) => body,
  ),
  {
    method: 'GET',
    path: '/v1/timelines/{timeline}/dead-letters',
    id: 'listDeadLetters',
    tag: 'actions',
    summary: 'Items that a job gave up on',
    role: 'read',
    answer: shapes.answer({ letters: shapes.list(shapes.answer({ key: shapes.text, timeline: shapes.text })) }),
    async call(call) {
      return { letters: await lettersOf(call.engine, await checkFamily(call, await call.head())) }
    },
  },
  {
    method: 'POST',
    path: '/v1/timelines/{timeline}/discard',
    id: 'discard',
    tag: 'actions',
    summary: 'Count dead letters as finished',
    role: 'operate',
    body: shapes.object({ keys: { ...keys, minItems: 1 } }, ['keys']),
    answer: shapes.answer({ discarded: shapes.list(shapes.text), missing: shapes.list(shapes.text) }),
    once: 'answer',
    async call(call) {
      const family = await checkFamily(call, await call.head())
      return await discard(call.engine, family, call.body.keys as string[], keyFor(call, 'discard'))
    },
  },
  {
    method: 'POST',
    path: '/v1/timelines/{timeline}/update',
    id: 'update',
    tag: 'actions',
    summary: 'Call an update handler of a run, and wait for its result',
    role: 'operate',
    body: shapes.object(
      {
        name: { ...shapes.text, minLength: 1 },
        argument: shapes.any,
        timeoutMs: { type: 'integer', minimum: 1, maximum: 25_000, default: 10_000 },
      },
      ['name'],
    ),
    answer: shapes.answer({ timeline: shapes.text, update: shapes.text, result: shapes.any }),
    once: 'answer',
    async call(call) {
      const head = await call.head()
      const {
        name,
        argument,
        timeoutMs = 10_000,
      } = call.body as { name: string; argument?: unknown; timeoutMs?: number }
      const key = keyFor(call, 'update')
      const options = { timeout: timeoutMs, ...(key !== undefined && { key }) }
      const result = await runOf(call.engine, head, 'update').update(name, argument, options)
      return { timeline: head.timeline, update: name, result: result ?? null }
    },
  },
  {
    method: 'POST',
    path: '/v1/timelines/{timeline}/query',
    id: 'query',
    tag: 'actions',
    summary: 'Call a query handler of a run; the run itself is not changed',
    role: 'read',
    body: shapes.object(
      { name: { ...shapes.text, minLength: 1 }, arguments: { ...shapes.list(shapes.any), maxItems: 32 } },
      ['name'],
    ),
    answer: shapes.answer({ timeline: shapes.text, query: shapes.text, answer: shapes.any }),
    async call(call) {
      const head = await call.head()
      const { name, arguments: values = [] } = call.body as { name: string; arguments?: readonly unknown[] }
      const timeline = head.timeline
      // The built-in status needs none of the workflow's code.
      if (name === 'status' && values.length === 0) {
        return { timeline, query: name, answer: (await runOf(call.engine, head, 'query').status()).status }
      }
      const run = runWithCode(call.engine, head, 'query', call.server.definitions)
      if (!run) {
        const what = `query needs the code of ${timeline}: pass its definition to the server, or --module FILE to reprise serve`
        throw new RepriseError('INVALID_ARGUMENT', what, { timeline })
      }
      return { timeline, query: name, answer: (await run.query(name, ...values)) ?? null }
    },
  },
  {
    method: 'POST',
    path: '/v1/timelines/{timeline}/effects/{effect}/settle',
    id: 'settleEffect',
    tag: 'actions',
    summary: 'Record the outcome of an effect in doubt, of a timeline without an owner',
    role: 'operate',
    body: shapes.object(
      {
        outcome: { type: 'string', enum: ['done', 'failed', 'compensated'] },
        by: shapes.by,
        result: shapes.any,
        about,
      },
      ['outcome'],
    ),
    answer: shapes.answer({ timeline: shapes.text, settled: shapes.text, outcome: shapes.text, by: shapes.text }),
    once: 'answer',
    async call(call) {
      const head = await call.head()
      const { timeline } = head
      const effect = call.params.effect!
      const {
        outcome,
        by = call.principal.name,
        result,
      } = call.body as {
        outcome: 'done' | 'failed' | 'compensated'
        by?: string
        result?: unknown
      }
      checkAbout(head, call.body.about as HistoryPoint | undefined)
      const known = (await effectsOf(call.engine, head)).find(({ id }) => id === effect)
      if (!known) throw new RepriseError('NOT_FOUND', `${timeline} has no effect ${effect}`, { effect })
      // An effect of the model itself is settled by the model.
      if (!('intendedSeq' in known)) {
        const decision = { step: effect, outcome, by, ...(result !== undefined && { result }) }
        await act(call.engine, head, 'settle', decision, keyFor(call, 'settle'))
        return { timeline, settled: effect, outcome, by }
      }
      await call.engine.settleEffect(timeline, effect, outcome, by, result)
      return { timeline, settled: effect, outcome, by }
    },
  },
  {
    method: 'POST',
    path: '/v1/timelines/{timeline}/fork',
    id: 'fork',
    tag: 'actions',
    summary: 'Start a new timeline that shares history up to a sequence, optionally with edited values',
    role: 'write',
    body: shapes.object(
      {
        to: { ...shapes.text, minLength: 1, description: 'without a slash: an id beside its parent' },
        seq: shapes.count,
        set: {
          type: 'object',
          description: 'values to replace, by name: the result of one step, rows of a table, fields of a session',
        },
        unset: { type: 'array', items: shapes.text, maxItems: 10_000, description: 'rows to remove' },
        input: {
          ...shapes.any,
          description: 'runs: another input; the fork starts at the beginning unless seq is set',
        },
        by: shapes.by,
      },
      ['to'],
    ),
    answer: shapes.answer({ timeline: shapes.text, seq: shapes.count, epoch: shapes.count, parent: shapes.text }),
    once: 'answer',
    async call(call) {
      const head = await call.head()
      const { seq, to, ...edits } = call.body as unknown as { seq?: number; to: string } & ForkOptions
      const id = reachedId(call.principal, siblingOf(head.timeline, to))
      const key = keyFor(call, 'fork')
      return await forkAt(call.engine, head, seq, id, {
        by: call.principal.name,
        ...edits,
        ...(key !== undefined && { key }),
      })
    },
  },
  {
    method: 'POST',
    path: '/v1/timelines/{timeline}/rollback/plan',
    id: 'planRollback',
    tag: 'actions',
    summary: 'Plan a rollback: its target and the undone entries; changes nothing',
    role: 'read',
    body: shapes.object({
      seq: { type: 'integer', minimum: 0, description: 'to this sequence' },
      time: { type: 'integer', description: 'to before the first entry at or after this time' },
      valid: {
        type: 'boolean',
        enum: [true],
        description: 'to the last state that is valid by its definition',
      },
    }),
    answer: shapes.answer({ timeline: shapes.text, from: shapes.count, to: shapes.count, about }),
    async call(call) {
      const { timeline, seq, digest } = await call.head()
      const plan = await call.engine.planRollback(timeline, beforeOf(call.body))
      const { effects, consumers } = plan.undone
      const undone = {
        ...plan.undone,
        effects: reachedPlan(call, effects),
        consumers: reachedConsumers(call, consumers),
      }
      return { ...plan, undone, about: { seq, digest: toHex(digest) } }
    },
  },
  {
    method: 'POST',
    path: '/v1/timelines/{timeline}/rollback',
    id: 'rollback',
    tag: 'actions',
    summary:
      'Roll back to an earlier sequence: `to`, `from` and `about` of a plan, refused if the head has moved since',
    role: 'write',
    body: shapes.object(
      { to: shapes.count, from: shapes.count, about, takeover: { type: 'boolean' }, undo, consumed },
      ['to', 'from'],
    ),
    answer: shapes.answer({ timeline: shapes.text, from: shapes.count }),
    once: 'answer',
    async call(call) {
      const head = await call.head()
      const { timeline, seq } = head
      const { to, from, about, ...options } = call.body as unknown as RollbackBody & Omit<RollbackOptions, 'to'>
      if (from !== seq) {
        const what = `${timeline} is at ${seq}, and the plan was made at ${from}: plan again`
        throw new RepriseError('CONFLICT', what, { timeline, seq, from })
      }
      checkAbout(head, about)
      const done = await call.engine.rollback({ to: { timeline, seq: to }, ...options })
      const consumed = reachedConsumers(call, done.consumed ?? [])
      return { ...done, effects: reachedPlan(call, done.effects), consumed }
    },
  },
  {
    method: 'POST',
    path: '/v1/timelines/{timeline}/savepoints',
    id: 'savepoint',
    tag: 'actions',
    summary: 'A checkpoint that is kept until it is released',
    role: 'operate',
    status: 201,
    body: shapes.object({ seq: shapes.count, label: { type: 'string', maxLength: 200 } }),
    answer: shapes.answer({ id: shapes.text, coordinate: shapes.coordinate, bytes: shapes.count }),
    once: 'answer',
    async call(call) {
      const head = await call.head()
      const { timeline } = head
      const { label } = call.body as { label?: string }
      const where = { timeline, seq: (call.body.seq as number | undefined) ?? head.seq }
      const id = await checkpointIdOf(call, head)
      const known =
        id === undefined ? undefined : (await call.engine.checkpoints(timeline)).find((each) => each.id === id)
      if (known) {
        const coordinate = { timeline, seq: known.seq, epoch: known.epoch, digest: toHex(known.digest) }
        return { id: known.id, coordinate, label: known.label, bytes: known.totalBytes }
      }
      return await call.engine.savepoint(where, {
        ...(label !== undefined && { label }),
        ...(id !== undefined && { id }),
      })
    },
  },
  {
    method: 'DELETE',
    path: '/v1/timelines/{timeline}/savepoints/{checkpoint}',
    id: 'releaseSavepoint',
    tag: 'actions',
    summary: 'Release a savepoint: it becomes a checkpoint like any other',
    role: 'operate',
    answer: shapes.answer({ released: shapes.text }),
    once: 'answer',
    async call(call) {
      const released = call.params.checkpoint!
      await call.engine.release((await call.head()).timeline, released)
      return { released }
    },
  },
  {
    method: 'POST',
    path: '/v1/timelines/{timeline}/checkpoints/{checkpoint}/mark',
    id: 'markCheckpoint',
    tag: 'actions',
    summary: 'Mark a checkpoint as bad, so that no restore uses it; without `bad`, remove the mark',
    role: 'operate',
    body: shapes.object({ bad: { ...shapes.text, minLength: 1, description: 'reason why it is bad' }, by: shapes.by }),
    answer: shapes.answer({ timeline: shapes.text, checkpoint: shapes.text }),
    once: 'answer',
    async call(call) {
      const { timeline } = await call.head()
      const checkpoint = call.params.checkpoint!
      const { bad, by = call.principal.name } = call.body as { bad?: string; by?: string }
      if (bad === undefined) await call.engine.unmarkCheckpoint(timeline, checkpoint)
      else await call.engine.markCheckpoint(timeline, checkpoint, { why: bad, by })
      return { timeline, checkpoint, bad: bad ?? null, by }
    },
  },
]

/** The engine's dedupe key for this request, unique to the caller and the verb. */
function keyFor({ key, principal }: Call, name: string): string | undefined {
  return key === undefined ? undefined : `http:${principal.name}:${name}:${key}`
}

/** The timelines that belong together with this one; NOT_FOUND if one of them is out of the caller's reach. */
async function checkFamily({ engine, principal }: Call, head: Head): Promise<Head[]> {
  const family = await familyOf(engine, head)
  if (family.some(({ timeline }) => !mayReach(principal, timeline))) throw missing(head.timeline)
  return family
}

/** A name without a slash is a sibling. */
function siblingOf(timeline: string, to: string): string {
  const slash = timeline.lastIndexOf('/')
  return to.includes('/') || slash < 0 ? to : `${timeline.slice(0, slash)}/${to}`
}

function beforeOf({ seq, time, valid }: Call['body']): Before {
  const given = [seq, time, valid].filter((each) => each !== undefined)
  if (given.length !== 1) throw new RepriseError('INVALID_ARGUMENT', 'set one of seq, time and valid', {})
  if (seq !== undefined) return { seq: (seq as number) + 1 }
  return time === undefined ? { valid: 'declared' } : { time: time as number }
}

function reachedPlan(call: Call, plan: CompensationPlan): CompensationPlan {
  return { ...plan, inherited: withoutUnreached(call.principal, plan.inherited) }
}

/** Consumers that the caller does not reach are shown by kind only. */
function reachedConsumers(call: Call, consumers: readonly Consumer[]): Partial<Consumer>[] {
  return consumers.map((one) => (mayReach(call.principal, one.timeline) ? one : { kind: one.kind }))
}
