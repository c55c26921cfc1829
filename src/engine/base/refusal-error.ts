// The error that a caller gets when the store refuses a commit.

import { isSignalCode, noTimelineHint, RepriseError, SignalError } from '../../core/errors.ts'
import type { Outcome } from '../../core/store/ports.ts'

export function refusalError(timeline: string, outcome: Extract<Outcome, { ok: false }>): RepriseError {
  const { code, reason, head, cause } = outcome
  const where = head ? { seq: head.seq, epoch: head.epoch, owner: head.owner } : {}
  const message = `${timeline}: ${reason}`
  const data = { timeline, ...where }
  if (isSignalCode(code)) return new SignalError(code, message, data, cause)
  return new RepriseError(code, message, data, cause, code === 'NOT_FOUND' ? noTimelineHint : undefined)
}
