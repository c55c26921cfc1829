// Guardrails: predicates on a session that are looked at after every step. A broken one sends the session back to the
// last good turn, a bounded number of times and with other settings if it wants, and then hands over to a person.

import type { Message, Settings } from './message.ts'
import { type CallRecord, type SessionState, spentBy, spentInTurn } from './state.ts'

export interface GuardrailView<Data> {
  readonly state: Readonly<SessionState<Data>>
  /** The messages and calls of the turn under way. */
  readonly messages: readonly Message[]
  readonly calls: readonly CallRecord[]
}

export interface Guardrail<Data = unknown> {
  readonly name: string
  /** Nothing, or what is wrong. */
  check(view: GuardrailView<Data>): string | undefined | null | false
  /**
   * What it watches is not undone by a rollback. It is then looked at before a turn asks the model as well: the session
   * is handed over instead of going further over.
   */
  readonly outlastsRollback?: boolean
  /** How often it may roll back before a person is asked; 2 if left out. */
  readonly rollbacksMax?: number
  /** What the next attempt is made with, so that it does not go wrong in the same way. */
  change?(attempt: number, reason: string): Settings
}

/** The same call with the same arguments, again and again. @example noLoops({ repeatsMax: 3 }) */
export function noLoops<Data = unknown>(
  options: { readonly repeatsMax?: number } & Partial<Pick<Guardrail<Data>, 'rollbacksMax' | 'change'>> = {},
): Guardrail<Data> {
  const { repeatsMax = 3, ...rest } = options
  return {
    name: 'no-loops',
    ...rest,
    check({ calls }) {
      const counts = new Map<string, number>()
      for (const call of calls) {
        if (call.kind === 'model') continue
        const count = (counts.get(call.digest) ?? 0) + 1
        counts.set(call.digest, count)
        if (count > repeatsMax) return `${call.tool} was called ${count} times with the same arguments`
      }
      return null
    },
  }
}

/**
 * Tokens or cost, of one turn (its attempts that were rolled back included) or of the whole session. At most one model
 * call goes beyond it. It hands over at once, unless `rollbacksMax` says to undo the turn before.
 * @example withinBudget({ turnCost: 0.5 })
 */
export function withinBudget<Data = unknown>(
  options: {
    readonly turnCost?: number
    readonly sessionCost?: number
    readonly turnTokens?: number
    readonly sessionTokens?: number
  } & Partial<Pick<Guardrail<Data>, 'rollbacksMax' | 'change'>>,
): Guardrail<Data> {
  const { turnCost, sessionCost, turnTokens, sessionTokens, ...rest } = options
  return {
    name: 'within-budget',
    outlastsRollback: true,
    rollbacksMax: 0,
    ...rest,
    check({ state }) {
      const turn = spentInTurn(state, state.turn)
      const session = spentBy(state)
      const checks: [string, number | undefined, number][] = [
        ['the turn cost', turnCost, turn.cost],
        ['the session cost', sessionCost, session.cost],
        ['the turn took tokens', turnTokens, turn.inputTokens + turn.outputTokens],
        ['the session took tokens', sessionTokens, session.inputTokens + session.outputTokens],
      ]
      for (const [what, max, is] of checks) if (max !== undefined && is > max) return `${what}: ${is} of ${max}`
      return null
    },
  }
}
