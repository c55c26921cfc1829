// Doing a verb to a timeline through its model: what the command line and the server both call.

import type { Head } from '../core/ports.ts'
import { hostOf } from '../engine/host.ts'
import { actionOf, type Done, type Target, type Verb } from '../engine/model.ts'
import type { Reprise } from '../engine/reprise.ts'
import { refuseMoved } from '../engine/tools/moved.ts'

/** Rolling back and forking have arguments and results of their own: `rp.rollback`, `rp.fork`. */
export type PlainVerb = Exclude<Verb, 'rollback' | 'fork'>

/**
 * `key`: asked again with the same one, it is done once.
 * @example await act(engine, head, 'cancel', { reason })
 */
export async function act(
  engine: Reprise,
  head: Head,
  verb: PlainVerb,
  args: Readonly<Record<string, unknown>>,
  key?: string,
): Promise<Done> {
  refuseMoved(head)
  const action = actionOf(hostOf(engine).models.find(head.timeline), verb, head.timeline)
  const target: Target = { engine, head, ...(key !== undefined && { key }) }
  return await (action as (target: Target, args: unknown) => Promise<Done>)(target, args)
}
