// Progress of long work: one line at the bottom of a terminal, once it takes longer than a second; in a pipe nothing, or on
// request a line every few seconds.

import { LiveLine } from './live-line.ts'
import type { Output } from './output.ts'

const shownAfterMs = 1000
const noteEveryMs = 2000

export class ProgressLine {
  readonly #output: Output
  readonly #isAsked: boolean
  readonly #startedAt = performance.now()
  #notedAt = performance.now()
  #line: LiveLine | null = null
  #text: () => string = () => ''

  /** `isAsked`: also in a pipe. */
  constructor(output: Output, isAsked = false) {
    this.#output = output
    this.#isAsked = isAsked
  }

  at(text: () => string): void {
    this.#text = text
    const now = performance.now()
    if (process.stderr.isTTY) {
      if (!this.#line && now - this.#startedAt >= shownAfterMs) this.#line = new LiveLine(() => this.#text())
    } else if (this.#isAsked && now - this.#notedAt >= noteEveryMs) {
      this.#notedAt = now
      this.#output.note(text())
    }
  }

  close(): void {
    this.#line?.close()
    this.#line = null
  }
}

/** @example share(45, 100) // '45 of about 100 (45%)' */
export function share(done: number, total: number | null): string {
  const shown = (number: number) => number.toLocaleString('en-US')
  if (total === null || total <= 0) return shown(done)
  return `${shown(done)} of about ${shown(Math.max(done, total))} (${Math.min(100, Math.floor((100 * done) / total))}%)`
}
