// One changing line at the bottom of a terminal. Other output clears it first; it reappears by itself.

import { escaped } from './escape.ts'

const everyMs = 500

export class LiveLine {
  readonly #text: () => string
  readonly #timer: NodeJS.Timeout
  #isShown = false

  constructor(text: () => string) {
    this.#text = text
    this.#timer = setInterval(() => this.#draw(), everyMs)
    this.#timer.unref()
  }

  clear(): void {
    if (this.#isShown) process.stderr.write('\r\u{1B}[2K')
    this.#isShown = false
  }

  close(): void {
    clearInterval(this.#timer)
    this.clear()
  }

  #draw(): void {
    const width = (process.stderr.columns || 100) - 1
    process.stderr.write(`\r\u{1B}[2K${escaped(this.#text()).slice(0, width)}`)
    this.#isShown = true
  }
}
