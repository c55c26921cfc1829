// Whose turn it is to write. A commit with the user's SQL waits for the user's function in the middle; other writers queue up
// behind it. Everything else finds the turn free and runs at once, synchronously.

export class WriteLock {
  #last: Promise<unknown> | null = null

  run<Result>(work: () => Result | Promise<Result>): Promise<Result> {
    if (this.#last) return this.#hold(this.#last.then(work, work))
    const result = work()
    return result instanceof Promise ? this.#hold(result) : Promise.resolve(result)
  }

  #hold<Result>(pending: Promise<Result>): Promise<Result> {
    this.#last = pending
    const free = () => {
      if (this.#last === pending) this.#last = null
    }
    pending.then(free, free)
    return pending
  }
}
