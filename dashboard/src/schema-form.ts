// A form from the JSON Schema of an input: one field per property of an object, and JSON for everything else.

import type { Field, Values } from './form.tsx'

export interface JsonSchema {
  readonly type?: string | readonly string[]
  readonly title?: string
  readonly description?: string
  readonly properties?: Readonly<Record<string, JsonSchema>>
  readonly required?: readonly string[]
  readonly enum?: readonly unknown[]
  readonly default?: unknown
}

/** Fields of an input are named apart from the others of the dialog. */
const prefix = 'input.'
const whole: Field = { name: 'input', label: 'Input', hint: 'JSON, or left empty', isJson: true, isOptional: true }

export function fieldsOf(schema: JsonSchema | null): readonly Field[] {
  const properties = Object.entries(schema?.properties ?? {})
  if (!schema) return [whole]
  if (schema.type !== 'object' || properties.length === 0) {
    return [{ ...whole, hint: schema.description ?? `JSON of type ${schema.type ?? 'any'}`, isOptional: false }]
  }
  const required = new Set(schema.required ?? [])
  return properties.map(([name, property]) => ({
    name: prefix + name,
    label: property.title ?? name,
    hint: hintOf(property, required.has(name)),
    isOptional: !required.has(name),
    ...sortOf(property, required.has(name)),
  }))
}

function sortOf({ type, enum: values }: JsonSchema, isRequired: boolean): Partial<Field> {
  const texts = values?.every((value) => typeof value === 'string') ? (values as string[]) : null
  if (texts) return { options: isRequired ? texts : ['', ...texts] }
  if (type === 'boolean') return { options: isRequired ? ['false', 'true'] : ['', 'true', 'false'] }
  if (type === 'string') return {}
  return type === 'number' || type === 'integer' ? { isNumber: true } : { isJson: true }
}

function hintOf({ description, type, default: usual }: JsonSchema, isRequired: boolean): string {
  const words = [description ?? (typeof type === 'string' ? type : 'JSON')]
  if (!isRequired) words.push('may be left empty')
  if (usual !== undefined) words.push(`default: ${JSON.stringify(usual)}`)
  return words.join('; ')
}

/** The values that the form starts with: defaults of the schema, or an earlier input as an example. */
export function startValues(schema: JsonSchema | null, example: unknown): Values {
  const given = (value: unknown) => (typeof value === 'string' ? value : JSON.stringify(value, null, 2))
  const values: Record<string, string> = {}
  for (const { name, options, isJson } of fieldsOf(schema)) {
    const usual =
      name === whole.name ? (example ?? schema?.default) : schema?.properties?.[name.slice(prefix.length)]?.default
    values[name] = usual === undefined ? (options?.[0] ?? '') : isJson ? JSON.stringify(usual, null, 2) : given(usual)
  }
  return values
}

/** The input that the values describe; undefined: none. An empty field leaves its property out. */
export function inputOf(schema: JsonSchema | null, values: Values): unknown {
  const fields = fieldsOf(schema)
  if (fields[0]?.name === whole.name) return parsed(fields[0], values[whole.name] ?? '', undefined)
  const input: Record<string, unknown> = {}
  for (const field of fields) {
    const name = field.name.slice(prefix.length)
    const value = parsed(field, values[field.name] ?? '', schema?.properties?.[name])
    if (value !== undefined) input[name] = value
  }
  return input
}

function parsed({ isJson, isNumber, isOptional }: Field, text: string, schema: JsonSchema | undefined): unknown {
  if (text.trim() === '' && (isOptional || schema?.type !== 'string')) return undefined
  if (isJson) return JSON.parse(text)
  if (isNumber) return Number(text)
  return schema?.type === 'boolean' ? text === 'true' : text
}

/** The server's objections by the name of the field; those to no field are under ''. */
export function refusalsOf(fields: readonly Field[], issues: readonly { path: string; message: string }[]): Values {
  const refusals: Record<string, string> = {}
  for (const { path, message } of issues) {
    const field = fields.find(
      ({ name }) => path === name.slice(prefix.length) || path.startsWith(`${name.slice(prefix.length)}.`),
    )
    const name = field?.name ?? ''
    const text = field && path !== field.name.slice(prefix.length) ? `${path}: ${message}` : message
    refusals[name] = refusals[name] === undefined ? text : `${refusals[name]}; ${text}`
  }
  return refusals
}
