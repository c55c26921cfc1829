// A session whose process is killed at a given place, and one that resumes it.
//   node agent-session.mjs URL SERVICE PLACE     PLACE: before-call, after-call, in-model, in-rollback, or none

import { open } from '../../lib/index.js'
import { agent, tool } from '../../lib/layers/agent/index.js'

const [url, service, place] = process.argv.slice(2)
const die = (at) => {
  if (at === place) process.kill(process.pid, 'SIGKILL')
}
const ask = async (path, body) =>
  await (await fetch(service + path, { method: 'POST', body: JSON.stringify(body) })).json()

const support = agent('killed', {
  model: async ({ messages, key }) => {
    const wish = messages.filter(({ role }) => role === 'user').at(-1).content
    const isAnswered = messages.at(-1).role === 'tool'
    await ask('/model', { key, intent: `${wish} ${isAnswered ? 'ends' : 'begins'}` })
    die(messages.length > 1 ? 'in-model' : '')
    return isAnswered
      ? { content: 'done' }
      : { content: '', requests: [{ tool: 'pay', args: { turn: messages.length, wish } }] }
  },
  tools: {
    pay: tool({
      kind: 'compensatable',
      inDoubt: 'retry',
      run: async ({ wish }, { key }) => {
        die('before-call')
        const paid = await ask('/pay', { key, intent: wish })
        die('after-call')
        return paid
      },
      compensate: async ({ wish }, result) => {
        await ask('/undo', { key: result.key, intent: wish })
        die('in-rollback')
      },
    }),
  },
})

const rp = await open(url)
const session = await rp.open(support, 's', { wait: '20s' })
if (session.isUnfinished) await session.resume()
// After a rollback, the first turn is not requested again.
if (session.state.archive === null) {
  await session.turn('pay ann', { key: 'first' })
  await session.rollback({ to: 0 })
}
await session.turn('pay bob', { key: 'second' })
console.log(JSON.stringify({ turn: session.state.turn, content: session.messages.at(-1).content }))
await rp.close()
