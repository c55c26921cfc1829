// The verdicts on backups and on drills of copies: notes in, verdicts out.

import { expect, it } from 'vitest'
import { type Protection, protectionHealth } from './backup-health.ts'

const day = 86_400_000
const now = Date.UTC(2026, 4, 1)
const none: Protection = { createdAt: null, backup: null, archive: null, server: null, drills: {}, isShipped: false }
const backup = {
  at: now - day,
  moment: now - day,
  file: 'a.rpb',
  bytes: 9,
  timelines: 1,
  loseAtMostMs: null,
  since: now - day,
}
const drill = { at: now - day, ok: true, of: 'a.rpb', rpoMs: 0, rtoMs: 9, what: 'restored' }
const verdict = (given: Partial<Protection>) =>
  protectionHealth({ ...none, ...given }, now).map(({ name, state }) => `${name} ${state}`)

it('A7.3: a store that was never backed up is reported once it is a day old, unless it is shipped', () => {
  expect(verdict({ createdAt: now - day / 2 })).toEqual([])
  expect(verdict({ createdAt: now - 2 * day })).toEqual(['backups warning'])
  expect(verdict({ createdAt: now - 2 * day, isShipped: true })).toEqual([])
})

it('A4.8: a last backup that is older than stated is bad, one within the bound is not', () => {
  expect(verdict({ backup })).toEqual(['backups ok'])
  expect(verdict({ backup: { ...backup, loseAtMostMs: 2 * day } })).toEqual(['backups ok'])
  expect(verdict({ backup: { ...backup, loseAtMostMs: day / 2 } })).toEqual(['backups bad'])
  // The moment that it shows counts, not its end.
  expect(verdict({ backup: { ...backup, at: now, loseAtMostMs: day / 2 } })).toEqual(['backups bad'])
})

it('A7.3: a failed drill is bad until the next of its kind succeeds, and a backup that is never drilled is reported', () => {
  const failed = { ...drill, ok: false, what: 'damaged' }
  expect(verdict({ backup, drills: { backup: drill, shipped: failed } })).toEqual(['backups ok', 'drills bad'])
  expect(verdict({ backup, drills: { backup: drill } })).toEqual(['backups ok'])
  expect(verdict({ backup: { ...backup, since: now - 31 * day } })).toEqual(['backups ok', 'drills warning'])
  expect(verdict({ backup, drills: { backup: { ...drill, at: now - 31 * day } } })).toEqual([
    'backups ok',
    'drills warning',
  ])
})
