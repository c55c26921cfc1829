// The parts of Standard Schema that an aggregate needs: any library's schema can describe the data of a command or an
// event. Only the interface is here (standardschema.dev), no library.

import { RepriseError } from '../../core/errors.ts'

export interface StandardSchema<Output = unknown> {
  readonly '~standard': {
    readonly version: 1
    readonly vendor: string
    readonly validate: (value: unknown) => SchemaResult<Output> | Promise<SchemaResult<Output>>
    readonly types?: { readonly input: unknown; readonly output: Output } | undefined
  }
}

export type SchemaResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly { readonly message: string; readonly path?: readonly unknown[] | undefined }[] }

/** A decision or evolution whose data has a schema. */
export type WithSchema<F> = F & { readonly schema: StandardSchema }

/** @example decide: { deposit: checked(z.object({ amount: z.number() }), (s, c) => ({ type: 'deposited', ...c })) } */
export function checked<State, Data, Info, Result>(
  schema: StandardSchema<Data>,
  call: (state: State, data: Data, info: Info) => Result,
): WithSchema<(state: State, data: Data, info: Info) => Result> {
  return Object.assign((state: State, data: Data, info: Info) => call(state, data, info), { schema })
}

/** The value as the schema returns it. Without a schema, the value itself. */
export function validate(call: unknown, what: string, value: unknown): unknown {
  const schema = (call as { schema?: StandardSchema } | undefined)?.schema
  if (!schema) return value
  const result = schema['~standard'].validate(value)
  if (result instanceof Promise) {
    throw new RepriseError('INVALID_ARGUMENT', `the schema of ${what} must not be asynchronous: deciding cannot wait`, {
      what,
    })
  }
  if (result.issues === undefined) return result.value
  const issues = result.issues.map(({ message, path }) => ({ message, path: (path ?? []).map(segment).join('.') }))
  const first = issues[0]
  throw new RepriseError('INVALID_ARGUMENT', `${what}: ${first?.path ? `${first.path}: ` : ''}${first?.message}`, {
    what,
    issues,
  })
}

function segment(part: unknown): string {
  return String(typeof part === 'object' && part !== null && 'key' in part ? part.key : part)
}
