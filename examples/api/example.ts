// One example per public verb. Each is compiled, run on a store of its own and shown in docs/api on the page of the verb.
// test/api-examples.test.ts lists verbs without an example.

import type { Reprise } from 'reprise'

export interface Example {
  /** `job`, or `JobRun.stop` for a method. */
  readonly shows: readonly string[]
  /** Where it runs. Default: 'memory'. SQL needs 'sqlite'. 'compiled': it needs something that only its reader has. */
  readonly on: 'memory' | 'sqlite' | 'compiled'
  /** `folder` is empty, and removed afterwards. */
  run(rp: Reprise, folder: string): Promise<unknown>
}

export function example(shows: readonly string[], run: Example['run'], on: Example['on'] = 'memory'): Example {
  return { shows, run, on }
}
