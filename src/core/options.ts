// Names of options, checked where they are given: a name that nobody knows would otherwise be passed over in silence,
// and a job without its rate limit is found out by whoever is called too often.

import { RepriseError } from './errors.ts'

/** @example checkOptions('job papers', options, new Set(['rate']), { rate: 'rate' }) */
export function checkOptions(
  where: string,
  given: object | undefined,
  known: ReadonlySet<string>,
  renamed: Readonly<Record<string, string>> = {},
): void {
  for (const name in given) {
    if (known.has(name)) continue
    const now = Object.hasOwn(renamed, name) ? renamed[name] : undefined
    const advice = now === undefined ? `use one of ${[...known].sort().join(', ')}` : `it is called ${now}`
    throw new RepriseError('INVALID_ARGUMENT', `${where}: there is no option ${name}; ${advice}`, {
      option: name,
      ...(now !== undefined && { use: now }),
    })
  }
}
