// The shape of data that any program may have written: imported entries and inbox messages. Fields that the shape does
// not name may have any value; a field whose type ends in a question mark may be absent or null.

export type Field = 'text' | 'number' | 'object' | 'list' | 'text?' | 'number?' | 'object?' | 'list?'
export type Shape = Readonly<Record<string, Field>>
/** Keyed by the type of the entry, or the kind of the message. */
export type Shapes = Readonly<Record<string, Shape>>

/**
 * Describes the first field that does not fit the shape; null: all fields fit.
 * @example faultIn({ id: 5 }, { id: 'text' }) // 'its id must be text (got number)'
 */
export function faultIn(data: unknown, shape: Shape): string | null {
  if (!isObject(data)) return `it must be an object (got ${shapeOf(data)})`
  for (const name in shape) {
    const field = shape[name]!
    const value = (data as Readonly<Record<string, unknown>>)[name]
    if (!fits(field, value)) return `its ${name} must be ${words[field]} (got ${shapeOf(value)})`
  }
  return null
}

const words: Readonly<Record<Field, string>> = {
  text: 'text',
  'text?': 'text or absent',
  number: 'a number',
  'number?': 'a number or absent',
  object: 'an object',
  'object?': 'an object or absent',
  list: 'a list',
  'list?': 'a list or absent',
}

function fits(field: Field, value: unknown): boolean {
  if (value === undefined || value === null) return field.endsWith('?')
  switch (field) {
    case 'text':
    case 'text?':
      return typeof value === 'string'
    case 'number':
    case 'number?':
      return typeof value === 'number'
    case 'list':
    case 'list?':
      return Array.isArray(value)
    case 'object':
    case 'object?':
      return isObject(value)
  }
}

export function isObject(value: unknown): boolean {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** The shape of a value in words. @example shapeOf([]) // 'a list' */
export function shapeOf(value: unknown): string {
  return value === null ? 'null' : Array.isArray(value) ? 'a list' : typeof value
}
