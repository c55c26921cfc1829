// The model of agents, for tools. Without the agent's code, sessions can be read, checked, forked and decided. A
// rollback needs the agent's tools to undo their calls, and resuming needs its language model.

import type { TimelineId } from '../../core/coordinate.ts'
import { toHex } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import { idBelow } from '../../core/history/scope.ts'
import { locate } from '../../engine/history/locate.ts'
import { hostOf } from '../../engine/host/host.ts'
import type { Entity, Fold } from '../../engine/model/definition.ts'
import type { Exchanged, ExchangeReader, SentMail } from '../../engine/model/exchange-reader.ts'
import type { Actions, describes, Instead, Model, ModelEffect, Target } from '../../engine/model/model.ts'
import { type Consumer, noEffects, type Rollback } from '../../engine/model/rollback-report.ts'
import { decideOnce, decisionKind, type ToolVerdict } from './decision.ts'
import { sessionEdits } from './edit.ts'
import { entryRow, refuses, statusLine } from './journal-rows.ts'
import type { SessionRollback, SessionRollbackOptions } from './options.ts'
import type { AgentSpec } from './spec.ts'
import type { SessionState } from './state.ts'

const needsCode: Instead = { instead: "it takes the agent's own tools: name the module that exports the agent" }
const verdicts: readonly ToolVerdict[] = ['approve', 'refuse', 'replay', 'done', 'retry']

const actions: Actions = {
  rollback: needsCode,
  resume: needsCode,
  signal: { instead: 'answer its pending decision, or send it a message from another session' },
  stop: { instead: 'interrupt it from its own code; resume continues an interrupted turn' },
  cancel: { instead: 'interrupt it from its own code; resume continues an interrupted turn' },
  async decide({ engine, head, key }, { verdict, by, reason, about }) {
    const known = verdicts.find((each) => each === verdict)
    if (!known)
      throw new RepriseError('INVALID_ARGUMENT', `a decision must be ${verdicts.join(', ')} (got ${verdict})`, {})
    const decision = { verdict: known, by, ...(reason !== undefined && { reason }), ...(about && { about }) }
    const before = await decideOnce(engine, head.timeline, decision, key)
    if (before) {
      const text = `${head.timeline} was decided before by ${before.by}: ${before.outcome}; nothing was recorded`
      return { text, facts: { verdict: known, by: before.by, isRepeated: true } }
    }
    return {
      text: `recorded for ${head.timeline}: ${known}; a worker that has the agent resumes it (reprise work FILE)`,
      facts: { verdict: known, by },
    }
  },
}

export const agentKind: Model = {
  kind: 'agent',
  name: null,
  scope: 'agent/',
  fold: null,
  policy: 'declared',
  attention: ['waiting'],
  headOf: (state) => (state === undefined ? null : { status: (state as SessionState<unknown>).status }),
  statusLine,
  refuses,
  entryRow,
  actions,
  edits: sessionEdits(null),
  // A decision is about the call of the original.
  transfer: { copiesMail: (kind) => kind !== decisionKind },
}

/** When a session's state is checkpointed, unless the agent sets a policy. */
export const usualCheckpoint = { every: 256, on: ['rolled-back'] }

/** The parts of a session that the actions use. */
interface Resumable {
  resume(): Promise<{ readonly turn: number; readonly status: string }>
  rollbackDecided(options: SessionRollbackOptions, consumed: readonly Consumer[] | undefined): Promise<SessionRollback>
  close(): Promise<void>
}

export function agentModel<Data>(definition: Omit<AgentSpec<Data>, typeof describes> & Entity<Resumable>): Model {
  const sessionOf = async ({ engine, head }: Target) =>
    await hostOf(engine).open(definition, idBelow(definition.prefix, head.timeline) ?? '', { mustExist: true })
  return {
    ...agentKind,
    name: definition.name,
    scope: definition.prefix,
    fold: definition.fold as Fold<unknown>,
    usual: { checkpoint: usualCheckpoint },
    edits: sessionEdits(definition.dataVersion),
    exchanges: (timeline) => new SessionMail(timeline),
    outside: (state) => outsideOf(state as SessionState<unknown>),
    summarize(state) {
      const { turn, status, waiting, calls } = state as SessionState<unknown>
      if (!waiting) return { turn, status }
      const { kind, tool, args, call, reason } = waiting
      const effect = call === undefined ? undefined : calls.get(call)?.kind
      return { turn, status, waitsFor: reason ?? kind, awaits: { kind, tool, args, effect } }
    },
    actions: {
      ...actions,
      async resume(target) {
        const session = await sessionOf(target)
        try {
          const result = await session.resume()
          return { text: `${target.head.timeline}: turn ${result.turn} ${result.status}`, facts: { result } }
        } finally {
          await session.close()
        }
      },
      async rollback(target, { seq, undo, consumed }): Promise<Rollback> {
        const { engine, head } = target
        const { point } = await locate(hostOf(engine).kernel, { timeline: head.timeline, seq })
        const session = await sessionOf(target)
        try {
          const options = { to: { seq }, ...(undo && { undo }), consumed: 'force' as const }
          const { plan, archive } = await session.rollbackDecided(options, consumed)
          return {
            timeline: head.timeline,
            archive: archive as TimelineId,
            from: head.seq,
            to: { timeline: head.timeline, seq, epoch: head.epoch, digest: toHex(point.digest) },
            effects: noEffects,
            asked: { from: `sequence ${seq}`, undoes: plan.compensate.map((call) => `${call.tool} (${call.id})`) },
          }
        } finally {
          await session.close()
        }
      },
    },
  }
}

/**
 * The calls of a session as `reprise effects` lists them. Calls that wait for an approval or were refused have no
 * marker in the kernel's effect ledger, and calls whose markers were removed with the history below the floor are
 * still known here.
 */
function outsideOf({ calls }: Pick<SessionState<unknown>, 'calls'>): ModelEffect[] {
  return [...calls.values()].map(({ id, tool, kind, state, error }) => ({
    id,
    name: kind === 'model' ? 'model' : tool,
    // A call has no key before its intent is recorded.
    key: '',
    state,
    outcome: state === 'done' ? state : state === 'failed' || state === 'refused' ? 'failed' : null,
    seq: null,
    error: error === undefined ? null : String(error),
  }))
}

/**
 * Mail between sessions, read from a session's history: each message is one entry at its sender and one at its
 * receiver.
 */
class SessionMail implements ExchangeReader {
  readonly #timeline: string
  readonly #sent: SentMail[] = []
  readonly #received: { readonly seq: number; readonly key: string }[] = []

  constructor(timeline: string) {
    this.#timeline = timeline
  }

  read({ seq, type, data }: { readonly seq: number; readonly type: string; readonly data: unknown }): void {
    if (type === 'sent') {
      const { id, to, content } = data as { id: string; to: string; content: unknown }
      this.#sent.push({ seq, id, to, kind: 'agent-message', value: { from: this.#timeline, seq, content } })
    }
    if (type === 'received') this.#received.push({ seq, key: (data as { id: string }).id })
  }

  done(): Exchanged {
    return { sent: this.#sent, received: this.#received }
  }
}
