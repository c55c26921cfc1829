// The adviser's knowledge, as data: the configuration for each set of answers, the reason, what to watch, and code that runs.
// A test runs every snippet.

import { controlAdvices } from './advice-control.ts'
import { flowAdvices } from './advice-flows.ts'
import { programAdvices } from './advice-program.ts'
import type { Advice, Answers } from './advice-shape.ts'

/** The first match is used; a row matches every value of an answer that it omits. */
export const advices: readonly Advice[] = [
  ...flowAdvices,
  ...controlAdvices,
  ...programAdvices,
  {
    id: 'B5-agent',
    title: 'a session of an agent',
    when: { about: 'conversation' },
    why: 'Messages, model calls and tool calls are recorded one by one: a crash repeats no call with a recorded outcome, people approve the calls that need approval, and a wrong turn is rolled back together with its effects.',
    watch: [
      'a tool that changes something needs a compensation, or it cannot be undone',
      'a model call that was cut off may have been billed: choose the reaction with modelInDoubt',
    ],
    code: `import { open } from 'reprise'
import { agent, tool } from 'reprise/agent'

// Stands for your model.
const model = async ({ messages }) => ({ content: \`you said: \${messages.at(-1).content}\` })
export const support = agent('support', {
  model,
  tools: {
    refund: tool({ kind: 'compensatable', run: ({ cents }) => ({ refunded: cents }), compensate: () => undefined }),
  },
})

const rp = await open()
const session = await rp.open(support, 'ann')
console.log(await session.turn('hello'))
await session.close()
await rp.close()
`,
  },
  {
    id: 'B1-migrate',
    title: 'migrations (numbered steps)',
    when: { about: 'changes' },
    why: 'A fixed list of changes, each done once and in order: every step is recorded with its checksum, SQL in one transaction with its record.',
    watch: [
      'a step that was applied must not change: add another',
      'a step in code may run again after a crash: use step.save and step.key',
    ],
    code: `import { open } from 'reprise'
import { migrations } from 'reprise/migrate'

export const schema = migrations('advised-schema', {
  steps: [{ id: '001-notes', sql: 'CREATE TABLE IF NOT EXISTS advised_notes (id INTEGER PRIMARY KEY, text TEXT)' }],
})

const rp = await open()
console.log(await rp.run(schema).result())
await rp.close()
`,
  },
  {
    id: 'B1-mirror',
    title: 'a mirror of another system (a job into a table)',
    when: { truth: 'external', captures: 'both' },
    why: 'The other system is the authority, and the store holds a copy with the position up to which it was read. Every row carries its version; a changed row is read again, and the copy can always be rebuilt.',
    watch: [
      'a list of existing rows does not show deletions: read deletions separately, or compare regularly',
      'never write to the copy: the next run would overwrite the change',
    ],
    code: `import { open } from 'reprise'
import { job, keyRange } from 'reprise/job'
import { table } from 'reprise/table'

// Stands for the other system.
const rows = [1, 2, 3].map((id) => ({ id, name: \`row \${id}\`, updatedAt: 1 }))
const rp = await open()
const copy = await rp.open(table('mirror'))
export const mirror = job('mirror', {
  source: keyRange({ after: (id, limit) => rows.filter((row) => row.id > (id ?? 0)).slice(0, limit), key: (row) => row.id, again: true }),
  key: (row) => row.id,
  version: (row) => row.updatedAt,
  retry: { attempts: 5 },
  each: (row) => copy.set(String(row.id), row),
})

console.log(await rp.run(mirror).result(), copy.get('1'))
await rp.close()
`,
  },
  {
    id: 'B5-probe',
    title: 'steps that query the other system for their outcome',
    when: { truth: 'external', captures: 'execution' },
    why: 'Only the bank knows whether a payment was made. Each attempt has the same key, and after a crash the probe queries the bank before the call is repeated.',
    watch: [
      'the other system must support the key: otherwise hold the step and let a person decide',
      'a probe that runs too early returns no: wait as long as the other system may take',
    ],
    code: `import { open } from 'reprise'
import { workflow } from 'reprise/workflow'

// Stands for the other system: it remembers its calls by key.
const bank = new Map()
export const pay = workflow('pay', async (ctx, cents) => {
  return await ctx.step('charge', ({ key }) => void bank.set(key, cents) ?? { charged: cents }, {
    inDoubt: async (key) => (bank.has(key) ? { happened: true, result: { charged: bank.get(key) } } : { happened: false }),
  })
})

const rp = await open()
console.log(await rp.run(pay, 1999).result())
await rp.close()
`,
  },
  {
    id: 'B1-implied',
    title: 'progress here, state in another system (a timeline with an external authority)',
    when: { truth: 'external', captures: 'state' },
    why: 'The other system holds the state; the entries record the progress of the work there. The definition declares how the state is rebuilt from there and compared with the progress, and `reprise drill` executes both.',
    watch: [
      'write to the other system first and append afterwards: the progress never claims more than the other system has',
      'schedule drills: the two systems are compared only during a drill',
    ],
    code: `import { open, timeline } from 'reprise'

// Stands for the other system.
const bucket = new Map()
export const uploads = timeline('uploads', {
  initial: () => ({ names: [] }),
  apply: ({ names }, { name }) => ({ names: [...names, name] }),
  authority: 'external',
  rebuild: ({ names }) => new Set(names.filter((name) => bucket.has(name))),
  check: (found, { names }) => names.every((name) => found.has(name)) || 'the bucket lacks files',
})

const rp = await open()
const progress = await rp.open(uploads, 'advised')
bucket.set('a.txt', 'bytes')
await progress.append({ type: 'uploaded', name: 'a.txt' })
console.log((await rp.drill({ timelines: [progress.timeline] })).results.at(-1).note)
await rp.close()
`,
  },
  {
    id: 'B1-external',
    title: 'a job over the data of another system',
    when: { truth: 'external' },
    why: 'The other system holds the items; the job records only which of them are done, and in which version. Reading a page again is cheap, and finished items are skipped.',
    watch: [
      'without `version`, changes in the other system are never seen',
      'the other system is authoritative: write to it with ctx.idempotencyKey, and query it after an unknown outcome',
    ],
    code: `import { open } from 'reprise'
import { job, pages } from 'reprise/job'

// Stands for the other system.
const list = async (page = 0) => ({ items: [{ id: page, updatedAt: 1 }], next: page < 2 ? page + 1 : null })
export const sync = job('sync', {
  source: pages((cursor) => list(cursor)),
  key: (record) => record.id,
  version: (record) => record.updatedAt,
  retry: { attempts: 5 },
  checkpoint: { recoverWithin: 'BUDGET' },
  each: async (record, ctx) => ({ record, key: ctx.idempotencyKey }),
})

const rp = await open()
console.log(await rp.run(sync).result())
await rp.close()
`,
  },
  {
    id: 'B2',
    title: 'saves (state checkpoint)',
    when: { truth: 'state' },
    why: 'The state is authoritative and can be written as a whole: keep the last few, verify each, fall back when the newest is damaged. Only changed parts are written.',
    watch: [
      'changes after the last save are lost: choose the interval by the loss that you can accept',
      'a changed format needs a version',
    ],
    code: `import { open } from 'reprise'
import { save } from 'reprise/save'

export const training = save('training', { keep: 5 })

const rp = await open()
const weights = await rp.open(training)
const found = await weights.latest().catch(() => null)
const step = (found?.value.step ?? 0) + 1
await weights.put({ step, weights: new Float64Array(8) }, { label: \`step \${step}\` })
console.log(await weights.list())
await rp.close()
`,
  },
  {
    id: 'B5',
    title: 'a workflow (replay)',
    when: { captures: 'execution' },
    why: 'The progress of the program must survive: its variables, finished steps, timers and branches. The code is replayed against recorded outcomes.',
    watch: [
      'code outside of steps must do the same each time',
      'change running workflows with patches',
      'endless ones need ctx.loop, or history grows without bound',
    ],
    code: `import { open } from 'reprise'
import { workflow } from 'reprise/workflow'

export const greet = workflow('greet', async (ctx, name) => {
  const text = await ctx.step('compose', () => \`hello \${name}\`)
  await ctx.sleep('10ms')
  return text
})

const rp = await open()
console.log(await rp.run(greet, 'ann').result())
await rp.close()
`,
  },
  {
    id: 'B4',
    title: 'a state store in partitions (snapshot and changelog)',
    when: { about: 'records', scope: 'many' },
    why: 'More keyed state than one process should hold: each partition is a timeline with its own owner, restored from its newest snapshot and later entries; a standby follows and takes over.',
    watch: [
      'a transaction stays within one partition: choose keys so that related rows share a partition',
      'the number of partitions is part of the data',
    ],
    code: `import { open } from 'reprise'
import { stateStore } from 'reprise/table'

export const counts = stateStore('counts', { partitions: 4 })

const rp = await open()
const store = await rp.open(counts)
await store.set('berlin', 7)
console.log(await store.get('berlin'))
await store.close()
await rp.close()
`,
  },
  {
    id: 'B3',
    title: 'a table (log first, then pages)',
    when: { about: 'records' },
    why: 'Much keyed state: changes are logged, applied, and checkpointed by page, so that the cost of a checkpoint depends on the changes. Transactions over several keys, indexes, rows that expire.',
    watch: [
      'values are immutable: set a new one instead of changing it in place',
      'more rows than memory: pagedTable reads them page by page',
    ],
    code: `import { open } from 'reprise'
import { table } from 'reprise/table'

export const stock = table('stock', { indexes: { place: (row) => row.place }, checkpoint: { recoverWithin: 'BUDGET' } })

const rp = await open()
const shelf = await rp.open(stock)
await shelf.transaction((tx) => {
  tx.set('A-1', { place: 'berlin', count: 7 })
  tx.set('A-2', { place: 'paris', count: 1 })
})
console.log([...shelf.by('place', 'berlin')])
await rp.close()
`,
  },
  {
    id: 'B6-aggregate',
    title: 'aggregates (event sourcing)',
    when: { about: 'entities' },
    why: 'Entities that accept commands and must never be in an invalid state: a command is decided on the state, its events are appended, and every other view follows the events.',
    watch: [
      'a bad event stays forever: correct it with another',
      'personal data in events needs personal(), or it cannot be erased',
    ],
    code: `import { open } from 'reprise'
import { aggregate } from 'reprise/events'

export const account = aggregate('account', {
  initial: () => ({ balance: 0 }),
  evolve: { deposited: (state, event) => ({ balance: state.balance + event.amount }) },
  decide: { deposit: (_state, command) => ({ type: 'deposited', amount: command.amount }) },
  checkpoint: { recoverWithin: 'BUDGET' },
})

const rp = await open()
const alice = await rp.open(account, 'alice')
await alice.do('deposit', { amount: 10 })
console.log(alice.state)
await rp.close()
`,
  },
  {
    id: 'B1',
    title: 'a resumable job (progress checkpoint)',
    when: { captures: 'progress' },
    why: 'Only the list of finished items must survive. Each item is recorded when it is done, with the position of the source in the same entry.',
    watch: [
      'the effect happens before it is recorded: an item in flight at a crash is processed again, so pass ctx.idempotencyKey to the outside system',
      'keys that are not stable (a row number, a timestamp) make every item look new',
      'an item that always fails becomes a dead letter: see reprise dead',
    ],
    code: `import { open } from 'reprise'
import { job } from 'reprise/job'

export const work = job('ingest', {
  source: ['a', 'b', 'c'],
  key: (item) => item,
  concurrency: 8,
  checkpoint: { recoverWithin: 'BUDGET' },
  each: async (item, ctx) => ({ item, key: ctx.idempotencyKey }),
})

const rp = await open()
console.log(await rp.run(work).result())
await rp.close()
`,
  },
  {
    id: 'B6-projection',
    title: 'a projection (state and position together)',
    when: { captures: 'both', scope: 'one' },
    why: 'A state that follows a stream of facts: it and its position in the stream are one coordinate, so neither gets ahead of the other. It can be rebuilt beside the old one at any time.',
    watch: [
      'a handler that throws stops it (or the event becomes a dead letter: poison)',
      'readers see the entries applied so far: call catchUp() to read your own writes',
    ],
    code: `import { open } from 'reprise'
import { aggregate, projection } from 'reprise/events'

const account = aggregate('advised-account', {
  initial: () => ({ balance: 0 }),
  evolve: { deposited: (state, event) => ({ balance: state.balance + event.amount }) },
  decide: { deposit: (_state, command) => ({ type: 'deposited', amount: command.amount }) },
})
export const totals = projection('advised-totals', {
  from: [account],
  initial: () => new Map(),
  on: { deposited: (state, event, info) => void state.set(info.id, (state.get(info.id) ?? 0) + event.amount) },
})

const rp = await open()
await rp.open(account, 'alice').do('deposit', { amount: 10 })
const view = await rp.open(totals)
console.log(await view.catchUp())
await rp.close()
`,
  },
  {
    id: 'B7',
    title: 'a consistent cut over several timelines',
    when: { scope: 'many' },
    why: 'Several actors depend on each other: their states must belong to the same moment. Messages between them are durable and consumed in the commit that reacts to them, so each restarts on its own and none gets ahead of its input.',
    watch: [
      'a slow participant delays the others',
      'independent checkpoints without durable messages can cascade (the domino effect)',
    ],
    code: `import { randomUUID } from 'node:crypto'
import { open } from 'reprise'
import { workflow, workflows } from 'reprise/workflow'

const checkpoint = { recoverWithin: 'BUDGET' }
export const ship = workflow('advised-ship', async (ctx) => \`shipped \${await ctx.signal('picked')}\`, { checkpoint })
export const pick = workflow('advised-pick', async (ctx, { sku, order }) => {
  await ctx.signal('go')
  await ctx.step('tell', () => workflows(rp).of(ship).get(order).signal('picked', sku))
  return \`picked \${sku}\`
}, { checkpoint })

const rp = await open()
const order = randomUUID()
const shipping = await rp.run(ship, { id: order })
const picking = await rp.run(pick, { sku: 'A-1', order }, { id: order })
// Both at one moment, with the mail between them; rp.groups.restore({ cut }) returns both to it.
const members = [\`workflow/advised-ship/\${order}\`, \`workflow/advised-pick/\${order}\`]
const { name, places } = await rp.groups.capture(\`advised-\${order}\`, members)
await picking.signal('go')
console.log(await picking.result(), await shipping.result())
console.log('cut', name, places.map(({ timeline, seq }) => \`\${timeline}@\${seq}\`))
await rp.groups.release(name)
await rp.close()
`,
  },
  {
    id: 'B8',
    title: 'a timeline with keyed state (incremental checkpoints)',
    when: { scope: 'machine' },
    why: 'Much state on one machine with your own rules: changes are logged and folded, and a checkpoint writes only the pages that changed.',
    watch: [
      'values are immutable: set a new one instead of changing it in place',
      'unneeded history is trimmed only if retain is set',
    ],
    code: `import { keyed, open, timeline } from 'reprise'

export const stock = timeline('advised-stock', {
  initial: () => ({ items: keyed() }),
  apply(state, entry) {
    state.items.set(entry.sku, entry.count)
  },
  checkpoint: { recoverWithin: 'BUDGET' },
  retain: { checkpoints: 3, history: 'needed' },
})

const rp = await open()
const shelf = await rp.open(stock, 'berlin')
await shelf.append({ type: 'counted', sku: 'A-1', count: 7 })
console.log(shelf.state.items.get('A-1'))
await rp.close()
`,
  },
  {
    id: 'B6',
    title: 'a timeline of events with snapshots',
    when: {},
    why: 'History is the truth and state is a cache of it: append facts, fold them, checkpoint by budget. Any checkpoint may be deleted at any time.',
    watch: [
      'a bad event stays forever: correct it with another',
      'a changed fold needs a new version, and old entries need upcasters',
    ],
    code: `import { open, timeline } from 'reprise'

export const account = timeline('ledger', {
  initial: () => ({ balance: 0 }),
  apply: (state, entry) => ({ balance: state.balance + entry.amount }),
  checkpoint: { recoverWithin: 'BUDGET' },
})

const rp = await open()
const alice = await rp.open(account, 'alice')
await alice.append({ type: 'deposited', amount: 10 })
console.log(alice.state.balance)
await rp.close()
`,
  },
]

const effectWatch =
  'calls outside: use effects (ctx.effect, handle.effects.run) or the idempotency key; the declared policy decides effects in doubt after a crash'

/**
 * @example
 * const answers = { truth: 'history', captures: 'progress', scope: 'one', about: 'items', budget: '2s', effects: false }
 * advise(answers).id // 'B1'
 */
export function advise(answers: Answers): Advice {
  const found = advices.find(({ when }) =>
    (Object.entries(when) as [keyof Advice['when'], string][]).every(([name, value]) => answers[name] === value),
  )!
  const code = found.code.replaceAll('BUDGET', answers.budget)
  return { ...found, code, watch: answers.effects ? [...found.watch, effectWatch] : found.watch }
}
