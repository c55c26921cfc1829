// A test of a workflow as its users write it, with and without a test runner: when the kit is closed, the process ends.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { workflow } from '../../lib/layers/workflow/index.js'
import { WorkflowKit } from '../../lib/testing/index.js'

async function sleepsThroughACrash() {
  const kit = new WorkflowKit({ crashAt: [{ effect: 1, when: 'after' }] })
  const nap = workflow('nap', async (ctx) => {
    await ctx.step('touch', () => kit.effect(() => 1))
    await ctx.sleep('1h')
    return 'rested'
  })
  assert.equal(await kit.result(await kit.run(nap, { id: 'one' })), 'rested')
  assert.equal(kit.crashes, 1)
  await kit.close()
}

if (process.argv[2] === 'plain') {
  await sleepsThroughACrash()
  console.log('rested')
} else test('sleeps through a crash', sleepsThroughACrash)
