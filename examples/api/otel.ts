// Examples of `reprise/otel`.

import assert from 'node:assert/strict'
import { instrument } from 'reprise/otel'
import { workflow } from 'reprise/workflow'
import { example } from './example.ts'

export default [
  example(['instrument'], async (rp) => {
    // With an SDK of OpenTelemetry in place, runs, steps and attempts are spans from here on.
    const off = instrument(rp)
    const greet = workflow('greet', async (ctx, name: string) => await ctx.step('greet', () => `Hello ${name}`))
    assert.equal(await rp.run(greet, 'ann').result(), 'Hello ann')
    off()
  }),
]
