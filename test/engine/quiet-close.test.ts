// An engine that is closed in the middle of its work reports no problem: a closed store is expected then.

import { expect, test } from 'vitest'
import { RepriseError } from '../../src/core/errors.ts'
import { forwardStore } from '../../src/core/store/store-wrapper.ts'
import { sha256 } from '../../src/engine/base/platform.ts'
import { workflow } from '../../src/layers/workflow/index.ts'
import { createEngine } from '../../src/store.ts'
import { createWorld, openMemory } from '../../src/stores/memory/index.ts'
import { pause } from '../support/fixture.ts'
import { hostOf } from '../support/host.ts'

test('a claim that finds the store closed is a problem while the engine works, and none once it is closed', async () => {
  const store = openMemory({ namespace: 'default', hash: sha256, world: createWorld() })
  let isLooked = false
  let goOn: () => void = () => undefined
  let isHeld = false
  const claim = async () => {
    isLooked = true
    if (isHeld) await new Promise<void>((resolve) => (goOn = resolve))
    throw new RepriseError('CLOSED', 'the store is closed')
  }
  const rp = createEngine({ store: forwardStore(store, { claim }) })
  const problems: string[] = []
  rp.events.on('problem', ({ where }) => problems.push(where))
  rp.work([workflow('idle', async () => 1)])
  await expect.poll(() => problems).toContain('dispatcher')
  isHeld = true
  isLooked = false
  const { dispatcher } = hostOf(rp)
  while (!isLooked) {
    dispatcher.wake()
    await pause(5)
  }
  problems.length = 0
  const closing = rp.close()
  goOn()
  await closing
  await pause(20)
  expect(problems).toEqual([])
})
