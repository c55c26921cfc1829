// Guardrails: predicates on a session that are checked after every step. A violated guardrail rolls the session back to
// the last good turn, a bounded number of times and optionally with other settings, and then hands over to a person.

import { checkGivenOptions, checkOptions } from '../../core/options.ts'
import { checkFunctions } from '../../core/synchronous.ts'
import type { Message, Settings } from './message.ts'
import { type CallRecord, type SessionState, spentBy, spentInTurn } from './state.ts'

export interface GuardrailView<Data> {
  readonly state: Readonly<SessionState<Data>>
  /** The messages and calls of the current turn. */
  readonly messages: readonly Message[]
  readonly calls: readonly CallRecord[]
}

export interface Guardrail<Data = unknown> {
  readonly name: string
  /** Returns nothing, or the reason for a violation. */
  check(view: GuardrailView<Data>): string | undefined | null | false
  /**
   * A rollback does not reset the value that this guardrail checks. It is then also checked before a turn calls the
   * model, so the session is handed over before it exceeds the limit further.
   */
  readonly outlastsRollback?: boolean
  /** How often the guardrail may roll back before the session is handed over to a person. Default: 2. */
  readonly rollbacksMax?: number
  /** The settings of the next attempt, so that it does not fail in the same way. */
  change?(attempt: number, reason: string): Settings
}

const loopOptions = new Set(['repeatsMax', 'rollbacksMax', 'change'])
const budgetOptions = new Set(['turnCost', 'sessionCost', 'turnTokens', 'sessionTokens', 'rollbacksMax', 'change'])

/** Detects the same call with the same arguments, repeated. @example noLoops({ repeatsMax: 3 }) */
export function noLoops<Data = unknown>(
  options: { readonly repeatsMax?: number } & Partial<Pick<Guardrail<Data>, 'rollbacksMax' | 'change'>> = {},
): Guardrail<Data> {
  checkOptions('noLoops', options, loopOptions)
  checkFunctions('noLoops', options, [], ['change'])
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
 * Limits tokens or cost, of one turn (rolled back attempts included) or of the whole session. At most one model call
 * exceeds the limit. The session is handed over at once, unless `rollbacksMax` allows undoing the turn first.
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
  checkGivenOptions('withinBudget', options, budgetOptions)
  checkFunctions('withinBudget', options, [], ['change'])
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
