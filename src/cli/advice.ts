// The adviser's knowledge, as data: which configuration answers which question, why, what to watch, and code that runs.
// A test runs every snippet.

export type Truth = 'history' | 'state'
export type Captures = 'progress' | 'state' | 'both' | 'execution'
export type Scope = 'one' | 'machine' | 'many'

export interface Answers {
  readonly truth: Truth
  readonly captures: Captures
  readonly scope: Scope
  readonly budget: string
  readonly effects: boolean
}

export interface Advice {
  /** B1 to B10 of the specification. */
  readonly id: string
  readonly title: string
  readonly when: { readonly truth?: Truth; readonly captures?: Captures; readonly scope?: Scope }
  readonly why: string
  readonly watch: readonly string[]
  /** A whole module; BUDGET stands for the recovery budget. */
  readonly code: string
}

const kernelSnippet = (body: string) => `import { open, timeline } from 'reprise'\n\n${body}`

/** The first that fits counts; what a row does not name, it does not ask. */
export const advices: readonly Advice[] = [
  {
    id: 'B1',
    title: 'a resumable job (progress checkpoint)',
    when: { captures: 'progress', truth: 'history' },
    why: 'Only which items are done has to survive. Each item is recorded when it is done, with the position of the source in the same entry.',
    watch: [
      'the effect happens before the record: an item in flight at a crash is done again, so hand ctx.idempotencyKey to the outside system',
      'keys that are not stable (a row number, a timestamp) make everything look new',
      'an item that always fails ends among the dead letters: look at reprise dead',
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
console.log(await (await rp.run(work)).result())
await rp.close()
`,
  },
  {
    id: 'B2',
    title: 'saves (state checkpoint)',
    when: { truth: 'state' },
    why: 'The state is the truth and can be written whole: keep the last few, verify each, fall back when the newest is damaged.',
    watch: [
      'what happens after the last save is lost: save as often as you can bear to lose',
      'a changed format needs a version',
    ],
    code: kernelSnippet(`export const training = timeline('training', {
  authority: 'state',
  initial: () => ({ epoch: 0, weights: [] }),
  apply: (state, entry) => ({ epoch: entry.epoch, weights: entry.weights }),
  retain: { checkpoints: 5 },
})

const rp = await open()
const run = await rp.open(training, 'model')
await run.append({ type: 'trained', epoch: run.state.epoch + 1, weights: [0.1, 0.2] })
await run.checkpoint()
console.log(run.state.epoch)
await rp.close()
`),
  },
  {
    id: 'B5',
    title: 'a workflow (replay)',
    when: { captures: 'execution' },
    why: 'Where the program stands has to survive: its variables, finished steps, timers and branches. The code is replayed against recorded outcomes.',
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
console.log(await (await rp.run(greet, 'ann')).result())
await rp.close()
`,
  },
  {
    id: 'B7',
    title: 'a consistent cut over several timelines',
    when: { scope: 'many' },
    why: 'Several actors depend on each other: their states must be of the same moment. Messages between them are durable and consumed in the commit that reacts to them, so each restarts on its own and none runs ahead of what it has read.',
    watch: [
      'a slow participant holds the others up',
      'independent checkpoints without durable messages can cascade (the domino effect)',
    ],
    code: kernelSnippet(`export const part = timeline('part', {
  initial: () => ({ received: 0 }),
  apply: (state) => ({ received: state.received + 1 }),
  checkpoint: { recoverWithin: 'BUDGET' },
})

const rp = await open()
await rp.send('part/b', 'greeting', { from: 'a' }, { id: 'a-1' })
const b = await rp.open(part, 'b')
await b.append({ type: 'received' }, { key: 'a-1' })
console.log(b.state, b.coordinate)
await rp.close()
`),
  },
  {
    id: 'B3',
    title: 'a table (log first, then pages)',
    when: { scope: 'machine', truth: 'history' },
    why: 'Much keyed state on one machine: changes are logged, applied, and checkpointed by page, so that a checkpoint costs what changed.',
    watch: [
      'values are immutable: set a new one instead of changing it in place',
      'history that nobody needs is only trimmed if retain says so',
    ],
    code: kernelSnippet(`import { keyed } from 'reprise'

export const stock = timeline('stock', {
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
`),
  },
  {
    id: 'B6',
    title: 'a timeline of events with snapshots',
    when: {},
    why: 'History is the truth and state is a cache of it: append facts, fold them, checkpoint by budget. Any checkpoint may be deleted at any time.',
    watch: [
      'a bad event stays for ever: correct it with another',
      'a changed fold needs a new version, and old entries need upcasters',
    ],
    code: kernelSnippet(`export const account = timeline('account', {
  initial: () => ({ balance: 0 }),
  apply: (state, entry) => ({ balance: state.balance + entry.amount }),
  checkpoint: { recoverWithin: 'BUDGET' },
})

const rp = await open()
const alice = await rp.open(account, 'alice')
await alice.append({ type: 'deposited', amount: 10 })
console.log(alice.state.balance)
await rp.close()
`),
  },
]

const effectWatch =
  'calls outside: use effects (ctx.effect, handle.effects.run) or the idempotency key; what is in doubt after a crash is decided by the policy you declare'

/** @example advise({ truth: 'history', captures: 'progress', scope: 'one', budget: '2s', effects: false }).id // 'B1' */
export function advise(answers: Answers): Advice {
  const found = advices.find(({ when }) =>
    (Object.entries(when) as [keyof Advice['when'], string][]).every(([name, value]) => answers[name] === value),
  )!
  const code = found.code.replaceAll('BUDGET', answers.budget)
  return { ...found, code, watch: answers.effects ? [...found.watch, effectWatch] : found.watch }
}
