import { describe, expect, it } from 'vitest'
import { stuckAfterMs } from '../operations/workers.ts'
import {
  checkpointsHealth,
  dueHealth,
  failingHealth,
  pagesHealth,
  type TimelineFacts,
  type WorkerFacts,
  workersHealth,
} from './health.ts'

const now = 1_800_000_000_000
const day = 86_400_000

const step = { timeline: 'workflow/pay/1', what: 'step charge', since: now - stuckAfterMs, limitMs: null }
const worker: WorkerFacts = {
  id: 'w~1' as WorkerFacts['id'],
  isAlive: true,
  ownsSomething: true,
  underWay: [],
  failing: [],
}

describe('workers', () => {
  const verdict = (changes: Partial<WorkerFacts>, at = now) =>
    workersHealth([{ ...worker, ...changes }], at).map(({ state, what }) => [state, what])

  it('are well while nothing hangs, whatever they hold and however long they were idle', () => {
    expect(verdict({})).toEqual([['ok', '1 worker alive']])
    expect(verdict({}, now + 1000 * day)).toEqual([['ok', '1 worker alive']])
    expect(verdict({ isAlive: false, ownsSomething: false })).toEqual([['ok', '0 workers alive']])
  })

  it('are stale when they are gone and still own something', () => {
    expect(verdict({ isAlive: false })).toEqual([['warning', 'died without releasing their work: w~1']])
  })

  it('are stuck on the one call that hangs, from the bound on, however much else moves', () => {
    expect(verdict({ underWay: [step] })).toEqual([['ok', '1 worker alive']])
    const [[state, what]] = verdict({ underWay: [step, { ...step, since: now }] }, now + 1) as [[string, string]]
    expect(state).toBe('warning')
    expect(what).toBe('stuck: workflow/pay/1: step charge without a sign of life for 5m (w~1)')
  })

  it('go by the limit that a call has of its own', () => {
    const long = { ...step, limitMs: 2 * stuckAfterMs }
    expect(verdict({ underWay: [long] }, now + 1)).toEqual([['ok', '1 worker alive']])
    const short = { ...step, since: now - 3000, limitMs: 2000 }
    expect(verdict({ underWay: [short] })[0]![1]).toContain('for 3s, and may take 2s')
  })

  it('report checkpoints that fail in a row', () => {
    const failing = [{ timeline: 'table/t', failures: 7, reason: 'disk full', since: now - 60_000 }]
    expect(failingHealth([worker], now)).toEqual([])
    const [check] = failingHealth([{ ...worker, failing }], now)
    expect([check!.state, check!.what]).toEqual([
      'bad',
      'table/t: 7 checkpoints failed in a row since 1m ago: disk full',
    ])
  })
})

it('D8: every warning about a running store has a reason and a cure', () => {
  const gone = { ...worker, isAlive: false }
  const failing = [{ timeline: 'table/t', failures: 7, reason: 'disk full', since: now - 60_000 }]
  const damaged = { seq: 2000, createdAt: now - 60 * day, drilledAt: null, invalid: 'CHUNK_DAMAGED' }
  const sound = { ...damaged, invalid: null }
  const timeline = {
    timeline: 'job/x',
    kind: 'job',
    isEnded: false,
    start: 0,
    createdAt: now - 60 * day,
    updatedAt: now,
    policy: null,
    interval: null,
    restoreMs: null,
  }
  const checks = [
    ...workersHealth([gone, { ...worker, underWay: [step] }], now + 1),
    ...failingHealth([{ ...worker, failing }], now),
    ...pagesHealth({ data_checksums: 'off' }),
    ...checkpointsHealth([{ ...timeline, seq: 2500, checkpoints: [damaged] }], now),
    ...checkpointsHealth([{ ...timeline, seq: 90_000, checkpoints: [sound, { ...sound, seq: 1000 }] }], now),
  ].filter(({ state }) => state !== 'ok')
  expect(checks.map(({ name }) => name)).toEqual([
    'workers',
    'workers',
    'checkpoints',
    'pages',
    'checkpoints',
    'drills',
    'checkpoints',
    'drills',
  ])
  for (const { what, cure } of checks)
    expect([what, cure]).toEqual([expect.stringMatching(/\w/), expect.stringMatching(/\w/)])
})

describe('pages of a server', () => {
  it('should have checksums; a store without pages is not checked', () => {
    expect(pagesHealth({ fsync: 'on', data_checksums: 'on' })).toEqual([])
    expect(pagesHealth({ journal_mode: 'wal' })).toEqual([])
    expect(pagesHealth({ data_checksums: 'off' })).toMatchObject([{ name: 'pages', state: 'warning' }])
  })
})

describe('checkpoints', () => {
  const sound = { seq: 2000, createdAt: now - day, drilledAt: null, invalid: null }
  const facts: TimelineFacts = {
    timeline: 'job/x',
    kind: 'job',
    isEnded: false,
    seq: 2500,
    start: 0,
    createdAt: now - 2 * day,
    updatedAt: now,
    policy: null,
    interval: null,
    restoreMs: null,
    checkpoints: [sound, { ...sound, seq: 1000 }],
  }
  const verdict = (changes: Partial<TimelineFacts>) =>
    checkpointsHealth([{ ...facts, ...changes }], now).map(({ name, state }) => `${name} ${state}`)

  it('are well while they advance, and where there are none', () => {
    expect(verdict({})).toEqual(['checkpoints ok', 'drills ok'])
    expect(verdict({ checkpoints: [] })).toEqual(['checkpoints ok', 'drills ok'])
  })

  it('are bad when the newest is damaged', () => {
    expect(verdict({ checkpoints: [{ ...sound, invalid: 'CHUNK_DAMAGED' }] })).toEqual(['checkpoints bad', 'drills ok'])
  })

  it('no longer advance when ten times the usual distance went by without one', () => {
    expect(verdict({ seq: 12_000 })).toEqual(['checkpoints ok', 'drills ok'])
    expect(verdict({ seq: 12_001 })).toEqual(['checkpoints warning', 'drills ok'])
    expect(verdict({ seq: 9000, checkpoints: [sound, { ...sound, seq: 1990 }] })).toEqual([
      'checkpoints ok',
      'drills ok',
    ])
  })

  it('no longer advance when there are only damaged ones, or none although a policy requires them', () => {
    const invalid = { ...sound, invalid: 'CHUNK_DAMAGED' }
    expect(verdict({ seq: 10_001, checkpoints: [invalid] })).toEqual([
      'checkpoints bad',
      'checkpoints warning',
      'drills ok',
    ])
    expect(verdict({ seq: 10_001, checkpoints: [], policy: { recoverWithin: '2s' } })[0]).toBe('checkpoints warning')
    expect(verdict({ seq: 10_001, checkpoints: [], policy: {} })[0]).toBe('checkpoints ok')
    // A workflow without a loop: nothing limits the entries that a recovery replays.
    expect(verdict({ seq: 10_000, checkpoints: [] })[0]).toBe('checkpoints ok')
    expect(verdict({ seq: 10_001, checkpoints: [] })[0]).toBe('checkpoints warning')
    expect(verdict({ seq: 20_001, start: 20_000, checkpoints: [], policy: { recoverWithin: '2s' } })[0]).toBe(
      'checkpoints ok',
    )
  })

  it('are judged by their own policy: entries, time while written to, and the first one', () => {
    const every = { policy: { every: 50 }, checkpoints: [sound] }
    expect(verdict({ ...every, seq: 2500 })[0]).toBe('checkpoints ok')
    expect(verdict({ ...every, seq: 2501 })[0]).toBe('checkpoints warning')
    expect(verdict({ policy: { every: 50, first: 500 }, seq: 5000, checkpoints: [] })[0]).toBe('checkpoints ok')
    expect(verdict({ policy: { every: 50, first: 500 }, seq: 5001, checkpoints: [] })[0]).toBe('checkpoints warning')
    const each = { policy: { each: '1h' } as const, checkpoints: [sound] }
    expect(verdict({ ...each, updatedAt: now })[0]).toBe('checkpoints warning')
    expect(verdict({ ...each, updatedAt: sound.createdAt + 1000 })[0]).toBe('checkpoints ok')
    const [check] = checkpointsHealth([{ ...facts, ...each }], now)
    expect(check!.what).toContain('job/x: 500 entries since 1d ago, but its policy is one each 1h')
  })

  it('no longer advance after ten times the interval of the budget, by measured costs', () => {
    const budget = { policy: { recoverWithin: '200ms' } as const, checkpoints: [sound] }
    const interval = { entries: 40, ms: null }
    expect(verdict({ ...budget, seq: sound.seq + 400, interval })[0]).toBe('checkpoints ok')
    expect(verdict({ ...budget, seq: sound.seq + 401, interval })[0]).toBe('checkpoints warning')
    // Before the first checkpoint, as long as the policy waits for it.
    const first = { seq: 1000, start: 0, checkpoints: [], policy: { recoverWithin: '200ms', first: 1000 } as const }
    expect(verdict({ ...first, interval })[0]).toBe('checkpoints ok')
    // A measured interval replaces the usual one, even if it is longer.
    expect(
      verdict({ ...budget, seq: 12_001, checkpoints: facts.checkpoints, interval: { entries: 5000, ms: null } })[0],
    ).toBe('checkpoints ok')
    const [check] = checkpointsHealth([{ ...facts, ...budget, seq: sound.seq + 401, interval }], now)
    expect(check!.what).toContain('401 entries since 1d ago, but its budget requires one every 40')
    const timed = { ...budget, seq: sound.seq + 1, updatedAt: now, interval: { entries: null, ms: 60_000 } }
    expect(verdict(timed)[0]).toBe('checkpoints warning')
    expect(verdict({ ...timed, updatedAt: sound.createdAt + 600_000 })[0]).toBe('checkpoints ok')
  })

  it('want a drill every 30 days', () => {
    const old = { ...sound, createdAt: now - 31 * day }
    expect(verdict({ checkpoints: [old] })).toEqual(['checkpoints ok', 'drills warning'])
    expect(verdict({ checkpoints: [{ ...old, drilledAt: now - 29 * day }] })).toEqual(['checkpoints ok', 'drills ok'])
  })
})

describe('due work', () => {
  const row = { queue: 'mail', timelines: 3, running: 1, due: 2, mail: 0, nextAt: null, oldestAt: now - 60_000 }

  it('is reported with its age once it has waited for a minute, and names the command that does it', () => {
    expect(dueHealth([row], now)).toEqual([])
    expect(dueHealth([{ ...row, due: 0, oldestAt: null }], now + day)).toEqual([])
    const [check] = dueHealth([row, { ...row, queue: 'idle', due: 0, oldestAt: null }], now + 1)
    expect(check).toMatchObject({
      name: 'due work',
      state: 'warning',
      what: 'no worker executes it: mail: 2 timelines due, the first 1m ago',
      data: { queues: [{ queue: 'mail', due: 2, since: now - 60_000 }] },
    })
    expect(check!.cure).toContain('reprise work FILE')
    expect(dueHealth([row], now + 59 * 60_000)[0]!.state).toBe('warning')
    expect(dueHealth([row], now + 59 * 60_000 + 1)[0]!.state).toBe('bad')
  })
})
