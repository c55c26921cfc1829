// One example per public verb. Each is compiled, run on a store of its own and shown on the page of what it names
// (docs/api). test/api-examples.test.ts says what has none.

import type { Reprise } from 'reprise'

export interface Example {
  /** `job`, or `JobRun.stop` for a method. */
  readonly shows: readonly string[]
  /** Where it runs; 'memory' if left out. SQL needs 'sqlite'. 'compiled': it needs what only its reader has. */
  readonly on: 'memory' | 'sqlite' | 'compiled'
  /** `folder` is empty, and removed afterwards. */
  run(rp: Reprise, folder: string): Promise<unknown>
}

export function example(shows: readonly string[], run: Example['run'], on: Example['on'] = 'memory'): Example {
  return { shows, run, on }
}
