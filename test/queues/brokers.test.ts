// The queues of real brokers pass the kit, which kills the broker too. Each broker is started here, on a port and with data of
// its own, and left out with a printed reason where it cannot be had.

import { afterAll, beforeAll, describe, it } from 'vitest'
import { queueConformance } from '../../src/testing/index.ts'
import type { RunningPart } from '../support/parts.ts'
import { type Broker, brokers, isChosen } from './brokers.ts'

const decoder = new TextDecoder()
const holdMs = 1000

for (const broker of brokers)
  describe.skipIf(!isChosen(broker, ['redis']))(`a broker of ${broker.name}`, () => onBroker(broker))

function onBroker(broker: Broker): void {
  let server: RunningPart
  let count = 0
  beforeAll(async () => {
    server = await broker.start!()
  }, 120_000)
  afterAll(async () => await server?.stop())

  queueConformance(
    { describe, it: (title, body) => it(title, body, 120_000) },
    {
      name: broker.name,
      async create() {
        count += 1
        const made = await broker.queue(server.port, `kit-${count}`, holdMs)
        return {
          ...made,
          textOf: ({ value }: { readonly value: Uint8Array }) => decoder.decode(value),
          async restart() {
            await server.kill()
            server = await broker.start!(server)
          },
          destroy: async () => undefined,
        }
      },
    },
  )
}
