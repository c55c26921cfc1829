// Searchable attributes as text: one letter for the type, then the value, so that 1, '1' and true differ.

import type { Attribute } from '../../../core/store/ports.ts'
import { damaged } from '../file/failure.ts'

export type Attributes = Readonly<Record<string, Attribute>>

export function encodeAttributes(attributes: Attributes): string {
  const pairs: [string, string][] = []
  for (const key in attributes) pairs.push([key, encodeAttribute(attributes[key]!)])
  return JSON.stringify(pairs)
}

export function decodeAttributes(text: string): Attributes {
  const pairs = JSON.parse(text) as [string, string][]
  // fromEntries defines properties, so that a key named __proto__ is a key like any other.
  return Object.fromEntries(pairs.map(([key, value]) => [key, decodeAttribute(value)]))
}

export function encodeAttribute(value: Attribute): string {
  switch (typeof value) {
    case 'string':
      return `s${value}`
    case 'number':
      return Object.is(value, -0) ? 'n-0' : `n${value}`
    default:
      return value ? 'b1' : 'b0'
  }
}

/** The form of a value for a search: 0 and -0 are equal. In JSON, so that any text survives SQLite. */
export function searchValue(value: Attribute): string {
  return JSON.stringify(encodeAttribute(value === 0 ? 0 : value))
}

function decodeAttribute(text: string): Attribute {
  const rest = text.slice(1)
  switch (text[0]) {
    case 's':
      return rest
    case 'n':
      return Number(rest)
    case 'b':
      return rest === '1'
    default:
      throw damaged(`an attribute has an unknown type ${text.slice(0, 1)}`)
  }
}
