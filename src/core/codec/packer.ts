// Packs values one after another into one buffer, with other bytes of the caller in between (core/history/packed-entries.ts).
// No value needs a separate array, and the decoded copy of each value is built in the same pass.

import type { ClassCodec } from './class-codec.ts'
import { encodeError } from './encode-error.ts'
import { ValueEncoder } from './encoder.ts'
import { RestEncoder } from './object-without-key.ts'
import { ValueWriter } from './writer.ts'

export class ValuePacker {
  readonly out: ValueWriter
  readonly #decoder: { decode(bytes: Uint8Array): unknown }
  readonly #encoder: ValueEncoder
  readonly #rests: RestEncoder

  constructor(
    decoder: { decode(bytes: Uint8Array): unknown },
    classes: ReadonlyMap<object, ClassCodec>,
    limits: { readonly valueBytes: number; readonly valueDepth: number },
  ) {
    this.#decoder = decoder
    this.out = new ValueWriter(limits.valueBytes, true)
    this.#encoder = new ValueEncoder(classes, limits, this.out)
    this.#rests = new RestEncoder(this.out, 'type')
  }

  /** Writes one more value and returns the value that decoding it returns. */
  add(value: unknown): unknown {
    try {
      this.#encoder.encodeBehind(value)
    } catch (error) {
      throw encodeError(error)
    }
    return this.#encoder.takeSimple() ?? this.#decoder.decode(this.out.value)
  }

  /** The same for an object without its type. */
  addWithoutType(value: object): unknown {
    try {
      const simple = this.#rests.encode(value)
      if (simple !== null) return simple
    } catch (error) {
      throw encodeError(error)
    }
    const { type: _, ...rest } = value as { readonly type?: unknown }
    return this.add(rest)
  }
}
