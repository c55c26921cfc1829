// Schemas of any library that implements Standard Schema (standardschema.dev): zod, valibot, arktype and others. A
// value is validated and, if the schema does so, transformed. A schema that can export itself as JSON Schema is
// exported, too.

import { RepriseError } from '../../core/errors.ts'

/** The part of the standard that is used here. */
export interface StandardSchema<Input = unknown, Output = Input> {
  readonly '~standard': {
    readonly version: 1
    readonly vendor: string
    readonly validate: (value: unknown) => SchemaResult<Output> | Promise<SchemaResult<Output>>
    readonly types?: { readonly input: Input; readonly output: Output } | undefined
  }
}

export type SchemaResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly SchemaIssue[] }

export interface SchemaIssue {
  readonly message: string
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined
}

export type Checked<Output> =
  | { readonly isValid: true; readonly value: Output }
  /** One line with the fault and its path. */
  | { readonly isValid: false; readonly why: string }

const issuesShownMax = 8

/** @example await checkWith(z.object({ cents: z.number() }), { cents: '1' }) // { isValid: false, why: 'cents: …' } */
export async function checkWith<Output>(
  schema: StandardSchema<unknown, Output>,
  value: unknown,
): Promise<Checked<Output>> {
  const result = await schema['~standard'].validate(value)
  if (!result.issues) return { isValid: true, value: result.value }
  const shown = result.issues.slice(0, issuesShownMax).map(issueText)
  const more = result.issues.length - shown.length
  return { isValid: false, why: [...shown, ...(more > 0 ? [`and ${more} more`] : [])].join('; ') }
}

export function isStandardSchema(value: unknown): value is StandardSchema {
  const standard = (value as Partial<StandardSchema> | null)?.['~standard']
  return typeof standard?.validate === 'function'
}

/** The value as the schema returns it; otherwise INVALID_ARGUMENT with `issues`, each with its path. */
export async function validated<Output>(
  schema: StandardSchema<unknown, Output>,
  what: string,
  value: unknown,
): Promise<Output> {
  const result = await schema['~standard'].validate(value)
  if (!result.issues) return result.value
  throw invalid(what, result.issues)
}

/** The refusal of a value: the first issue as text, all of them as data. */
export function invalid(what: string, found: readonly SchemaIssue[]): RepriseError {
  const issues = found.map(({ message, path = [] }) => ({ message, path: path.map(segment).join('.') }))
  const first = issues[0]
  const text = `${what}: ${first?.path ? `${first.path}: ` : ''}${first?.message}`
  return new RepriseError('INVALID_ARGUMENT', text, { what, issues })
}

/** Null: the schema has no JSON Schema form. */
export function jsonSchemaOf(schema: StandardSchema): Readonly<Record<string, unknown>> | null {
  const standard = schema['~standard'] as {
    readonly jsonSchema?: { input?(options: { readonly target: string }): Record<string, unknown> }
  }
  try {
    return standard.jsonSchema?.input?.({ target: 'draft-2020-12' }) ?? null
  } catch {
    return null
  }
}

function issueText({ message, path = [] }: SchemaIssue): string {
  return path.length === 0 ? message : `${path.map(segment).join('.')}: ${message}`
}

function segment(part: NonNullable<SchemaIssue['path']>[number]): string {
  return String(typeof part === 'object' ? part.key : part)
}
