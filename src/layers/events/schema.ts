// Schemas of the data of commands and events: those of any library that implements Standard Schema.

import { RepriseError } from '../../core/errors.ts'
import { checkFunction } from '../../core/synchronous.ts'
import { invalid, type StandardSchema } from '../../engine/model/schema.ts'

/** A decision or evolution whose data has a schema. */
export type WithSchema<F> = F & { readonly schema: StandardSchema }

/** @example decide: { deposit: checked(z.object({ amount: z.number() }), (s, c) => ({ type: 'deposited', ...c })) } */
export function checked<State, Data, Info, Result>(
  schema: StandardSchema<unknown, Data>,
  call: (state: State, data: Data, info: Info) => Result,
): WithSchema<(state: State, data: Data, info: Info) => Result> {
  checkFunction(call, 'checked()')
  return Object.assign((state: State, data: Data, info: Info) => call(state, data, info), { schema })
}

/** The value as the schema returns it. Without a schema, the value itself. */
export function validate(call: unknown, what: string, value: unknown): unknown {
  const schema = (call as { schema?: StandardSchema } | undefined)?.schema
  if (!schema) return value
  const result = schema['~standard'].validate(value)
  if (result instanceof Promise) {
    throw new RepriseError(
      'INVALID_ARGUMENT',
      `the schema of ${what} must not be asynchronous: a decision cannot wait`,
      {
        what,
      },
    )
  }
  if (result.issues === undefined) return result.value
  throw invalid(what, result.issues)
}
