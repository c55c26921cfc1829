// A process that was paused between a claim and its answer: it was declared dead meanwhile, and others continued the claimed
// timelines. The returned heads are theirs, with their epoch.

import { expect, it } from 'vitest'
import type { WorkerId } from '../../src/core/coordinate.ts'
import { workflow } from '../../src/layers/workflow/index.ts'
import { hostOf } from '../support/host.ts'
import { onEveryStore } from '../support/worlds.ts'

onEveryStore(
  'what another owner has by now',
  (world) => {
    it.each([
      ['is at work on', (queue: string | null) => queue],
      ['has ended', () => null],
    ])('%s, is left alone, and the process goes on', async (_, queueNow) => {
      const engine = await (await world()).engine()
      const done: string[] = []
      const greet = workflow('greet', async (ctx, name: string) => void (await ctx.step('say', () => done.push(name))))
      const { store } = hostOf(engine).kernel
      const claim = store.claim.bind(store)
      let answers = 0
      store.claim = async (request) => {
        const heads = await claim(request)
        if (heads.length === 0 || answers > 0) return heads
        answers += 1
        return heads.map((head) => ({ ...head, owner: 'another' as WorkerId, queue: queueNow(head.queue) }))
      }
      await engine.run(greet, 'first', { id: 'first', here: false })
      engine.work([greet])
      await expect.poll(() => answers).toBe(1)
      await (await engine.run(greet, 'second', { id: 'second', here: false })).result()
      expect(done).toEqual(['second'])
    })
  },
  ['memory'],
)
