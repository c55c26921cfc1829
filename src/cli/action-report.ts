// Reports an action on a timeline: as text, or as facts with --json.

import type { ActionReport } from '../engine/model/model.ts'
import { exit } from './exit.ts'
import type { Output } from './output.ts'

/** Problems that are remembered: their wording may differ each time. */
const problemsMax = 1000

/** @example return printReport(output, await act(engine, head, 'cancel', { reason })) */
export function printReport(output: Output, { text, facts }: ActionReport): number {
  output.result(facts, () => output.line(text))
  return exit.ok
}

/** Most errors name their subject, which is then not repeated. */
export function problemWords(where: string, error: unknown): string {
  const what = error instanceof Error ? error.message : String(error)
  return what.startsWith(where) ? what : `${where}: ${what}`
}

/** The same problem again is printed once in this time, with how often it came. */
const repeatMs = 60_000

/**
 * Prints problems as they come: work that fails each second must not bury the rest of the output. False: not printed.
 * @example engine.events.on('problem', problemPrinter(output))
 */
export function problemPrinter(output: Pick<Output, 'note'>, now = () => performance.now()) {
  const known = new Map<string, { printedMs: number; more: number }>()
  return ({ where, error }: { readonly where: string; readonly error: unknown }): boolean => {
    const words = problemWords(where, error)
    const before = known.get(words)
    if (before && now() - before.printedMs < repeatMs) {
      before.more += 1
      return false
    }
    if (known.size >= problemsMax) known.clear()
    known.set(words, { printedMs: now(), more: 0 })
    output.note(before && before.more > 0 ? `${words} (${before.more + 1} times since the last line)` : words)
    return true
  }
}
