// Wrong values of options are refused where they are given, with the values that are allowed: a misspelt word counted as one of
// the others, and was found out after a crash.

import { afterAll, beforeAll, expect, it } from 'vitest'
import { open, type Reprise, timeline } from '../../src/index.ts'
import { agent, tool } from '../../src/layers/agent/index.ts'
import { aggregate, processManager, projection } from '../../src/layers/events/index.ts'
import { job, jsonLines } from '../../src/layers/job/index.ts'
import { table } from '../../src/layers/table/index.ts'
import { schedule, workflow } from '../../src/layers/workflow/index.ts'

let rp: Reprise
beforeAll(async () => {
  rp = await open('memory:')
})
afterAll(() => rp.close())

const counted = timeline('counted', { initial: () => 0, apply: (state: number) => state + 1 })
const account = aggregate('account', {
  initial: () => 0,
  decide: {},
  evolve: { paid: (state: number) => state },
})
let runs = 0
/** A run of this code. */
const running = (code: Parameters<typeof workflow>[1], options?: object) => {
  runs += 1
  return rp.run(workflow(`w${runs}`, code, options), { id: 'a' }).result()
}
const each = () => undefined
const noon = workflow('noon', async () => 1)
// biome-ignore lint/suspicious/noExplicitAny: the values are wrong on purpose.
const wrong = (value: unknown): any => value

const refusals: Record<string, { readonly use: () => unknown; readonly names: RegExp }> = {
  "SQLite's name of a database in memory": { use: () => open('sqlite::memory:'), names: /open memory:/ },
  'job version a date': {
    use: () => rp.run(job('dated', { source: ['x'], version: () => wrong(new Date(0)), each })).result(),
    names: /a string or a finite number \(got object\)/,
  },
  'job version an object': {
    use: () => rp.run(job('objects', { source: ['x'], version: () => wrong({ rev: 1 }), each })).result(),
    names: /a string or a finite number/,
  },
  'job version NaN': {
    use: () => rp.run(job('nan', { source: ['x'], version: () => Number.NaN, each })).result(),
    names: /a string or a finite number/,
  },
  'job version for all': {
    use: () => job('all', { source: [], version: wrong({}), each }),
    names: /version must be a string/,
  },
  'job order': {
    use: () => job('order', { source: [], order: wrong('keep'), each }),
    names: /'kept' or 'any' \(got 'keep'\)/,
  },
  'job each': { use: () => job('each', { source: [], each: wrong('x') }), names: /each must be a function/ },
  'job source': { use: () => job('none', { source: wrong(undefined), each }), names: /must be an array/ },
  'jsonLines malformed': { use: () => jsonLines('x', { malformed: wrong('pass') }), names: /'stop' or 'skip'/ },
  'step inDoubt': {
    use: () => running((ctx) => ctx.step('s', () => 1, { inDoubt: wrong('hodl') })),
    names: /step s: inDoubt must be 'retry', 'hold' or a function \(got 'hodl'\)/,
  },
  'step compensate': {
    use: () => running((ctx) => ctx.step('s', () => 1, { compensate: wrong('refund') })),
    names: /compensate must be a function/,
  },
  'step undo': { use: () => running((ctx) => ctx.step('s', () => 1, { undo: wrong('x') })), names: /undo must be/ },
  'child whenUndone': {
    use: () => running((ctx) => ctx.child(noon, { whenUndone: wrong('undone') })),
    names: /'keep' or 'undo'/,
  },
  'race losers': { use: () => running((ctx) => ctx.race({}, { losers: wrong('drop') })), names: /'keep' or 'undo'/ },
  'workflow queue': { use: () => running(async () => 1, { queue: 'gpu' }), names: /queue must be made by queue\(\)/ },
  'workflow durability': { use: () => running(async () => 1, { durability: 'none' }), names: /'step' or \{ window \}/ },
  'workflow whenUndoFails': { use: () => running(async () => 1, { whenUndoFails: 'x' }), names: /'hold' or 'restore'/ },
  'run priority': {
    use: () => rp.run(noon, { id: 'p', priority: wrong('high') }).result(),
    names: /priority must be a number \(got 'high'\)/,
  },
  'run ifExists': {
    use: () => rp.run(noon, { id: 'p', ifExists: wrong('again') }).result(),
    names: /'use', 'reject' or 'restart'/,
  },
  'schedule overlap': {
    use: () => schedule('s', { workflow: noon, cron: '* * * * *', overlap: wrong('alow') }),
    names: /'skip', 'allow', 'wait' or 'cancel'/,
  },
  'schedule catchUp': {
    use: () => schedule('s', { workflow: noon, cron: '* * * * *', catchUp: wrong('everything') }),
    names: /'none', 'last' or 'all'/,
  },
  'effect inDoubt': {
    use: async () => (await rp.open(counted, 'x')).effects.run('e', () => 1, { inDoubt: wrong('hodl') }),
    names: /'retry', 'hold' or a function/,
  },
  'effect reversal': {
    use: async () => (await rp.open(counted, 'y')).effects.run('e', () => 1, { reversal: wrong('compensatable') }),
    names: /'compensate', 'none' or 'irreversible'/,
  },
  'tool kind': { use: () => tool(wrong({ kind: 'readonly', run: () => 1 })), names: /'read-only', 'idempotent'/ },
  'agent modelInDoubt': {
    use: () => agent('z', { modelInDoubt: wrong('hodl') }),
    names: /'retry', 'continue' or 'hold'/,
  },
  'agent similarCalls': { use: () => agent('z', { similarCalls: wrong('x') }), names: /'conflict', 'fork' or 'new'/ },
  'agent settings': { use: () => agent('z', { settings: { similarCalls: wrong('x') } }), names: /'conflict', 'fork'/ },
  'projection poison': {
    use: () => projection('p', { from: [account], initial: () => 0, on: {}, poison: wrong('skip') }),
    names: /'stop' or 'quarantine'/,
  },
  'process manager poison': {
    use: () => processManager('p', { from: [account], on: {}, poison: wrong('skip') }),
    names: /'stop' or 'quarantine'/,
  },
  'offset of a table': {
    use: async () => (await rp.open(table('offsets'))).transaction((tx) => tx.advance('o', Number.NaN)),
    names: /offset of o must be a string or a finite number/,
  },
}

it.each(Object.entries(refusals))('%s is refused with what is allowed', async (_title, { use, names }) => {
  const refused: unknown = await Promise.resolve()
    .then(use)
    .then(
      () => null,
      (error: unknown) => error,
    )
  expect(refused).toMatchObject({ code: 'INVALID_ARGUMENT', message: expect.stringMatching(names) })
})
