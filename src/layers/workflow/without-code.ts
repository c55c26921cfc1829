// A workflow of which only the name is known: enough to send mail to a run and to read its history. It is never
// executed.

import { RepriseError } from '../../core/errors.ts'
import type { AnyWorkflow } from './context.ts'
import { workflowPrefix } from './names.ts'

/** @example host.handle(withoutCode('checkout'), 'order-42').signal('paid') */
export function withoutCode(name: string): AnyWorkflow {
  return { kind: 'workflow', name, prefix: `${workflowPrefix}${name}/`, run: notHere, options: {} }
}

export function isWithoutCode({ run }: AnyWorkflow): boolean {
  return run === notHere
}

function notHere(): never {
  throw new RepriseError('BUG', 'the code of this workflow is not here')
}
