// Notifies listeners when something may be due or readable: at once after transactions of this process, and by polling the
// file's version for those of other processes, but only while there are listeners.

const pollMs = 50

export class Listeners {
  readonly #wakes = new Set<{ readonly wake: (mayBeDue: boolean, mayHaveRequests: boolean) => void }>()
  readonly #version: () => number | null
  #timer: ReturnType<typeof setInterval> | null = null
  #seen: number | null = null
  #isTelling = false
  #mayBeDue = false
  /** Another connection has written, perhaps a request. */
  #isForeign = false

  /** `version` changes when another connection has written; null if it is unknown now. */
  constructor(version: () => number | null) {
    this.#version = version
  }

  add(wake: (mayBeDue: boolean, mayHaveRequests: boolean) => void): () => void {
    const listener = { wake }
    this.#wakes.add(listener)
    if (!this.#timer) {
      this.#seen = this.#version()
      this.#timer = setInterval(() => this.#poll(), pollMs)
      this.#timer.unref()
    }
    return () => {
      this.#wakes.delete(listener)
      if (this.#wakes.size === 0) this.end()
    }
  }

  /** Consecutive transactions within one turn of the event loop cause one notification. */
  notify(mayBeDue: boolean): void {
    if (this.#wakes.size === 0) return
    this.#mayBeDue ||= mayBeDue
    if (this.#isTelling) return
    this.#isTelling = true
    setImmediate(() => {
      const isDue = this.#mayBeDue
      const isForeign = this.#isForeign
      this.#isTelling = false
      this.#mayBeDue = false
      this.#isForeign = false
      for (const listener of [...this.#wakes]) if (this.#wakes.has(listener)) listener.wake(isDue, isForeign)
    })
  }

  end(): void {
    this.#wakes.clear()
    if (this.#timer) clearInterval(this.#timer)
    this.#timer = null
  }

  #poll(): void {
    const version = this.#version()
    if (version === null || version === this.#seen) return
    this.#seen = version
    this.#isForeign = true
    this.notify(true)
  }
}
