import { expect, it } from 'vitest'
import { Breaker } from './breaker.ts'

const item = {}
const probe = {}
const settings = { failures: 3, pauseMs: 100, pauseMaxMs: 350 }

it('opens after so many failures in a row, not before, and successes in between count', () => {
  const breaker = new Breaker(settings)
  expect([breaker.failed(0, item), breaker.failed(0, item)]).toEqual([false, false])
  breaker.succeeded()
  expect([breaker.failed(0, item), breaker.failed(0, item), breaker.tryStart(0, item)]).toEqual([false, false, 0])
  expect(breaker.failed(0, item)).toBe(true)
  expect(breaker.tryStart(40, item)).toBe(60)
})

it('lets one probe through after the pause, doubles the pause when it fails, up to the longest', () => {
  const breaker = new Breaker(settings)
  for (let i = 0; i < 3; i++) breaker.failed(0, item)
  expect(breaker.tryStart(100, item)).toBe(0)
  expect(breaker.tryStart(100, probe)).toBeGreaterThan(0)
  expect(breaker.failed(100, item)).toBe(true)
  expect(breaker.tryStart(100, item)).toBe(200)
  expect(breaker.tryStart(300, item)).toBe(0)
  breaker.failed(300, item)
  expect(breaker.tryStart(300, item)).toBe(350)
})

it('closes when a probe succeeds, and is as patient as before', () => {
  const breaker = new Breaker(settings)
  for (let i = 0; i < 3; i++) breaker.failed(0, item)
  expect(breaker.tryStart(100, item)).toBe(0)
  expect(breaker.succeeded()).toBe(true)
  expect(breaker.tryStart(101, item)).toBe(0)
  expect([breaker.failed(101, item), breaker.failed(101, item)]).toEqual([false, false])
})

it('failures of items that were in flight when it opened do not lengthen the pause', () => {
  const breaker = new Breaker(settings)
  for (let i = 0; i < 3; i++) breaker.failed(0, item)
  expect([breaker.failed(1, item), breaker.failed(2, item)]).toEqual([false, false])
  expect(breaker.tryStart(50, item)).toBe(50)
})

it('an item in flight that fails while another is the probe does not count as the probe', () => {
  const breaker = new Breaker(settings)
  for (let i = 0; i < 3; i++) breaker.failed(0, item)
  expect(breaker.tryStart(100, probe)).toBe(0)
  expect(breaker.failed(110, item)).toBe(false)
  expect(breaker.tryStart(110, item)).toBe(50)
  expect(breaker.failed(120, probe)).toBe(true)
})

it('lets another item probe when the probe came to no verdict', () => {
  const breaker = new Breaker(settings)
  for (let i = 0; i < 3; i++) breaker.failed(0, item)
  expect(breaker.tryStart(100, probe)).toBe(0)
  breaker.left(item)
  expect(breaker.tryStart(100, item)).toBe(50)
  breaker.left(probe)
  expect(breaker.tryStart(100, item)).toBe(0)
})
