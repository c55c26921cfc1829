// The OpenAPI 3.1 document, generated from the same values that the router and the checks read.

import { assert } from '../core/assert.ts'
import type { Route } from './route.ts'
import { published, type Schema } from './schema.ts'
import { problem } from './shapes.ts'

const statusesOfProblems = ['400', '401', '403', '404', '409', '410', '413', '415', '422', '500', '503', '504', '507']
/** Sent by the reader of the connection (listen.ts), before the request is known. */
const statusesUnread = ['408', '431']

/** The methods that OpenAPI defines. */
const known = new Set(['get', 'post', 'put', 'patch', 'delete', 'options'])

export function documentOf(routes: readonly Route[], version: string, basePath: string): Record<string, unknown> {
  const paths: Record<string, Record<string, unknown>> = {}
  const named = new NamedSchemas()
  for (const route of routes) {
    paths[route.path] ??= {}
    const name = route.method.toLowerCase()
    paths[route.path]![known.has(name) ? name : `x-${name}`] = operationOf(route, named)
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Reprise',
      version,
      description:
        'Errors are problem+json with a stable `code`. A timeline id is one segment of a path, with %2F for each slash. Every write accepts an Idempotency-Key.',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: basePath === '' ? '/' : basePath }],
    security: [{ token: [] }],
    paths,
    components: {
      securitySchemes: {
        token: { type: 'http', scheme: 'bearer' },
      },
      schemas: named.all,
    },
  }
}

function operationOf(route: Route, named: NamedSchemas): Record<string, unknown> {
  const {
    id,
    summary,
    tag,
    role,
    body,
    takesBytes,
    takesStream,
    answer,
    answerType = 'application/json',
    status = 200,
  } = route
  return {
    operationId: id,
    summary,
    tags: [tag],
    ...(role === null && { security: [] }),
    ...(role !== null && { description: describe(route) }),
    parameters: parametersOf(route),
    ...((body || takesBytes || takesStream) && { requestBody: bodyOf(route, named) }),
    responses: {
      [status]: {
        description: 'done',
        ...(status !== 204 && { content: { [answerType]: { schema: named.of(answer, `${capital(id)}Response`) } } }),
      },
      ...Object.fromEntries(statusesOfProblems.map((code) => [code, problemAnswer(route, named)])),
      ...Object.fromEntries(statusesUnread.map((code) => [code, problemAnswer({}, named)])),
    },
  }
}

/** A refusal made before the request is matched to this route (by host, size or namespace) is always a problem. */
function problemAnswer({ refusal }: Pick<Route, 'refusal'>, named: NamedSchemas): Record<string, unknown> {
  return {
    description: refusal ? 'refused, in the format of its clients, or a problem' : 'a problem, with its code',
    content: {
      'application/problem+json': { schema: named.of(problem, 'Problem') },
      ...(refusal && { [refusal.type]: { schema: named.of(refusal.schema, 'Refusal') } }),
    },
  }
}

function describe({ role, isWhole }: Route): string {
  return `Needs the role ${role}${isWhole ? ', and a token for the whole store' : ''}.`
}

function parametersOf({ path, query = {}, once }: Route): unknown[] {
  const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => {
    return { name, in: 'path', required: true, schema: { type: 'string', minLength: 1, maxLength: 2048 } }
  })
  const inQuery = Object.entries(query).map(([name, { isList, isRequired, description, ...schema }]) => {
    const one = published(schema as Schema)
    const details = { ...(description !== undefined && { description }), ...(isRequired && { required: true }) }
    return { name, in: 'query', ...details, schema: isList ? { type: 'array', items: one } : one }
  })
  const key = {
    name: 'Idempotency-Key',
    in: 'header',
    description: 'repeated requests with the same key are executed once and get the same response',
    schema: { type: 'string', minLength: 1, maxLength: 255 },
  }
  return [...inPath, ...inQuery, ...(once ? [key] : [])]
}

function bodyOf({ id, body, takesBytes, takesStream, bodyTypes, method }: Route, named: NamedSchemas): unknown {
  if (bodyTypes) {
    const content = Object.fromEntries(bodyTypes.map((type) => [type, { schema: {} }]))
    return { required: method !== 'DELETE', content }
  }
  if (takesBytes || takesStream) {
    const json = takesBytes === 'checkpointBytes' && { 'application/json': { schema: {} } }
    const type = takesStream === 'tus' ? 'application/offset+octet-stream' : 'application/octet-stream'
    return { required: takesStream !== 'tus', content: { ...json, [type]: { schema: {} } } }
  }
  const isRequired = (body?.required?.length ?? 0) > 0
  return { required: isRequired, content: { 'application/json': { schema: named.of(body!, `${capital(id)}Body`) } } }
}

/** Objects with properties, each once under a name of its own, so that a generated client has a type with this name. */
class NamedSchemas {
  readonly all: Record<string, Record<string, unknown>> = {}

  /** `usual`: the name to use if it has none. */
  of(schema: Schema, usual: string): Record<string, unknown> {
    const { nullable, description, default: _, ...shape } = schema
    const name = shape.name ?? usual
    const part = (each: Schema, key: string) => this.of(each, name + capital(key))
    if (!shape.properties) return published(schema, part)
    const one = published(shape, part)
    const known = this.all[name]
    assert(!known || JSON.stringify(known) === JSON.stringify(one), `two schemas have the name ${name}`)
    this.all[name] = one
    const $ref = `#/components/schemas/${name}`
    return { ...(nullable ? { anyOf: [{ $ref }, { type: 'null' }] } : { $ref }), ...(description && { description }) }
  }
}

function capital(name: string): string {
  return name.replaceAll(/(?:^|[^a-zA-Z0-9]+)(\w)/g, (_, letter: string) => letter.toUpperCase())
}
