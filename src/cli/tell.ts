// Telling what was done to a timeline: in words, or as facts with --json.

import type { Done } from '../engine/model.ts'
import { exit } from './exit.ts'
import type { Output } from './output.ts'

/** @example return tell(output, await act(engine, head, 'cancel', { reason })) */
export function tell(output: Output, { said, facts }: Done): number {
  output.result(facts, () => output.line(said))
  return exit.ok
}
