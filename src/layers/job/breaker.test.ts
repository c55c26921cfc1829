import { expect, it } from 'vitest'
import { Breaker } from './breaker.ts'

const settings = { failures: 3, pauseMs: 100, maxPauseMs: 350 }

it('opens after so many failures in a row, not before, and successes in between count', () => {
  const breaker = new Breaker(settings)
  expect([breaker.failed(0), breaker.failed(0)]).toEqual([false, false])
  breaker.succeeded()
  expect([breaker.failed(0), breaker.failed(0), breaker.tryStart(0)]).toEqual([false, false, 0])
  expect(breaker.failed(0)).toBe(true)
  expect(breaker.tryStart(40)).toBe(60)
})

it('lets one probe through after the pause, doubles the pause when it fails, up to the longest', () => {
  const breaker = new Breaker(settings)
  for (let i = 0; i < 3; i++) breaker.failed(0)
  expect(breaker.tryStart(100)).toBe(0)
  expect(breaker.tryStart(100)).toBeGreaterThan(0)
  expect(breaker.failed(100)).toBe(true)
  expect(breaker.tryStart(100)).toBe(200)
  expect(breaker.tryStart(300)).toBe(0)
  breaker.failed(300)
  expect(breaker.tryStart(300)).toBe(350)
})

it('closes when a probe succeeds, and is as patient as before', () => {
  const breaker = new Breaker(settings)
  for (let i = 0; i < 3; i++) breaker.failed(0)
  expect(breaker.tryStart(100)).toBe(0)
  expect(breaker.succeeded()).toBe(true)
  expect(breaker.tryStart(101)).toBe(0)
  expect([breaker.failed(101), breaker.failed(101)]).toEqual([false, false])
})

it('failures of items that were in flight when it opened do not lengthen the pause', () => {
  const breaker = new Breaker(settings)
  for (let i = 0; i < 3; i++) breaker.failed(0)
  expect([breaker.failed(1), breaker.failed(2)]).toEqual([false, false])
  expect(breaker.tryStart(50)).toBe(50)
})
