// Whose turn it is to use the writing connection. The user's SQL keeps its turn across awaits; the others queue up behind it.

export class WriteLock {
  #last: Promise<unknown> = Promise.resolve()
  #waiting = 0

  /** Nobody is at it or waits for it: what is done before the next await is done alone. */
  get isFree(): boolean {
    return this.#waiting === 0
  }

  run<Result>(work: () => Promise<Result>): Promise<Result> {
    this.#waiting += 1
    const mine = this.#last.then(work).finally(() => {
      this.#waiting -= 1
    })
    this.#last = mine.catch(() => {})
    return mine
  }
}
