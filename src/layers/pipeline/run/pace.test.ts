// The work of a flow per turn of the event loop, for functions of any cost.

import fc from 'fast-check'
import { expect, it } from 'vitest'
import { Neighbours, Pace } from './pace.ts'

function paced(neighbours = new Neighbours()) {
  const clock = { now: 0, elapsed: () => clock.now }
  const pace = new Pace(clock, neighbours)
  pace.begin()
  /** One round of the flow, at this cost per record, with as many records as the pace allows. */
  const round = (costMs: number) =>
    pace.step((most) => {
      clock.now += most * costMs
      return most
    })
  return { clock, pace, round }
}

it('a turn takes little more than a slice after the first batch, whatever a record costs, and cheap records go in full batches', () => {
  fc.assert(
    fc.property(fc.array(fc.double({ min: 0.0001, max: 3, noNaN: true }), { minLength: 1, maxLength: 5 }), (costs) => {
      const { clock, round } = paced()
      for (const cost of costs) {
        for (let i = 0; i < 12; i++) round(cost)
        const before = clock.now
        const count = round(cost)
        expect(clock.now - before <= 8 || count === 1).toBe(true)
        if (cost < 4 / 512) expect(count).toBe(512)
      }
    }),
  )
})

it('flows together compute for half of the time while a sink writes, and all of it otherwise', () => {
  const neighbours = new Neighbours()
  neighbours.flows = 3
  const { clock, pace } = paced(neighbours)
  const compute = (ms: number) =>
    pace.step(() => {
      clock.now += ms
      return 1
    })
  compute(3)
  expect(pace.restMs()).toBeNull()
  compute(1)
  expect(pace.restMs()).toBe(0)
  neighbours.writing = 1
  expect(pace.restMs()).toBe(20)
})
