// The arguments of `run` after the definition. The definition decides whether the first is an input or the options, never the
// values: an input may look like options.

import { RepriseError } from '../../core/errors.ts'

/** True if a type is exactly `void`, `undefined` or `never`: the definition takes no input. */
export type IsNone<Input> = 0 extends 1 & Input ? false : [Input] extends [void] ? true : false

/** The input, unless the definition takes none, and the options. The input is required unless its type allows undefined. */
export type RunArguments<Input, Options> =
  IsNone<Input> extends true
    ? [options?: Options]
    : undefined extends Input
      ? [input?: Input, options?: Options]
      : [input: Input, options?: Options]

export interface TakesInput {
  readonly name: string
  /**
   * False: `run` takes the options directly. Null: unknown, so that a single argument is refused. 'unused': the function ignores
   * its input, so that a single object is the options, and an input may still be passed before them. Default: true.
   */
  readonly takesInput?: boolean | 'unused' | null
}

/** @example const [input, options] = splitArguments('run()', papers, [{ report: 'auto' }]) // [undefined, { report: 'auto' }] */
export function splitArguments(
  verb: string,
  { name, takesInput = true }: TakesInput,
  given: readonly unknown[],
): readonly [input: unknown, options: unknown] {
  const [first, second] = given
  if (takesInput === true || given.length === 0) return [first, second]
  if (takesInput === null) {
    if (given.length > 1 || first === undefined) return [first, second]
    const what = `${verb}: the function of ${name} does not show whether it takes an input (it is bound, or has rest parameters)`
    throw new RepriseError('INVALID_ARGUMENT', `${what}: pass both the input, perhaps undefined, and the options`)
  }
  if (takesInput === 'unused' && (given.length > 1 || typeof first !== 'object')) return [first, second]
  const options = given.length === 1 ? first : second
  const isRight = options === undefined || options === null || typeof options === 'object'
  if (isRight && (given.length === 1 || first === undefined)) return [undefined, options]
  throw new RepriseError('INVALID_ARGUMENT', `${verb}: ${name} takes no input: pass its options after the definition`)
}
