// Whose turn it is to use the writing connection. A rider keeps its turn across awaits; the others queue up behind it.

export class Turn {
  #last: Promise<unknown> = Promise.resolve()

  run<Result>(work: () => Promise<Result>): Promise<Result> {
    const mine = this.#last.then(work)
    this.#last = mine.catch(() => {})
    return mine
  }
}
