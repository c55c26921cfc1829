// Progress of a transfer: a bar on a terminal, and nothing in a pipe, where the result is sufficient.

import { formatMs } from '../core/duration.ts'
import { printable } from '../core/printable.ts'
import { bytes } from '../operations/figures-as-text.ts'

const drawEveryMs = 100
const clearLine = '\r\x1b[2K'

export class ByteBar {
  readonly #name: string
  readonly #stream: NodeJS.WriteStream
  readonly #from: number
  readonly #startedAt = performance.now()
  #drawnAt = Number.NEGATIVE_INFINITY
  #isDrawn = false

  /** `from`: bytes already present do not count for the rate. */
  constructor(name: string, from: number, stream: NodeJS.WriteStream = process.stderr) {
    this.#name = name
    this.#from = from
    this.#stream = stream
  }

  at(done: number, total: number | null): void {
    if (!this.#stream.isTTY) return
    const now = performance.now()
    if (now - this.#drawnAt < drawEveryMs && done !== total) return
    this.#drawnAt = now
    this.#isDrawn = true
    const line = drawBytes(
      this.#name,
      { done, total, from: this.#from, ms: now - this.#startedAt },
      this.#stream.columns || 80,
    )
    this.#stream.write(clearLine + line)
  }

  end(): void {
    if (this.#isDrawn) this.#stream.write('\n')
    this.#isDrawn = false
  }
}

/** @example drawBytes('a.bin', { done: 5e6, total: 1e7, from: 0, ms: 1000 }, 80) // 'a.bin ━━──  50% 4.8 MB/9.5 MB …' */
export function drawBytes(
  name: string,
  { done, total, from, ms }: { done: number; total: number | null; from: number; ms: number },
  columns: number,
): string {
  const perMs = ms > 0 ? (done - from) / ms : 0
  const words = [
    total === null ? bytes(done) : `${bytes(done)}/${bytes(total)}`,
    `${bytes(Math.round(perMs * 1000))}/s`,
  ]
  if (total !== null && done < total && perMs > 0)
    words.push(`${formatMs(Math.ceil((total - done) / perMs / 1000) * 1000)} left`)
  const tail = words.join('  ')
  if (total === null) return printable(`${name} ${tail}`).slice(0, Math.max(20, columns - 1))
  const part = total === 0 ? 1 : done / total
  const width = Math.max(5, Math.min(40, columns - name.length - tail.length - 9))
  const full = Math.round(part * width)
  const percent = `${Math.floor(part * 100)}%`.padStart(4)
  const line = `${name} ${'━'.repeat(full)}${'─'.repeat(width - full)} ${percent} ${tail}`
  return printable(line).slice(0, Math.max(20, columns - 1))
}
