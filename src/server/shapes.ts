// Shapes shared by several routes, for the document and the checks.

import type { QuerySchema } from './route.ts'
import type { Schema } from './schema.ts'

export const any: Schema = {}
export const text: Schema = { type: 'string', maxLength: 2048 }
export const count: Schema = { type: 'integer', minimum: 0 }
export const millis: Schema = { type: 'integer', description: 'milliseconds since 1970' }
export const reason: Schema = { type: 'string', maxLength: 2048, description: 'why, for the record' }
export const by: Schema = {
  type: 'string',
  maxLength: 128,
  description: 'author (default: the name of the token)',
}

export function object(properties: Readonly<Record<string, Schema>>, required: readonly string[] = []): Schema {
  return { type: 'object', properties, required, additionalProperties: false }
}

/** Named in the document; a copy with other properties needs another name. */
export function named(name: string, schema: Schema): Schema {
  return { name, ...schema }
}

/** A response with these properties; later versions may add more. */
export function answer(properties: Readonly<Record<string, Schema>>): Schema {
  return { type: 'object', properties, required: Object.keys(properties) }
}

export function list(items: Schema): Schema {
  return { type: 'array', items }
}

export const coordinate: Schema = named(
  'Coordinate',
  answer({ timeline: text, seq: count, epoch: count, digest: text }),
)

export const head: Schema = named(
  'Head',
  answer({
    timeline: text,
    status: text,
    seq: count,
    epoch: count,
    digest: text,
    owner: { type: 'string', nullable: true },
    isOwnerAlive: { type: 'boolean' },
    floor: count,
    base: { type: 'object', nullable: true },
    queue: { type: 'string', nullable: true },
    priority: { type: 'integer' },
    wakeup: { type: 'integer', nullable: true },
    mail: count,
    attributes: { type: 'object' },
    failure: { type: 'object', nullable: true },
    createdAt: millis,
    updatedAt: millis,
  }),
)

export const entry: Schema = {
  name: 'Entry',
  type: 'object',
  properties: { seq: count, epoch: count, type: text, version: count, time: millis, key: text, data: any },
  required: ['seq', 'epoch', 'type', 'version', 'time'],
}

export const nextId: Schema = {
  type: 'string',
  nullable: true,
  description: 'pass it as `after` to continue; null at the end',
}

export const problem: Schema = named(
  'Problem',
  answer({
    type: text,
    title: text,
    status: { type: 'integer' },
    detail: { type: 'string' },
    code: text,
    remedy: { type: 'string', enum: ['retry', 'reload', 'fix', 'stop'] },
    hint: { type: 'string' },
    data: { type: 'object' },
  }),
)

export function limit(max: number): QuerySchema {
  return { type: 'integer', minimum: 1, maximum: max, default: 100, description: 'how many per page' }
}

export const seq: QuerySchema = { type: 'integer', minimum: 0, description: 'a sequence (default: the head)' }
