// Whether a state makes sense to the application: a predicate that its author declares. Asked before a state is captured
// and after one is restored; a state that fails it is never taken for a good one, and nothing is deleted because of it.

import { refuseThenable } from '../synchronous.ts'

/** True (or nothing): it is valid. False, or the reason in words: it is not. */
export type Validity<State> = { ask(state: State): boolean | string | void }['ask']

/** Why a state is not valid; null if it is. A predicate that throws could not say that it is. */
export function whyInvalid<State>(valid: Validity<State> | undefined, state: State): string | null {
  if (!valid) return null
  let verdict: unknown
  try {
    verdict = valid(state)
  } catch (error) {
    return `valid(state) threw: ${error instanceof Error ? error.message : String(error)}`
  }
  refuseThenable(verdict, 'valid(state)', 'decide from the state alone')
  if (verdict === true || verdict === undefined || verdict === '') return null
  if (verdict === false) return 'valid(state) says no'
  return typeof verdict === 'string' ? verdict : 'valid(state) gave neither a boolean nor a reason'
}

const byPerson = 'marked bad by '

/** The mark of a person on a checkpoint, as the catalog keeps it. No reading, however sound, takes it back. */
export function badMark(by: string, why: string): string {
  return `${byPerson}${by}: ${why}`
}

export function isBadMark(invalid: string | null): boolean {
  return invalid?.startsWith(byPerson) ?? false
}
