// A session with a gift without a probe, whose process is killed around the call; or one that resumes it.
//   node held.mjs URL SERVICE RUN before-call|after-call|resume

import { open } from '../../../dist/index.js'
import { agent, tool } from '../../../dist/layers/agent/index.js'

const [url, service, run, mode] = process.argv.slice(2)
const die = (place) => {
  if (mode === place) process.kill(process.pid, 'SIGKILL')
}

const held = agent('held', {
  model: ({ messages }) => {
    const last = messages.at(-1)
    if (last.role === 'tool') return { content: `done: ${last.content}` }
    return { content: '', requests: [{ tool: 'gift', args: { to: 'bob' } }] }
  },
  tools: {
    gift: tool({
      kind: 'irreversible',
      run: async (_args, { key }) => {
        die('before-call')
        const body = JSON.stringify({ kind: 'gift', key })
        await (await fetch(`${service}/${run}/call`, { method: 'POST', body })).json()
        die('after-call')
        return 'given'
      },
    }),
  },
})

const rp = await open(url)
const session = await rp.open(held, 's', { wait: '20s' })
const { status, content, waiting } = mode === 'resume' ? await session.resume() : await session.turn('go')
console.log(JSON.stringify({ status, content, waiting }))
await rp.close()
