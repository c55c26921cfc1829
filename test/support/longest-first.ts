// The order of test files: those that take long come first, so that no long one is left running alone at the end. vitest
// remembers how long each took, but a clean clone remembers nothing, and goes by the size of the files.

import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

const root = fileURLToPath(new URL('../..', import.meta.url))

/** All that took more than 20 seconds, the dearest first. */
const long = [
  'test/simulation/simulation.test.ts',
  'test/crash/states.test.ts',
  'test/crash/boundaries.test.ts',
  'test/job/kill.test.ts',
  'test/cli/cli.test.ts',
  'test/entities/replicas.test.ts',
  'test/cli/trouble.test.ts',
  'test/engine/disk-bound.test.ts',
  'test/server/dashboard.test.ts',
  'test/pipeline/kill.test.ts',
  'test/pipeline/kafka.test.ts',
  'test/pipeline/barriers.test.ts',
  'test/simulation/errands.test.ts',
  'test/prove.test.ts',
  'test/api-examples.test.ts',
  'test/crash/group.test.ts',
  'test/engine/groups.test.ts',
  'test/cli/package.test.ts',
  'test/damage/flips.test.ts',
  'test/crash/idle.test.ts',
  'test/damage/pages.test.ts',
  'test/cli/read-only.test.ts',
  'test/cli/staying.test.ts',
  'test/cli/shapes.test.ts',
  'test/cli/operating.test.ts',
  'test/cli/backup.test.ts',
  'test/agent/langgraph-official.test.ts',
  'test/cli/verbs.test.ts',
  'src/stores/postgres/postgres.test.ts',
  'test/cli/modules.test.ts',
  'test/cli/snippets.test.ts',
  'test/agent/doubt.test.ts',
  'test/cli/again.test.ts',
  'test/engine/many-rollbacks.test.ts',
  'test/entities/partitions.test.ts',
  'test/crash/postgres.test.ts',
  'test/simulation/file.test.ts',
  'test/simulation/mutation.test.ts',
  'test/agent/cold.test.ts',
  'test/cli/interrupts.test.ts',
  'test/agent/replicas.test.ts',
  'test/simulation/replicas.test.ts',
  'test/job/rate.test.ts',
  'test/agent/kill.test.ts',
  'test/crash/paused-saver.test.ts',
  'test/cli/delete.test.ts',
  'test/crash/zombie.test.ts',
  'test/engine/rekey.test.ts',
  'test/cli/before.test.ts',
]

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
