// Event time stops before and after an operator while one of its records waits for a retry: a watermark that overtook the
// record would make it late. Withheld watermarks are passed on when the gate opens.

import type { Output } from '../batch.ts'

interface Withheld {
  time: number | null
  isIdle: boolean
}

export class WatermarkGate {
  readonly #isClosed: () => boolean
  readonly #inputs = new Map<Output, Withheld>()
  readonly #outputs = new Map<Output, Withheld>()

  constructor(isClosed: () => boolean) {
    this.#isClosed = isClosed
  }

  before(input: Output): Output {
    return this.#gated(input, this.#inputs)
  }

  behind(output: Output): Output {
    return this.#gated(output, this.#outputs)
  }

  /** No record waits any longer. Watermarks withheld after the operator are older than those withheld before it. */
  open(): void {
    for (const withheld of [this.#outputs, this.#inputs]) {
      const all = [...withheld]
      withheld.clear()
      for (const [to, { time, isIdle }] of all) {
        if (time !== null) to.watermark(time)
        if (isIdle) to.idle()
      }
    }
  }

  /** Records pass at any time. */
  #gated(to: Output, withheld: Map<Output, Withheld>): Output {
    const hold = (): Withheld => {
      const held = withheld.get(to) ?? { time: null, isIdle: false }
      withheld.set(to, held)
      return held
    }
    return {
      batch: (batch) => to.batch(batch),
      watermark: (time) => {
        if (this.#isClosed()) hold().time = time
        else to.watermark(time)
      },
      idle: () => {
        if (this.#isClosed()) hold().isIdle = true
        else to.idle()
      },
    }
  }
}
