// Thrown by `decide` to refuse a command. A refusal is an answer, not a failure: nothing was written and nothing is
// broken.

import { RepriseError } from '../../core/errors.ts'

export class Refused extends RepriseError {
  override readonly name: string = 'Refused'
  readonly reason: string

  /** @example throw new Refused('insufficient funds', { balance: 3 }) */
  constructor(reason: string, data: Readonly<Record<string, unknown>> = {}) {
    super('REFUSED', reason, data)
    this.reason = reason
  }
}
