// The words of a report: a process that did a part of a job does not claim the whole.

import { expect, it } from 'vitest'
import type { JobProgress } from '../progress.ts'
import { draw } from './bar.ts'
import { progressLine } from './lines.ts'

const none = { skipped: 0, failed: 0, retried: 0, inFlight: 0, waiting: 0, read: 200, fraction: null }
const progress = (status: JobProgress['status'], done: number): JobProgress => {
  return { name: 'papers', status, done, total: 200, elapsedMs: 1000, resumedFrom: null, pausedBecause: null, ...none }
}

it('a process whose job another one finished reports its part', () => {
  expect(progressLine(progress('completed', 86))).toContain('86 of 200 in this run, the rest before it or by another')
  expect(draw(progress('completed', 86), 200)).toContain('completed: 86 in this run, the rest before it or by another')
})

it('one that did all of it, or is at work, has nothing to add', () => {
  for (const each of [progress('completed', 200), progress('running', 86), progress('stopped', 86)]) {
    expect(progressLine(each)).not.toContain('in this run')
    expect(draw(each, 200)).not.toContain('in this run')
  }
})
