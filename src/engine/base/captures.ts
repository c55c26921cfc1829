// The captures of a process that put chunks right now, and how its row tells collectors of them (chunk-hold.ts).

/** In the row of a worker: since when its oldest capture puts chunks, or `noCapture`. Earlier versions do not say. */
export const capturesKey = 'captures'
export const noCapture = 'none'

/** The captures of this process. */
export class Captures {
  readonly #holds = new Set<{ readonly announcedSince: number }>()

  add(hold: { readonly announcedSince: number }): void {
    this.#holds.add(hold)
  }

  remove(hold: { readonly announcedSince: number }): void {
    this.#holds.delete(hold)
  }

  /** Chunks put since then may belong to one of them; null if none is under way. */
  get oldest(): number | null {
    return this.#holds.size === 0 ? null : Math.min(...[...this.#holds].map((hold) => hold.announcedSince))
  }
}
