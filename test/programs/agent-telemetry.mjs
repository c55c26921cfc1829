// Takes turns of a session, or exports the spans of all sessions until it is killed.
//   node agent-telemetry.mjs URL turns COUNT | export RECEIVER

import { exportSessions } from '../../dist/adapters/otel/index.js'
import { open } from '../../dist/index.js'
import { agent, tool } from '../../dist/layers/agent/index.js'

const [url, mode, given] = process.argv.slice(2)
const clerk = agent('clerk', {
  model: ({ messages }) =>
    messages.at(-1).role === 'tool'
      ? { content: 'done', usage: { inputTokens: 20, outputTokens: 2, cost: 0.2 } }
      : { content: '', requests: [{ tool: 'look', args: {} }], usage: { inputTokens: 10, outputTokens: 1, cost: 0.1 } },
  tools: { look: tool({ kind: 'read-only', run: () => 'seen' }) },
})

const rp = await open(url)
if (mode === 'turns') {
  const session = await rp.open(clerk, 's')
  for (let n = 0; n < Number(given); n++) await session.turn('look')
  await session.close()
} else {
  const telemetry = await exportSessions(rp, { url: given })
  await telemetry.catchUp()
  await telemetry.close()
}
await rp.close()
