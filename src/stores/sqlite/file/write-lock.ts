// The queue for the writing connection. User SQL keeps the connection across awaits; other writers wait in the queue.

export class WriteLock {
  #last: Promise<unknown> = Promise.resolve()
  #waiting = 0

  /** No writer holds or awaits the connection: work before the next await runs alone. */
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
