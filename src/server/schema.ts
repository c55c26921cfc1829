// The subset of JSON Schema that describes the API, and the check of a value against it: the server enforces exactly the
// constraints that the OpenAPI document states.

export interface Schema {
  /** Its name in the document. Default: from the route and the property that have it. */
  readonly name?: string
  readonly type?: 'object' | 'array' | 'string' | 'integer' | 'number' | 'boolean'
  readonly description?: string
  readonly properties?: Readonly<Record<string, Schema>>
  readonly required?: readonly string[]
  /** False: no other properties. Default: any. */
  readonly additionalProperties?: false | Schema
  readonly items?: Schema
  readonly enum?: readonly (string | number | boolean)[]
  readonly minimum?: number
  readonly maximum?: number
  readonly minLength?: number
  readonly maxLength?: number
  readonly minItems?: number
  readonly maxItems?: number
  readonly pattern?: string
  readonly nullable?: true
  readonly default?: unknown
}

/** Publishes a part of a schema: a property by its name, or the `item` of an array or the `value` of other properties. */
type PublishPart = (part: Schema, key: string) => Record<string, unknown>

/** The form of the document: nullable is `type: [t, 'null']` since OpenAPI 3.1, and an open object is declared as one. */
export function published(
  { name: _, nullable, ...schema }: Schema,
  part: PublishPart = (each) => published(each),
): Record<string, unknown> {
  const { type, properties, items, additionalProperties: others } = schema
  return {
    ...schema,
    ...(nullable && type && { type: [type, 'null'] }),
    ...(properties && {
      properties: Object.fromEntries(Object.entries(properties).map(([key, each]) => [key, part(each, key)])),
    }),
    ...(type === 'array' && { items: part(items ?? {}, 'item') }),
    ...(type === 'object' && { additionalProperties: others ? part(others, 'value') : (others ?? true) }),
  }
}

/**
 * The reason why the value does not match, as text; null if it does.
 * @example mismatch({ type: 'integer' }, 'x', 'limit') // 'limit must be an integer'
 * /
 */
export function mismatch(schema: Schema, value: unknown, where: string): string | null {
  if (value === null && schema.nullable) return null
  if (schema.type !== undefined && !isOf(schema.type, value)) return `${where} must be ${article(schema.type)}`
  if (schema.enum && !schema.enum.includes(value as string)) return `${where} must be one of ${schema.enum.join(', ')}`
  if (typeof value === 'number') return numberMismatch(schema, value, where)
  if (typeof value === 'string') return textMismatch(schema, value, where)
  if (Array.isArray(value)) return listMismatch(schema, value, where)
  if (typeof value === 'object' && value !== null) return objectMismatch(schema, value, where)
  return null
}

function isOf(type: NonNullable<Schema['type']>, value: unknown): boolean {
  switch (type) {
    case 'object':
      return typeof value === 'object' && value !== null && !Array.isArray(value)
    case 'array':
      return Array.isArray(value)
    case 'integer':
      return Number.isSafeInteger(value)
    default:
      return typeof value === type
  }
}

function article(type: string): string {
  return `${/^[aio]/.test(type) ? 'an' : 'a'} ${type}`
}

function numberMismatch({ minimum, maximum }: Schema, value: number, where: string): string | null {
  if (minimum !== undefined && value < minimum) return `${where} must be at least ${minimum} (got ${value})`
  if (maximum !== undefined && value > maximum) return `${where} must be at most ${maximum} (got ${value})`
  return null
}

function textMismatch({ minLength, maxLength, pattern }: Schema, value: string, where: string): string | null {
  if (minLength !== undefined && value.length < minLength) return `${where} must have at least ${minLength} characters`
  if (maxLength !== undefined && value.length > maxLength) return `${where} must have at most ${maxLength} characters`
  if (pattern !== undefined && !new RegExp(pattern, 'u').test(value)) return `${where} must match ${pattern}`
  return null
}

function listMismatch(schema: Schema, value: readonly unknown[], where: string): string | null {
  const { minItems, maxItems, items } = schema
  if (minItems !== undefined && value.length < minItems) return `${where} must have at least ${minItems} items`
  if (maxItems !== undefined && value.length > maxItems) return `${where} must have at most ${maxItems} items`
  if (!items) return null
  for (const [i, item] of value.entries()) {
    const what = mismatch(items, item, `${where}[${i}]`)
    if (what !== null) return what
  }
  return null
}

function objectMismatch(schema: Schema, value: object, where: string): string | null {
  const { properties = {}, required = [], additionalProperties } = schema
  for (const name of required) if (!Object.hasOwn(value, name)) return `${where}.${name} is missing`
  for (const [name, item] of Object.entries(value)) {
    const own = Object.hasOwn(properties, name) ? properties[name] : additionalProperties
    if (own === false) return `${where} has no ${name}: it has ${Object.keys(properties).join(', ') || 'nothing'}`
    const what = own ? mismatch(own, item, `${where}.${name}`) : null
    if (what !== null) return what
  }
  return null
}
