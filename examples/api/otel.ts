// Examples of `reprise/otel`.

import assert from 'node:assert/strict'
import { agent } from 'reprise/agent'
import { exportSessions, instrument } from 'reprise/otel'
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
  example(['exportSessions', 'SessionExport.catchUp', 'SessionExport.status', 'SessionExport.close'], async (rp) => {
    // Stands for a receiver of OTLP, such as an OpenTelemetry collector.
    const received: string[] = []
    const receiver = async (_url: unknown, request?: { body?: unknown }) => {
      received.push(String(request?.body))
      return new Response('{}')
    }
    const session = await rp.open(agent('clerk', { model: () => ({ content: 'hello' }) }), 's')
    await session.turn('hi')
    const url = 'http://localhost:4318/v1/traces'
    const telemetry = await exportSessions(rp, { url, fetch: receiver as typeof fetch })
    await telemetry.catchUp()
    assert.ok(telemetry.status().isCaughtUp)
    assert.match(received[0]!, /invoke_agent clerk/)
    await telemetry.close()
  }),
]
