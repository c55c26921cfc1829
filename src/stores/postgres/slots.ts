// Limits the number of connections in use; further callers wait in line. This wait is separate from that for a server:
// waiting calls are served as long as calls finish occasionally, however many wait. Only if none finishes for longer than a
// statement may take are the waiting calls refused as busy.

import { RepriseError } from '../../core/errors.ts'

interface Waiting {
  readonly doing: string
  begin(): void
  refuse(error: RepriseError): void
}

export class Slots {
  readonly #count: number
  readonly #stalledMs: number
  readonly #line: Waiting[] = []
  #taken = 0
  #watch: NodeJS.Timeout | null = null

  /** `stalledMs`: how long no call may finish before waiting calls are refused. */
  constructor(count: number, stalledMs: number) {
    this.#count = count
    this.#stalledMs = stalledMs
  }

  /** True if a slot was free: most calls then need no promise. */
  tryTake(): boolean {
    if (this.#taken >= this.#count) return false
    this.#taken += 1
    return true
  }

  /** In call order. Throws STORE_BUSY. */
  take(doing: string): Promise<void> {
    return new Promise((begin, refuse) => {
      this.#line.push({ doing, begin, refuse })
      this.#watch ??= setTimeout(() => this.#refuseAll(), this.#stalledMs)
    })
  }

  release(): void {
    const next = this.#line.shift()
    if (!next) this.#taken -= 1
    if (this.#line.length === 0) this.#stopWatching()
    else this.#watch?.refresh()
    next?.begin()
  }

  #refuseAll(): void {
    this.#watch = null
    for (const { doing, refuse } of this.#line.splice(0)) {
      const what = `${doing}: all ${this.#count} connections were busy for ${this.#stalledMs / 1000} s, and none became free`
      refuse(new RepriseError('STORE_BUSY', what, { connections: this.#count, stalledMs: this.#stalledMs }))
    }
  }

  #stopWatching(): void {
    if (this.#watch) clearTimeout(this.#watch)
    this.#watch = null
  }
}
