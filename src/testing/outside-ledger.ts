// A model of an outside service that honours idempotency keys: a repeated key returns the first result and has no effect.
// It remembers the intent of each call, so that a test can check whether keys and intents agree.

import { inspect, isDeepStrictEqual } from 'node:util'

export interface LedgerCall {
  readonly key: string
  readonly intent: unknown
  /** False: the key was known, and the call returned the first result. */
  readonly isDone: boolean
}

/**
 * A receiver that honours keys.
 * @example await ctx.step('charge', ({ key }) => bank.receive(key, { charge: 'ann', amount: 500 }))
 */
export class OutsideLedger {
  readonly #first = new Map<string, { readonly intent: unknown; readonly answer: unknown }>()
  readonly #calls: LedgerCall[] = []

  /** Executes the intent once per key. Default of `answer`: the intent. */
  receive<Intent>(key: string, intent: Intent): Intent
  receive<Answer>(key: string, intent: unknown, answer: Answer): Answer
  receive(key: string, intent: unknown, answer: unknown = intent): unknown {
    const known = this.#first.get(key)
    this.#calls.push({ key, intent, isDone: known === undefined })
    if (known) return known.answer
    this.#first.set(key, { intent, answer })
    return answer
  }

  get calls(): readonly LedgerCall[] {
    return this.#calls
  }

  /** The executed intents, in order. */
  get done(): readonly unknown[] {
    return this.#calls.filter(({ isDone }) => isDone).map(({ intent }) => intent)
  }

  /** Calls that returned the result of another intent. Must be empty: equal keys imply equal intents. */
  get confused(): readonly LedgerCall[] {
    return this.#calls.filter(({ key, intent }) => !isDeepStrictEqual(this.#first.get(key)!.intent, intent))
  }

  /** Intents that were executed under several keys. Must be empty if each intent is meant to be executed once. */
  get repeated(): readonly unknown[] {
    const alike = new Map<string, unknown[]>()
    return this.done.filter((intent) => {
      const words = wordsOf(intent)
      const others = alike.get(words) ?? []
      if (others.some((other) => isDeepStrictEqual(other, intent))) return true
      alike.set(words, [...others, intent])
      return false
    })
  }
}

/** Equal for equal intents, whatever the order of their fields, so that each is compared with few others. */
function wordsOf(intent: unknown): string {
  const whole = { getters: true, depth: null, maxArrayLength: null, maxStringLength: null }
  return inspect(intent, { ...whole, sorted: true, breakLength: Number.POSITIVE_INFINITY })
}
