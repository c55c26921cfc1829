// Kits that are closed after each test.

import { afterEach } from 'vitest'
import { type KitOptions, WorkflowKit } from '../../src/testing/index.ts'

const kits: WorkflowKit[] = []
afterEach(async () => {
  for (const kit of kits.splice(0)) await kit.close()
})

export function kitWith(options: KitOptions = {}): WorkflowKit {
  const kit = new WorkflowKit(options)
  kits.push(kit)
  return kit
}
