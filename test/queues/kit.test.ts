// The kit for external queues over a queue in memory, with hold times and without.

import { describe, it } from 'vitest'
import { FakeQueue, queueConformance } from '../../src/testing/index.ts'

const text = new TextDecoder()

for (const holdMs of [null, 300]) {
  queueConformance(
    { describe, it },
    {
      name: holdMs === null ? 'in memory, held by connections' : `in memory, held for ${holdMs} ms`,
      create: async () => {
        const queue = new FakeQueue({ holdMs })
        return {
          queue,
          textOf: ({ value }) => text.decode(value),
          send: async (texts) => queue.send(texts),
          size: async () => queue.size,
          async restart() {
            queue.goAway()
            await new Promise((resolve) => setTimeout(resolve, 50))
            queue.comeBack()
          },
          destroy: async () => undefined,
        }
      },
    },
  )
}
