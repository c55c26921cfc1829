import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { timeline } from '../engine/api/timeline-definition.ts'
import { agent, tool } from '../layers/agent/index.ts'
import { job } from '../layers/job/index.ts'
import { table } from '../layers/table/index.ts'
import { workflow } from '../layers/workflow/index.ts'
import type { TimelineFacts } from './health.ts'
import { measuredMistakes, mistakesHealth, mistakesIn, paceMistakes, rules } from './mistakes.ts'

const found = (value: unknown) => mistakesIn(value).map(({ rule, at }) => [rule, at])

it('warns about objects as items without a key, and not about text or a source that is no array', () => {
  const each = () => undefined
  expect(found(job('papers', { source: [{ id: 1 }], each }))).toEqual([['job-item-key', 'job papers']])
  expect(found(job('papers', { source: [{ id: 1 }], key: ({ id }) => id, each }))).toEqual([])
  expect(found(job('papers', { source: ['a', 1], each }))).toEqual([])
  expect(found(job('papers', { source: [], each }))).toEqual([])
  const read = () => {
    throw new Error('lint must not call the source')
  }
  expect(found(job('papers', { source: read, each }))).toEqual([])
})

it('warns about a key that differs between two calls, and not about one that rejects an item', () => {
  let calls = 0
  const each = () => undefined
  const source = [{ id: 1 }, { id: 2 }]
  const counted = job('papers', { source, key: () => ++calls, each })
  expect(found(counted)).toEqual([['job-key-unstable', 'job papers']])
  expect(found(job('papers', { source, key: ({ id }) => `paper-${id}`, each }))).toEqual([])
  const rejects = () => {
    throw new Error('no key')
  }
  expect(found(job('papers', { source, key: rejects, each }))).toEqual([])
})

it('warns about an irreversible tool that retries in doubt, unless it has a probe or may be repeated', () => {
  const run = () => 1
  const probe = async () => ({ happened: false }) as const
  const of = (definition: Parameters<typeof tool>[0]) => found(agent('support', { tools: { mail: tool(definition) } }))
  expect(of({ kind: 'irreversible', inDoubt: 'retry', run })).toEqual([['irreversible-retry', 'agent support']])
  expect(of({ kind: 'irreversible', inDoubt: 'retry', run, probe })).toEqual([])
  expect(of({ kind: 'irreversible', run })).toEqual([])
  expect(of({ kind: 'idempotent', inDoubt: 'retry', run })).toEqual([])
})

it('warns about a checkpoint policy of `first` alone, and not about one with a trigger or by hand', () => {
  const of = (checkpoint: object) => [
    ...found(table('stock', { checkpoint })),
    ...found(workflow('pay', async () => 1, { checkpoint })),
    ...found(timeline('log', { initial: () => 0, apply: (n: number) => n + 1, checkpoint })),
  ]
  const rule = 'checkpoint-without-trigger'
  expect(of({ first: 100 })).toEqual(['table stock', 'workflow pay', 'timeline log'].map((at) => [rule, at]))
  for (const policy of [
    {},
    { first: 100, every: 10 },
    { first: 100, on: ['paid'] },
    { first: 1, recoverWithin: '2s' },
  ]) {
    expect(of(policy)).toEqual([])
  }
})

it('warns about a retention below the interval of checkpoints, where time is the only trigger', () => {
  const of = (checkpoint: object, retain: object) => found(table('stock', { checkpoint, retain }))
  const warning = ['retention-below-interval', 'table stock']
  expect(of({ each: '1h' }, { for: '10m' })).toEqual([warning])
  expect(of({ each: '1h' }, { history: { for: '59m' } })).toEqual([warning])
  expect(of({ each: '1h' }, { for: '1h', history: { for: '1h' } })).toEqual([])
  expect(of({ each: '1h', every: 100 }, { for: '10m' })).toEqual([])
  expect(of({ each: '1h' }, { checkpoints: 2, history: 'needed' })).toEqual([])
})

const facts: TimelineFacts = {
  timeline: 'workflow/poll/1',
  kind: 'workflow',
  isEnded: false,
  seq: 10_001,
  start: 0,
  createdAt: 0,
  updatedAt: 0,
  policy: { every: 1000 },
  interval: null,
  restoreMs: null,
  checkpoints: [],
}

it('warns about a run that grew without a checkpoint, and not about a looped one or another model', () => {
  const of = (changes: Partial<TimelineFacts>) => measuredMistakes({ ...facts, ...changes }).map(({ rule }) => rule)
  expect(of({})).toEqual(['workflow-growth'])
  expect(of({ seq: 10_000 })).toEqual([])
  expect(of({ isEnded: true })).toEqual([])
  expect(of({ seq: 20_000, start: 10_000 })).toEqual([])
  expect(of({ policy: { every: 20_000 } })).toEqual([])
  expect(of({ checkpoints: [{ seq: 1, createdAt: 0, drilledAt: null, invalid: null }] })).toEqual([])
  expect(of({ kind: 'table' })).toEqual([])
})

it('warns about a budget that a restore alone exceeds', () => {
  const of = (restoreMs: number | null) =>
    measuredMistakes({ ...facts, seq: 1, policy: { recoverWithin: '2s' }, restoreMs }).map(({ rule }) => rule)
  expect(of(2001)).toEqual(['budget-out-of-reach'])
  expect(of(2000)).toEqual([])
  expect(of(null)).toEqual([])
})

describe('a schedule', () => {
  const slow = { periodMs: 1000, tookMs: 1001, isCut: false, isOverlapped: false }
  const quick = { ...slow, tookMs: 1000 }
  const of = (...runs: (typeof slow)[]) => paceMistakes({ schedule: 'nightly', runs }).map(({ rule }) => rule)

  it('is too slow if most of its runs, and at least three, take longer than its period', () => {
    expect(of(slow, slow, slow)).toEqual(['schedule-too-slow'])
    expect(of(slow, slow, slow, quick, quick)).toEqual(['schedule-too-slow'])
    expect(of(slow, slow)).toEqual([])
    expect(of(slow, slow, slow, quick, quick, quick)).toEqual([])
  })

  it('is too slow if most of its runs are cancelled by the next one', () => {
    const cut = { ...quick, isCut: true }
    expect(of(cut, cut, cut)).toEqual(['schedule-too-slow'])
    expect(of(cut, quick, quick)).toEqual([])
  })

  it('may run longer where its runs overlap', () => {
    const overlapped = { ...slow, isOverlapped: true }
    expect(of(overlapped, overlapped, overlapped, overlapped)).toEqual([])
  })
})

it('is one line of the doctor per rule, with the cure', () => {
  const many = Array.from({ length: 7 }, (_, i) =>
    measuredMistakes({ ...facts, timeline: `workflow/poll/${i}` }),
  ).flat()
  const [check, ...others] = mistakesHealth(many)
  expect(others).toEqual([])
  expect(check).toMatchObject({ name: 'workflow-growth', state: 'warning', cure: rules['workflow-growth'].cure })
  expect(check!.what).toContain('workflow/poll/4: 10,001 entries, and no checkpoint; and 2 more')
  expect(mistakesHealth([])).toEqual([])
})

it('has every rule in the guide, with its reason and its cure', () => {
  const guide = readFileSync(new URL('../../docs/guides/lint.md', import.meta.url), 'utf8')
  for (const [id, { why, cure }] of Object.entries(rules)) expect(guide).toContain(`| \`${id}\` | ${why} | ${cure} |`)
})
