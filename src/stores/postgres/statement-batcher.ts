// Combines concurrent requests: while the maximum number of statements is running, new requests gather, and the next
// statement takes them all. A single request does not wait. A request among many costs a fraction of a statement.

export class Together<Ask, Answer> {
  readonly #ask: (asks: readonly Ask[]) => Promise<readonly Answer[]>
  #waiting: Waiting<Ask, Answer>[] = []
  #underWay = 0
  #isFlushing = false

  /** `ask` answers each request, in order, or rejects. */
  constructor(ask: (asks: readonly Ask[]) => Promise<readonly Answer[]>) {
    this.#ask = ask
  }

  answer(ask: Ask): Promise<Answer> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ ask, resolve, reject })
      if (this.#isFlushing) return
      this.#isFlushing = true
      // After all requests made at the same time.
      queueMicrotask(() => {
        this.#isFlushing = false
        this.#flush()
      })
    })
  }

  #flush(): void {
    while (this.#waiting.length > 0 && this.#underWay < lanes) void this.#send(this.#waiting.splice(0, atOnce))
  }

  async #send(some: readonly Waiting<Ask, Answer>[]): Promise<void> {
    this.#underWay += 1
    try {
      const answers = await this.#ask(some.map(({ ask }) => ask))
      for (const [index, { resolve }] of some.entries()) resolve(answers[index]!)
    } catch (error) {
      for (const { reject } of some) reject(error)
    } finally {
      this.#underWay -= 1
      this.#flush()
    }
  }
}

interface Waiting<Ask, Answer> {
  readonly ask: Ask
  resolve(answer: Answer): void
  reject(error: unknown): void
}

/** Several lanes, so that one long answer does not delay all others. */
const lanes = 4
const atOnce = 64
