// The outside as tests of keys see it: a receiver that honours keys, called with each intent in the test's own words, and a
// fault as soon as keys and intents disagree.

import { readFileSync } from 'node:fs'
import { OutsideLedger } from '../../src/testing/index.ts'

export class Outside {
  readonly ledger = new OutsideLedger()
  readonly #keys = new Map<string, string>()
  wrong: string | null = null

  receive(key: string, intent: string): string {
    const answer = this.ledger.receive(key, intent)
    const before = this.#keys.get(intent) ?? key
    this.#keys.set(intent, before)
    if (answer !== intent) this.wrong ??= `"${intent}" is answered with the result of "${answer}"`
    if (before !== key) this.wrong ??= `"${intent}" has the keys ${before} and ${key}`
    return answer
  }
}

/**
 * Null, or the fault in the calls that processes recorded in a file before they made them: a line each, with the key and the
 * intent. A killed process may leave half a line at the end.
 */
export function wrongIn(file: string): string | null {
  const text = readFileSync(file, 'utf8')
  const outside = new Outside()
  for (const line of text.slice(0, text.lastIndexOf('\n')).split('\n')) {
    const at = line.indexOf(' ')
    outside.receive(line.slice(0, at), line.slice(at + 1))
  }
  return outside.wrong
}
