import { describe, expect, it } from 'vitest'
import { Alignment } from './alignment.ts'

const nothing = { cancel: null, capture: null }

describe('alignment', () => {
  it('captures when the last channel delivers its barrier, and holds the others until then', () => {
    const alignment = new Alignment(2)
    expect(alignment.barrier(0, 1)).toEqual(nothing)
    expect([alignment.isWaiting(0), alignment.isWaiting(1)]).toEqual([true, false])
    expect(alignment.barrier(1, 1)).toEqual({ cancel: null, capture: 1 })
    expect([alignment.isWaiting(0), alignment.isWaiting(1)]).toEqual([false, false])
  })

  it('aborts a pending checkpoint for a newer one, and reports it', () => {
    const alignment = new Alignment(2)
    alignment.barrier(0, 1)
    expect(alignment.barrier(1, 2)).toEqual({ cancel: 1, capture: null })
    expect([alignment.isWaiting(0), alignment.isWaiting(1)]).toEqual([false, true])
    expect(alignment.barrier(0, 2)).toEqual({ cancel: null, capture: 2 })
  })

  it('lets everything flow again when a checkpoint is called off', () => {
    const alignment = new Alignment(2)
    alignment.barrier(0, 1)
    expect(alignment.abort(1)).toEqual({ cancel: 1, capture: null })
    expect(alignment.isWaiting(0)).toBe(false)
    expect(alignment.barrier(1, 1)).toEqual(nothing)
    expect(alignment.isWaiting(1)).toBe(false)
  })

  it('drops barriers that are called off before they come, and those of the past', () => {
    const alignment = new Alignment(2, 4)
    expect(alignment.barrier(0, 4)).toEqual(nothing)
    expect(alignment.abort(6)).toEqual({ cancel: 6, capture: null })
    expect(alignment.abort(6)).toEqual(nothing)
    expect(alignment.barrier(0, 6)).toEqual(nothing)
    expect(alignment.isWaiting(0)).toBe(false)
    alignment.barrier(0, 7)
    expect(alignment.barrier(1, 7)).toEqual({ cancel: null, capture: 7 })
  })
})
