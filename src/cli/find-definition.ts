// Definitions of a module: those that `reprise run` can start, and the one of a kind that a person names.

import { RepriseError } from '../core/errors.ts'
import type { Process, Workable, works } from '../engine/model/definition.ts'

export interface Runnable extends Process<unknown, unknown> {
  readonly kind: string
  readonly [works]?: Workable[typeof works]
}

/**
 * The export with that name, or the only one if no name is given. The error lists the existing ones.
 * @example oneOf(projections, 'totals', 'projection', 'app.mjs')
 * /
 */
export function oneOf<T extends { readonly name: string }>(
  exported: readonly T[],
  name: string | undefined,
  what: string,
  file: string,
): T {
  const distinct = [...new Set(exported)]
  const chosen = name === undefined ? distinct : distinct.filter((each) => each.name === name)
  if (chosen.length === 1) return chosen[0]!
  const known = distinct.map((each) => each.name)
  if (known.length === 0) throw new RepriseError('NOT_FOUND', `${file} exports no ${what}`, { file, known })
  const some = `the ${what}${known.length === 1 ? '' : 's'} ${known.join(', ')}`
  if (chosen.length > 0) {
    throw new RepriseError('INVALID_ARGUMENT', `${file} exports ${some}: name one of them`, { file, known })
  }
  throw new RepriseError('NOT_FOUND', `${file} exports no ${what} ${name}, but ${some}`, { file, name, known })
}
