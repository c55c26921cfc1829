// An event that happens once, with waiters. Nothing is allocated before the first waiter: there are many runs.

export class Latch<T = void> {
  #happened: { readonly value: T } | null = null
  #waiting: ((value: T) => void)[] | null = null

  get isSet(): boolean {
    return this.#happened !== null
  }

  /** Only the first call counts. */
  set(value: T): void {
    if (this.#happened) return
    this.#happened = { value }
    for (const resolve of this.#waiting ?? []) resolve(value)
    this.#waiting = null
  }

  wait(): Promise<T> {
    if (this.#happened) return Promise.resolve(this.#happened.value)
    return new Promise((resolve) => {
      this.#waiting ??= []
      this.#waiting.push(resolve)
    })
  }
}
