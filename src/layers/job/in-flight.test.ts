import fc from 'fast-check'
import { expect, it } from 'vitest'
import { fingerprint } from './fingerprint.ts'
import { Flight, type InFlight } from './in-flight.ts'

class Item implements InFlight {
  readonly key: string
  readonly print: string
  nextInFlight: this | null = null

  constructor(key: string) {
    this.key = key
    this.print = fingerprint(key)
  }
}

it('behaves like a Map under any changes, and while it grows', () => {
  const step = fc.tuple(fc.nat(400), fc.boolean())
  fc.assert(
    fc.property(fc.array(step, { minLength: 300, maxLength: 1200 }), (steps) => {
      const flight = new Flight<Item>()
      const model = new Map<string, Item>()
      for (const [number, leaves] of steps) {
        const key = `k${number}`
        const held = model.get(key)
        if (held && leaves) {
          flight.delete(held)
          model.delete(key)
        } else if (!held) {
          const item = new Item(key)
          flight.add(item)
          model.set(key, item)
        }
        expect(flight.size).toBe(model.size)
      }
      for (let i = 0; i <= 400; i++) expect(flight.has(`k${i}`, fingerprint(`k${i}`))).toBe(model.has(`k${i}`))
      expect(new Set(flight.all())).toEqual(new Set(model.values()))
    }),
    { numRuns: 40 },
  )
})

it('leaves no link in an item that has gone, and lets one go twice', () => {
  const flight = new Flight<Item>()
  const items = Array.from({ length: 1000 }, (_, i) => new Item(`k${i}`))
  for (const item of items) flight.add(item)
  for (const item of items) flight.delete(item)
  for (const item of items) flight.delete(item)
  expect(flight.size).toBe(0)
  expect(items.every((item) => item.nextInFlight === null)).toBe(true)
})
