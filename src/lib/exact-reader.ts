// Reads exact lengths from a stream of pieces of any size, such as a file or the body of a response.

export class ExactReader {
  readonly #pieces: AsyncIterator<Uint8Array>
  readonly #endsEarly: () => Error
  #rest: Uint8Array = new Uint8Array(0)

  /** `endsEarly` creates the error for a stream that is shorter than a requested length. */
  constructor(stream: AsyncIterable<Uint8Array>, endsEarly: () => Error) {
    this.#pieces = stream[Symbol.asyncIterator]()
    this.#endsEarly = endsEarly
  }

  /** A copy, which keeps no larger buffer alive. Memory is taken as the bytes arrive: the stated length may be wrong. */
  async exactly(count: number): Promise<Uint8Array> {
    if (this.#rest.length >= count) return new Uint8Array(this.#take(count))
    const pieces: Uint8Array[] = []
    for await (const piece of this.pieces(count)) pieces.push(piece)
    const bytes = new Uint8Array(count)
    let at = 0
    for (const piece of pieces) {
      bytes.set(piece, at)
      at += piece.length
    }
    return bytes
  }

  async *pieces(count: number): AsyncGenerator<Uint8Array> {
    for (let left = count; left > 0; ) {
      if (await this.isAtEnd()) throw this.#endsEarly()
      const piece = this.#take(left)
      left -= piece.length
      yield piece
    }
  }

  async isAtEnd(): Promise<boolean> {
    while (this.#rest.length === 0) {
      const next = await this.#pieces.next()
      if (next.done) return true
      this.#rest = next.value
    }
    return false
  }

  #take(most: number): Uint8Array {
    const piece = this.#rest.subarray(0, most)
    this.#rest = this.#rest.subarray(piece.length)
    return piece
  }
}
