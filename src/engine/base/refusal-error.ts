// The error that a caller gets when the store refuses a commit.

import { RepriseError } from '../../core/errors.ts'
import type { Outcome } from '../../core/store/ports.ts'

export function refusalError(timeline: string, outcome: Extract<Outcome, { ok: false }>): RepriseError {
  const { code, reason, head, cause } = outcome
  const where = head ? { seq: head.seq, epoch: head.epoch, owner: head.owner } : {}
  return new RepriseError(code, `${timeline}: ${reason}`, { timeline, ...where }, cause)
}
