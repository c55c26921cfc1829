import { expect, it } from 'vitest'
import { problemPrinter } from './action-report.ts'

it('prints a problem that comes again once a minute, with how often it came, and others at once', () => {
  const notes: string[] = []
  let nowMs = 0
  const print = problemPrinter({ note: (words) => notes.push(words) }, () => nowMs)
  for (; nowMs < 60_000; nowMs += 1000) print({ where: 'pipeline/clicks/@0', error: new Error('code changed') })
  expect(notes).toEqual(['pipeline/clicks/@0: code changed'])
  print({ where: 'pipeline/clicks/@1', error: new Error('code changed') })
  print({ where: 'pipeline/clicks/@0', error: new Error('code changed') })
  expect(notes.slice(1)).toEqual([
    'pipeline/clicks/@1: code changed',
    'pipeline/clicks/@0: code changed (60 times since the last line)',
  ])
})
