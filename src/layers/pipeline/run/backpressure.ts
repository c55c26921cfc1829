// Backpressure: how long sources waited, by the operator or sink that could not take more records.

import { assert } from '../../../core/assert.ts'

export class Waits {
  readonly #now: () => number
  readonly #all = new Waited()
  readonly #byName = new Map<string, Waited>()

  constructor(now: () => number) {
    this.#now = now
  }

  /** True: sources wait for some part. */
  get isWaiting(): boolean {
    return this.#all.isWaiting
  }

  /** The total, with overlapping waits counted once. */
  get ms(): number {
    return this.#all.msAt(this.#now())
  }

  msFor(name: string): number {
    return this.#byName.get(name)?.msAt(this.#now()) ?? 0
  }

  begin(name: string): void {
    let own = this.#byName.get(name)
    if (!own) {
      own = new Waited()
      this.#byName.set(name, own)
    }
    this.#all.begin(this.#now())
    own.begin(this.#now())
  }

  end(name: string): void {
    this.#all.end(this.#now())
    this.#byName.get(name)!.end(this.#now())
  }
}

class Waited {
  #count = 0
  #since = 0
  #ms = 0

  get isWaiting(): boolean {
    return this.#count > 0
  }

  begin(now: number): void {
    if (this.#count === 0) this.#since = now
    this.#count += 1
  }

  end(now: number): void {
    assert(this.#count > 0, 'a wait that ends has begun')
    this.#count -= 1
    if (this.#count === 0) this.#ms += now - this.#since
  }

  msAt(now: number): number {
    return this.#ms + (this.#count > 0 ? now - this.#since : 0)
  }
}
