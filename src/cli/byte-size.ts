// Sizes as text: 500MB, 2GB.

import { UsageError } from './exit.ts'

/** @example sizeOf('2GB', '--bytes') // 2_000_000_000 */
export function sizeOf(given: string, option: string): number {
  const found = /^(\d+(?:\.\d+)?) ?(B|KB|MB|GB|TB)?$/i.exec(given)
  if (!found) throw new UsageError(`${option} must be a size such as 500MB or 2GB, not ${given}`)
  const powers = { B: 0, KB: 1, MB: 2, GB: 3, TB: 4 }
  return Math.round(Number(found[1]) * 1000 ** powers[(found[2]?.toUpperCase() ?? 'B') as keyof typeof powers])
}
