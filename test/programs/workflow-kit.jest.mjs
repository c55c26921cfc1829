// The same as workflow-kit.mjs, under Jest, which gives `test` and `expect` to every file: when the kit is closed, it ends.

import { workflow } from '../../lib/layers/workflow/index.js'
import { WorkflowKit } from '../../lib/testing/index.js'

const { expect, test } = globalThis

test('sleeps through a crash', async () => {
  const kit = new WorkflowKit({ crashAt: [{ effect: 1, when: 'after' }] })
  const nap = workflow('nap', async (ctx) => {
    await ctx.step('touch', () => kit.effect(() => 1))
    await ctx.sleep('1h')
    return 'rested'
  })
  expect(await kit.result(await kit.run(nap, { id: 'one' }))).toBe('rested')
  await kit.close()
})
