// Fields of dialogs: each shows the fault of its value beside it.

import { jsonFault } from './json-fault.ts'

export interface Field {
  readonly name: string
  readonly label: string
  readonly hint?: string | undefined
  readonly options?: readonly string[]
  readonly isJson?: boolean
  readonly isNumber?: boolean
  readonly isOptional?: boolean
  /** Required if that field is set. */
  readonly goesWith?: string
}

export type Values = Readonly<Record<string, string>>

interface InputProps {
  readonly field: Field
  readonly value: string
  /** The server's objection to the value. */
  readonly refusal?: string | undefined
  readonly onChange: (value: string) => void
}

export function Input({ field, value, refusal, onChange }: InputProps) {
  const { label, hint, options, isJson, name } = field
  const isLong = isJson || name === 'keys'
  const id = `field-${name}`
  // An empty field is not shown as a fault.
  const fault = (value.trim() === '' ? null : faultIn(field, value, {})) ?? refusal ?? null
  const common = {
    id,
    value,
    'aria-invalid': fault !== null,
    'aria-describedby': `${id}-hint`,
    onInput: (event: { currentTarget: { value: string } }) => onChange(event.currentTarget.value),
  }
  return (
    <div class="field">
      <label htmlFor={id}>{label}</label>
      {options ? (
        <select {...common}>
          {options.map((option) => (
            <option key={option}>{option}</option>
          ))}
        </select>
      ) : isLong ? (
        <textarea rows={Math.min(12, Math.max(3, value.split('\n').length))} spellcheck={false} {...common} />
      ) : (
        <input {...common} inputMode={field.isNumber ? 'decimal' : undefined} />
      )}
      <small id={`${id}-hint`} aria-live="polite" class={fault === null ? '' : 'fault'}>
        {fault ?? hint}
      </small>
    </div>
  )
}

/** The faults of all fields, each with the name of its field. */
export function faultsIn(fields: readonly Field[], values: Values): string[] {
  return fields.flatMap((field) => {
    const fault = faultIn(field, values[field.name] ?? '', values)
    return fault === null ? [] : [`${field.label}: ${fault}`]
  })
}

/** The fault of the value as text; null: none. */
function faultIn(
  { isOptional, isJson, isNumber, name, goesWith }: Field,
  value: string,
  values: Values,
): string | null {
  const isNeeded = goesWith !== undefined && (values[goesWith] ?? '').trim() !== ''
  if (value.trim() === '') return isOptional && !isNeeded ? null : 'must be given'
  if (name === 'seq') return /^\d+$/.test(value) ? null : 'must be the number of an entry'
  if (isNumber) return Number.isFinite(Number(value)) ? null : 'must be a number'
  return isJson ? jsonFault(value) : null
}
