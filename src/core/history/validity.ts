// Whether a state makes sense to the application: a predicate that its author declares. It runs before a state is captured
// and after one is restored; a state that fails it is never treated as valid, and nothing is deleted because of it.

import { refuseThenable } from '../synchronous.ts'

/** True or undefined: the state is valid. False, or the reason as text: it is not. */
export type Validity<State> = { ask(state: State): boolean | string | void }['ask']

/** The reason a state is invalid; null if it is valid. A predicate that throws makes the state invalid. */
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
  if (verdict === false) return 'valid(state) returned false'
  return typeof verdict === 'string' ? verdict : 'valid(state) returned neither a boolean nor a reason'
}

const byPerson = 'marked bad by '

/** A person's mark on a checkpoint, as stored in the catalog. No later reading, however clean, removes it. */
export function badMark(by: string, why: string): string {
  return `${byPerson}${by}: ${why}`
}

export function isBadMark(invalid: string | null): boolean {
  return invalid?.startsWith(byPerson) ?? false
}
