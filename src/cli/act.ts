// Doing a verb to a timeline through its model, and telling what was done.

import type { Head } from '../core/ports.ts'
import { hostOf } from '../engine/host.ts'
import { actionOf, type Done, type Verb } from '../engine/model.ts'
import type { Reprise } from '../engine/reprise.ts'
import { refuseMoved } from '../engine/tools/moved.ts'
import { exit } from './exit.ts'
import type { Output } from './output.ts'

type Plain = Exclude<Verb, 'rollback' | 'fork'>

/** @example return tell(output, await act(engine, head, 'cancel', { reason })) */
export async function act(engine: Reprise, head: Head, verb: Plain, args: Record<string, unknown>): Promise<Done> {
  refuseMoved(head)
  const action = actionOf(hostOf(engine).models.find(head.timeline), verb, head.timeline)
  return await (action as (target: { engine: Reprise; head: Head }, args: unknown) => Promise<Done>)(
    { engine, head },
    args,
  )
}

export function tell(output: Output, { said, facts }: Done): number {
  output.result(facts, () => output.line(said))
  return exit.ok
}
