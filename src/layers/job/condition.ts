// A condition variable within this process: every change notifies, and the waiters check again.

export class Condition {
  readonly #checks = new Set<() => void>()

  changed(): void {
    for (const check of this.#checks) check()
  }

  until(isMet: () => boolean): Promise<void> {
    if (isMet()) return Promise.resolve()
    return new Promise((resolve) => {
      const check = () => {
        if (!isMet()) return
        this.#checks.delete(check)
        resolve()
      }
      this.#checks.add(check)
    })
  }
}
