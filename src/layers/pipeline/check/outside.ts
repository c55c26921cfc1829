// Records how pipeline functions use the clock, randomness and the network during a replay. Globals are replaced for the
// duration of one synchronous call, so no other code sees the replacements. Each replay has a different time, random numbers
// stay random, and no request is made; each use is noted with the operator that made it.

/** An offset that changes the second, the hour, the weekday and the year. */
export const farMs = 400 * 86_400_000 + 5 * 3_600_000 + 7 * 60_000 + 11_003

export class Outside {
  readonly #shiftMs: number
  /** The stack of operators that called each other, the innermost last. */
  readonly #callers: string[] = []
  readonly #requestsBy = new Map<string, Set<string>>()
  /** Requests that functions tried to make, with their operators. */
  readonly requests: string[] = []

  constructor(shiftMs: number) {
    this.#shiftMs = shiftMs
  }

  /** The globals that an operator used, in order of use. */
  askedBy(operator: string): readonly string[] {
    return [...(this.#requestsBy.get(operator) ?? [])]
  }

  get askers(): readonly string[] {
    return [...this.#requestsBy.keys()]
  }

  /** Attributes every use of a global during `work` to this operator. */
  by<R>(operator: string, work: () => R): R {
    this.#callers.push(operator)
    try {
      return work()
    } finally {
      this.#callers.pop()
    }
  }

  /** Runs `work` with the globals replaced. `work` must be synchronous. */
  watch(work: () => void): void {
    const undo = this.#replace()
    try {
      work()
    } finally {
      for (const each of undo.reverse()) each()
    }
  }

  #ask(what: string): void {
    const operator = this.#callers.at(-1)
    if (operator === undefined) return
    const services = this.#requestsBy.get(operator) ?? new Set<string>()
    services.add(what)
    this.#requestsBy.set(operator, services)
    if (what === 'fetch') this.requests.push(operator)
  }

  #replace(): (() => void)[] {
    const { Date: date, Math: math, performance, crypto } = globalThis
    const now = () => date.now() + this.#shiftMs
    const shifted = new Proxy(date, {
      construct: (target, args: unknown[], as) => {
        if (args.length > 0) return Reflect.construct(target, args, as) as object
        this.#ask('Date')
        return Reflect.construct(target, [now()], as) as object
      },
      apply: () => {
        this.#ask('Date')
        return new date(now()).toString()
      },
      get: (target, name, receiver) => {
        if (name !== 'now') return Reflect.get(target, name, receiver) as unknown
        return () => {
          this.#ask('Date.now')
          return now()
        }
      },
    })
    const { random } = math
    return [
      swap(globalThis, 'Date', shifted),
      swap(math, 'random', this.#noted('Math.random', random)),
      swap(
        performance,
        'now',
        this.#noted('performance.now', () => now() - performance.timeOrigin),
      ),
      swap(crypto, 'randomUUID', this.#noted('crypto.randomUUID', crypto.randomUUID.bind(crypto))),
      swap(crypto, 'getRandomValues', this.#noted('crypto.getRandomValues', crypto.getRandomValues.bind(crypto))),
      swap(
        globalThis,
        'fetch',
        this.#noted('fetch', () => {
          throw new TypeError('no request is made while a pipeline is checked: use call() for requests')
        }),
      ),
    ]
  }

  #noted<Args extends unknown[], R>(what: string, real: (...args: Args) => R): (...args: Args) => R {
    return (...args) => {
      this.#ask(what)
      return real(...args)
    }
  }
}

/** Returns a function that restores the original. */
function swap(target: object, name: string, value: unknown): () => void {
  const held = Object.getOwnPropertyDescriptor(target, name)
  Object.defineProperty(target, name, {
    value,
    configurable: true,
    writable: true,
    enumerable: held?.enumerable ?? true,
  })
  return () => {
    if (held) Object.defineProperty(target, name, held)
    else Reflect.deleteProperty(target, name)
  }
}
