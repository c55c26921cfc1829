// One answer requests four tools at once; the process is killed with one of them done, two called outside and not recorded, and
// one not called yet. A second run completes the turn.
//   node parallel.mjs URL SERVICE kill|go

import { open } from '../../../dist/index.js'
import { agent, tool } from '../../../dist/layers/agent/index.js'

const [url, service, mode] = process.argv.slice(2)
const ask = async (path, key) =>
  await (await fetch(`${service}/${path}`, { method: 'POST', body: JSON.stringify({ key }) })).json()

/** Those that are cut off wait for the moment of the kill. */
let cutOff = 0
const isDone = (name) =>
  session.effects.list().some((effect) => effect.name.includes(name) && effect.outcome === 'done')
async function untilKilled() {
  cutOff += 1
  while (!(cutOff === 3 && isDone('quick'))) await new Promise((resolve) => setTimeout(resolve, 5))
  process.kill(process.pid, 'SIGKILL')
}

const definition = agent('parallel', {
  model: ({ messages }) =>
    messages.at(-1).role === 'tool'
      ? { content: 'done' }
      : { content: '', requests: ['quick', 'slow', 'mail', 'late'].map((name) => ({ tool: name, args: {} })) },
  tools: {
    quick: tool({ kind: 'idempotent', parallel: true, run: (_, { key }) => ask('quick', key) }),
    slow: tool({
      kind: 'idempotent',
      parallel: true,
      run: async (_, { key }) => {
        const result = await ask('slow', key)
        if (mode === 'kill') await untilKilled()
        return result
      },
    }),
    // Done outside, and only a probe can find out: it must not be called again.
    mail: tool({
      kind: 'irreversible',
      parallel: true,
      run: async (_, { key }) => {
        const result = await ask('mail', key)
        if (mode === 'kill') await untilKilled()
        return result
      },
      probe: async (key) => ({ happened: true, result: { key, found: true } }),
    }),
    late: tool({
      kind: 'idempotent',
      parallel: true,
      run: async (_, { key }) => {
        if (mode === 'kill') await untilKilled()
        return await ask('late', key)
      },
    }),
  },
})

const rp = await open(url)
const session = await rp.open(definition, 's', { wait: '20s' })
const { status, content } = session.isUnfinished ? await session.resume() : await session.turn('go')
const effects = session.effects.list().filter(({ name }) => !name.includes('model'))
console.log(JSON.stringify({ status, content, effects: effects.map(({ outcome, key }) => ({ outcome, key })) }))
await rp.close()
