import { describe, expect, it } from 'vitest'
import { checkpointsHealth, stuckAfterMs, type TimelineFacts, type WorkerFacts, workersHealth } from './health.ts'

const now = 1_800_000_000_000
const day = 86_400_000

describe('workers', () => {
  const worker = { id: 'w~1' as WorkerFacts['id'], isAlive: true, progressAt: now, ownsSomething: true }
  const verdict = (changes: object) =>
    workersHealth([{ ...worker, ...changes }], now).map(({ state, what }) => [state, what])

  it('are well when they get somewhere, or own nothing', () => {
    expect(verdict({})).toEqual([['ok', '1 worker alive']])
    expect(verdict({ isAlive: false, ownsSomething: false })).toEqual([['ok', '0 workers alive']])
    expect(verdict({ progressAt: 0, ownsSomething: false })).toEqual([['ok', '1 worker alive']])
  })

  it('are stale when they are gone and still own something', () => {
    expect(verdict({ isAlive: false })).toEqual([['warning', 'gone without letting go: w~1']])
  })

  it('are stuck when they live without progress, from the bound on', () => {
    expect(verdict({ progressAt: now - stuckAfterMs })).toEqual([['ok', '1 worker alive']])
    expect(verdict({ progressAt: now - stuckAfterMs - 1 })).toEqual([['warning', 'alive without progress: w~1']])
  })
})

describe('checkpoints', () => {
  const sound = { seq: 2000, createdAt: now - day, drilledAt: null, invalid: null }
  const facts: TimelineFacts = { timeline: 'job/x', seq: 2500, checkpoints: [sound, { ...sound, seq: 1000 }] }
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

  it('want a drill every 30 days', () => {
    const old = { ...sound, createdAt: now - 31 * day }
    expect(verdict({ checkpoints: [old] })).toEqual(['checkpoints ok', 'drills warning'])
    expect(verdict({ checkpoints: [{ ...old, drilledAt: now - 29 * day }] })).toEqual(['checkpoints ok', 'drills ok'])
  })
})
