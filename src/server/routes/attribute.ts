// An attribute in the form of a query parameter.

import { RepriseError } from '../../core/errors.ts'
import type { Attribute } from '../../core/store/ports.ts'

/** @example attributeOf('dead=1') // ['dead', 1] */
export function attributeOf(pair: string): [string, Attribute] {
  const at = pair.indexOf('=')
  if (at < 1) throw new RepriseError('INVALID_ARGUMENT', 'attribute must be KEY=VALUE', {})
  const value = pair.slice(at + 1)
  if (value === 'true' || value === 'false') return [pair.slice(0, at), value === 'true']
  return [pair.slice(0, at), /^-?\d+(\.\d+)?$/.test(value) ? Number(value) : value]
}
