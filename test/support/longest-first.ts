// The order of test files: those that take long come first, so that no long one is left running alone at the end. vitest
// remembers how long each took, but a clean clone remembers nothing, and goes by the size of the files.

import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

const root = fileURLToPath(new URL('../..', import.meta.url))

/** All that took more than 14 seconds in a whole run on two cores, the dearest first. */
export const long = [
  'test/simulation/simulation.test.ts',
  'test/hostile/models.test.ts',
  'test/engine/unfinished-changes.test.ts',
  'test/crash/boundaries.test.ts',
  'test/damage/bit-sweep.test.ts',
  'test/crash/states.test.ts',
  'test/cli/package.test.ts',
  'test/serverless/proof.test.ts',
  'test/simulation/mutation.test.ts',
  'test/engine/collect-killed.test.ts',
  'test/agent/doubt.test.ts',
  'test/engine/groups.test.ts',
  'test/entities/replicas.test.ts',
  'test/cli/cli.test.ts',
  'test/cli/read-only.test.ts',
  'test/cli/modules.test.ts',
  'test/cli/snippets.test.ts',
  'test/cli/staying.test.ts',
  'test/upload/clients.test.ts',
  'test/engine/disk-bound.test.ts',
  'test/entities/partitions.test.ts',
  'test/job/kill.test.ts',
  'test/cli/trouble.test.ts',
  'test/cli/interrupts.test.ts',
  'test/cli/operating.test.ts',
  'test/exec/kills.test.ts',
  'test/agent/cold.test.ts',
  'test/pipeline/kafka.test.ts',
  'test/entities/projection-replicas.test.ts',
  'test/pipeline/kafka-restarts.test.ts',
  'test/crash/paused-saver.test.ts',
  'test/simulation/file.test.ts',
  'test/pipeline/kill.test.ts',
  'test/prove.test.ts',
  'test/entities/models.test.ts',
  'test/cli/cache.test.ts',
  'test/server/dashboard-acts.test.ts',
  'test/engine/rekey.test.ts',
  'src/stores/postgres/postgres.test.ts',
  'test/damage/pages.test.ts',
  'test/workflow/order-stores.test.ts',
  'test/cli/threads.test.ts',
  'test/pipeline/threads.test.ts',
  'test/server/dashboard.test.ts',
  'test/agent/pages.test.ts',
  'test/crash/idle.test.ts',
  'test/cli/verbs.test.ts',
  'test/entities/rescale.test.ts',
  'test/resource/histories.test.ts',
  'test/server/caches-clients.test.ts',
  'test/cli/shapes.test.ts',
  'test/memo/two-machines.test.ts',
  'src/stores/postgres/plans.test.ts',
  'test/entities/projection.test.ts',
  'test/agent/kill.test.ts',
  'test/entities/damage.test.ts',
  'test/agent/replicas.test.ts',
  'test/engine/move.test.ts',
  'test/damage/flips.test.ts',
  'src/stores/postgres/timeouts.test.ts',
  'test/pipeline/nats.test.ts',
]

/** Files that observe the whole process, or change it. */
export const alone = ['test/engine/pure.test.ts', 'test/server/remote.test.ts', 'test/workflow/determinism.test.ts']

export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    for (const path of long)
      if (!existsSync(root + path)) throw new Error(`there is no ${path}: correct the list of long tests`)
    const rank = ({ moduleId }: TestSpecification) => {
      const index = long.indexOf(moduleId.slice(root.length))
      return index === -1 ? long.length : index
    }
    // The sort is stable: the others stay in vitest's own order.
    return (await super.sort(files)).sort((a, b) => rank(a) - rank(b))
  }
}
