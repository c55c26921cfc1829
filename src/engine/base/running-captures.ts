// The captures of this process that are putting chunks now, as published to collectors in the worker's row
// (chunk-hold.ts).

/** Field of a worker's row: when its oldest running capture started to put chunks, or `noCapture`. Older versions omit it. */
export const capturesKey = 'captures'
export const noCapture = 'none'

export class Captures {
  readonly #holds = new Set<{ readonly announcedSince: number }>()

  add(hold: { readonly announcedSince: number }): void {
    this.#holds.add(hold)
  }

  remove(hold: { readonly announcedSince: number }): void {
    this.#holds.delete(hold)
  }

  /** Chunks put since this time may belong to a running capture. Null: no capture is running. */
  get oldest(): number | null {
    return this.#holds.size === 0 ? null : Math.min(...[...this.#holds].map((hold) => hold.announcedSince))
  }
}
