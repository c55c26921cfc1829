// Telling what was done to a timeline: in words, or as facts with --json.

import type { Done } from '../engine/model/model.ts'
import { exit } from './exit.ts'
import type { Output } from './output.ts'

/** @example return tell(output, await act(engine, head, 'cancel', { reason })) */
export function tell(output: Output, { said, facts }: Done): number {
  output.result(facts, () => output.line(said))
  return exit.ok
}

/** Most errors name what they are about; then it is not said twice. */
export function problemWords(where: string, error: unknown): string {
  const what = error instanceof Error ? error.message : String(error)
  return what.startsWith(where) ? what : `${where}: ${what}`
}
