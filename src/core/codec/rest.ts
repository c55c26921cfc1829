// Objects that are written without one of their keys: entries, whose type stands beside their data. What nearly all of them are,
// plain objects of texts, numbers and the like, is written here in one pass; anything else goes the long way (encoder.ts).

import { codecVersion, tag } from './format.ts'
import { writeNumber } from './number.ts'
import { type Layout, layoutSlot, sameKeys, slots, type WriteShape, WriteShapes } from './shape.ts'
import type { ValueWriter } from './writer.ts'

export class RestEncoder {
  readonly #out: ValueWriter
  readonly #omitted: string
  readonly #shapes = new WriteShapes()
  /** By the keys of the whole object. */
  readonly #layouts: (Layout | undefined)[] = new Array(slots).fill(undefined)

  constructor(out: ValueWriter, omitted: string) {
    this.#out = out
    this.#omitted = omitted
  }

  /**
   * Writes it behind what is there, and gives what decoding gives. Null: nothing was written, and it has to go the long way. Its
   * getters are called, as a copy of it would do.
   */
  encode(value: object): Record<string, unknown> | null {
    if (Object.getOwnPropertySymbols(value).length > 0) return null
    const shape = this.#shapeOf(Object.keys(value))
    if (shape === null) return null
    const out = this.#out
    const before = out.length - out.start
    out.beginValue()
    out.byte(codecVersion)
    out.tagged(tag.newShape, shape.block.length)
    out.raw(shape.block)
    const copy = this.#fields(value as Record<string, unknown>, shape.keys)
    if (copy === null) out.length = out.start + before
    else out.endValue()
    return copy
  }

  #fields(value: Record<string, unknown>, keys: readonly string[]): Record<string, unknown> | null {
    const out = this.#out
    const copy: Record<string, unknown> = {}
    for (let i = 0; i < keys.length; i++) {
      const key = keys[i]!
      const field = value[key]
      if (typeof field === 'string') out.text(field)
      else if (typeof field === 'number') writeNumber(out, field)
      else if (typeof field === 'boolean') out.byte(field ? tag.true : tag.false)
      else if (field === null) out.byte(tag.null)
      else if (field === undefined) out.byte(tag.undefined)
      else return null
      copy[key] = field
    }
    return copy
  }

  /** Null: what is left has none, or a key that cannot be assigned. */
  #shapeOf(keys: readonly string[]): WriteShape | null {
    const slot = layoutSlot(keys)
    const layout = this.#layouts[slot]
    if (layout !== undefined && sameKeys(layout.keys, keys)) return layout.shape
    this.#shapes.tidy()
    const shape = this.#shapes.find(
      keys.filter((key) => key !== this.#omitted),
      true,
    )
    if (shape === null || shape.hasOddKey) return null
    this.#layouts[slot] = { keys, shape }
    return shape
  }
}
