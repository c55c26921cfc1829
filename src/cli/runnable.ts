// A definition that `reprise run` can start.

import type { Process, Workable, works } from '../engine/definition.ts'

export interface Runnable extends Process<unknown, unknown> {
  readonly kind: string
  readonly [works]?: Workable[typeof works]
}
