// The encoder's position in a value, tracked cheaply (one assignment per step) and formatted only for an error:
// `$.orders[3].price`, `$.seen<member 2>`.

import { RepriseError } from '../errors.ts'

export type Step = 'property' | 'item' | 'key' | 'value' | 'member' | 'class' | 'fields'

const stepsShown = 40

export class ValuePath {
  readonly #steps: Step[] = []
  readonly #names: (string | number)[] = []

  /** Sets the kind of step that leads from the container at this depth to its children. */
  enter(depth: number, step: Step): void {
    this.#steps[depth] = step
  }

  at(depth: number, name: string | number): void {
    this.#names[depth] = name
  }

  show(depth: number): string {
    let text = '$'
    const first = Math.max(0, depth - stepsShown)
    if (first > 0) text += `…(${first} more)…`
    for (let i = first; i < depth; i++) text += spell(this.#steps[i]!, this.#names[i]!)
    return text
  }

  refuse(depth: number, what: string, cause?: unknown): RepriseError {
    const path = this.show(depth)
    return new RepriseError('UNSERIALIZABLE', `cannot store ${what} at ${path}`, { path }, cause)
  }

  tooDeep(depth: number, max: number): RepriseError {
    const data = { limit: 'valueDepth', max, path: this.show(depth) }
    return new RepriseError('LIMIT_EXCEEDED', `a value is nested deeper than ${max}`, data)
  }
}

function spell(step: Step, name: string | number): string {
  if (step === 'fields') return ''
  if (step === 'item') return `[${name}]`
  if (step === 'class') return `<${name}>`
  if (step !== 'property') return `<${step} ${name}>`
  const key = String(name)
  if (/^[A-Za-z_$][\w$]*$/.test(key)) return `.${key}`
  return `[${JSON.stringify(key.length > 60 ? `${key.slice(0, 60)}…` : key)}]`
}
