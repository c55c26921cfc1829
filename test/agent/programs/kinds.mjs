// A session with tools of every kind, whose process is killed at a commit, or its remaining turns.
//   node kinds.mjs URL SERVICE RUN STEPS [COMMIT before|after]
// STEPS is JSON: { turn: [kind …] } or { back: turns }. Prints the number of commits.

import { open } from '../../../dist/index.js'
import { agent, tool } from '../../../dist/layers/agent/index.js'
import { hostOf } from '../../support/host.mjs'

const [url, service, run, steps, commit, side] = process.argv.slice(2)
const ask = async (act, body) =>
  await (await fetch(`${service}/${run}/${act}`, { method: 'POST', body: JSON.stringify(body) })).json()
const call =
  (kind) =>
  (args, { key }) =>
    ask('call', { kind, key, intent: `${kind} ${JSON.stringify(args)}` })

const definition = agent('kinds', {
  model: ({ messages }) => {
    const last = messages.at(-1)
    if (last.role === 'tool') return { content: 'done' }
    return { content: '', requests: last.content.map((name, i) => ({ tool: name, args: { i, at: messages.length } })) }
  },
  similarCalls: 'new',
  tools: {
    look: tool({ kind: 'read-only', run: call('look') }),
    set: tool({ kind: 'idempotent', run: call('set') }),
    pay: tool({
      kind: 'compensatable',
      inDoubt: 'retry',
      run: call('pay'),
      compensate: (_args, result) => ask('undo', result),
    }),
    mail: tool({ kind: 'irreversible', run: call('mail'), probe: (key) => ask('probe', { key }) }),
    // No probe exists for it, so the call is held for a person.
    gift: tool({ kind: 'irreversible', run: call('gift') }),
  },
})

const rp = await open(url)
let commits = 0
const { store } = hostOf(rp).kernel
const plain = store.commit.bind(store)
store.commit = async (batch) => {
  commits += 1
  if (commits === Number(commit) && side === 'before') process.kill(process.pid, 'SIGKILL')
  const outcomes = await plain(batch)
  if (commits === Number(commit)) process.kill(process.pid, 'SIGKILL')
  return outcomes
}

const session = await rp.open(definition, 's', { wait: '20s' })
/** The person: inspects the service and decides the held calls. */
const settle = async (result) => {
  let at = result
  while (at.status === 'waiting') {
    const { key } = session.effects.list().find((effect) => effect.id === at.waiting.call)
    const { happened, result: found } = await ask('probe', { key })
    if (happened) await session.decide('done', 'ann', { result: found })
    else await session.decide('retry', 'ann')
    at = await session.resume()
  }
}
if (session.isUnfinished || session.state.status === 'waiting') await settle(await session.resume())
const done = () => Number(session.state.settings.parameters?.done ?? 0)
for (const [i, step] of JSON.parse(steps).entries()) {
  // Turns that a later rollback undid are not requested again.
  if (done() > i) continue
  if (step.turn) await settle(await session.turn(step.turn, { key: `step ${i}` }))
  else {
    const to = Math.max(0, session.state.turn - step.back)
    await session.rollback({ to: to, settings: { parameters: { done: i + 1 } } })
  }
}
console.log(commits)
await rp.close()
