// An agent, a workflow and a table that go back together, in a process that kills itself at its n-th commit.
//   node group-restorer.mjs URL prepare|restore|check [KILL-AT]

import { openStore } from '../../dist/engine/api/open.js'
import { open } from '../../dist/index.js'
import { agent, tool } from '../../dist/layers/agent/index.js'
import { table } from '../../dist/layers/table/index.js'
import { workflow } from '../../dist/layers/workflow/index.js'
import { createEngine } from '../../dist/store.js'

const [url, what, killAt = '0'] = process.argv.slice(2)
const undone = []

const guide = agent('guide', {
  model: ({ messages }) =>
    messages.at(-1).role === 'tool' ? { content: 'ok' } : { content: '', requests: [{ tool: 'book', args: {} }] },
  tools: {
    book: tool({
      kind: 'compensatable',
      inDoubt: 'retry',
      run: (_args, { key }) => ({ key }),
      compensate: () => undone.push('book'),
    }),
  },
})
const checkout = workflow('checkout', async (ctx) => {
  await ctx.step('reserve', () => 1, { compensate: () => undone.push('reserve') })
  const first = await ctx.signal('go')
  await ctx.step('charge', () => first, { compensate: () => undone.push('charge') })
  return `${first} ${await ctx.signal('go')}`
})
const stock = table('stock')
const members = ['agent/guide/ann', 'agent/guide/bob', 'workflow/checkout/42', 'table/stock']

const until = async (is) => {
  while (!(await is())) await new Promise((resolve) => setTimeout(resolve, 10))
}
const waits = (rp, seq) => async () => {
  const head = await rp.head('workflow/checkout/42')
  return head?.status === 'waiting' && head.seq > seq
}

/** Between the commits of its own process: the store has all of one, and nothing of the next. */
async function mortal() {
  const store = await openStore(url, {})
  let commits = 0
  const commit = store.commit.bind(store)
  store.commit = (batch) => {
    commits += 1
    if (commits === Number(killAt)) process.kill(process.pid, 'SIGKILL')
    return commit(batch)
  }
  return createEngine({ store })
}

const rp = what === 'restore' ? await mortal() : await open(url, { housekeeping: false })
const [ann, bob] = what === 'restore' ? [] : [await rp.open(guide, 'ann'), await rp.open(guide, 'bob')]
if (what === 'prepare') {
  rp.work([checkout])
  await ann.turn('hello')
  await ann.send('bob', 'in flight')
  const run = await rp.run(checkout, { id: '42' })
  await until(waits(rp, 0))
  const rows = await rp.open(stock)
  await rows.set('apples', { count: 10 })
  await rp.groups.capture('cut', members)
  const { seq } = await rp.head('workflow/checkout/42')
  await ann.turn('on')
  await bob.receive()
  await bob.send('ann', 'after the cut')
  await run.signal('go', 'first')
  await until(waits(rp, seq + 1))
  await rows.set('apples', { count: 3 })
}
if (what === 'restore') {
  for (const each of [guide, checkout, stock]) rp.declare(describe(each))
  const [left] = (await rp.groups.restores()).filter(({ status }) => status === 'restoring')
  if (left) await rp.groups.resume(left.id)
  else await rp.groups.restore({ cut: 'cut' })
}
if (what === 'check') {
  rp.work([checkout])
  await until(() => undone.includes('charge'))
  const rows = await rp.open(stock)
  const [toAnn, toBob] = [await ann.receive(), await bob.receive()]
  const { faults } = await rp.verify()
  const held = (await Promise.all(members.map((id) => rp.head(id)))).filter((head) => head.attributes.$held)
  console.log(JSON.stringify({ turn: ann.state.turn, apples: rows.get('apples').count, toAnn, toBob, faults, held }))
}
await rp.close()

function describe(definition) {
  return definition[Symbol.for('reprise.describes')]
}
