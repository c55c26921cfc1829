// Encodes objects without one of their keys: entries, whose type is stored beside their data. Nearly all of them are plain
// objects of simple fields (texts, numbers, …) and are written here in one pass; all others take the slow path (encoder.ts).

import { codecVersion, tag } from './format.ts'
import { writeNumber } from './number.ts'
import { type Layout, layoutSlot, sameKeys, slots, type WriteShape, WriteShapes } from './shape.ts'
import type { ValueWriter } from './writer.ts'

export class RestEncoder {
  readonly #out: ValueWriter
  readonly #omitted: string
  readonly #shapes = new WriteShapes()
  /** Keyed by the keys of the whole object. */
  readonly #layouts: (Layout | undefined)[] = new Array(slots).fill(undefined)

  constructor(out: ValueWriter, omitted: string) {
    this.#out = out
    this.#omitted = omitted
  }

  /**
   * Appends the value to the buffer and returns the value that decoding returns. Null: nothing was written, and the value must
   * take the slow path. Getters are called, as copying the object would do.
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

  /** Null: the remaining keys have no shape, or one of them cannot be assigned. */
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
