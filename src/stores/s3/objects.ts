// Checks whether an object store honours conditions. core/store/objects.ts has its other obligations.

import type { Objects } from '../../core/store/objects.ts'

export { type Meter, newMeter, type ObjectRow, type Objects, type Range } from '../../core/store/objects.ts'

/** True if a write with `onlyNew` is refused for an existing object. Leaves one small object. */
export async function probeConditions(objects: Objects): Promise<boolean> {
  const bytes = new TextEncoder().encode('reprise: does this store obey If-None-Match?\n')
  if (!(await objects.put('reprise-probe', bytes, true))) return true
  return !(await objects.put('reprise-probe', bytes, true))
}
