// The write lock. A commit with user SQL awaits the user's function; other writers queue behind it. All other commits
// find the lock free and run synchronously.

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
