// Does an object store obey conditions? What it must do otherwise is in core/store/objects.ts.

import type { Objects } from '../../core/store/objects.ts'

export { type Meter, newMeter, type ObjectRow, type Objects, type Range } from '../../core/store/objects.ts'

/** Whether writes that must be new are refused where something is there. Leaves one small object. */
export async function probeConditions(objects: Objects): Promise<boolean> {
  const bytes = new TextEncoder().encode('reprise: does this store obey If-None-Match?\n')
  if (!(await objects.put('reprise-probe', bytes, true))) return true
  return !(await objects.put('reprise-probe', bytes, true))
}
