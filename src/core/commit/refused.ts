// A refusal in the middle of a decision: thrown where it is detected, turned into an outcome at the boundary.

import type { Refusal } from '../store/ports.ts'

export class Refused {
  readonly code: Refusal
  readonly reason: string
  readonly cause: unknown

  constructor(code: Refusal, reason: string, cause?: unknown) {
    this.code = code
    this.reason = reason
    this.cause = cause
  }
}

/** The user's own code in the transaction failed; its message is for the author of that code. */
export function riderFailed(cause: unknown): Refused {
  const reason = cause instanceof Error ? cause.message : String(cause)
  return new Refused('RIDER_FAILED', `the SQL inside the commit failed: ${reason}`, cause)
}
