import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { defaultKeyedPlanSettings, type KeyedCosts, planKeyed } from './plan.ts'

const quiet: KeyedCosts = {
  canLayer: true,
  changedKeys: 100,
  layerBytes: 10_000,
  mergedKeys: 100,
  mergedBytes: 10_000,
  changedPages: 100,
  pagesBytes: 5_000_000,
  layersHeld: 0,
  layersHeldBytes: 0,
  baseBytes: 10_000_000,
}

describe('how a Keyed part is written', () => {
  test.each<[string, Partial<KeyedCosts>, string]>([
    ['scattered changes become a layer', {}, 'layer'],
    ['no change, nothing to write', { changedKeys: 0, layerBytes: 0 }, 'unchanged'],
    ['without a base the pages are written', { canLayer: false, changedKeys: 0 }, 'pages'],
    ['changes that lie together are written as pages', { pagesBytes: 20_000 }, 'pages'],
    ['just beyond twice the layer the pages wait', { pagesBytes: 20_001 }, 'layer'],
    ['the last layer allowed is still added', { layersHeld: 7 }, 'layer'],
    ['with no room left the layers are merged', { layersHeld: 8, mergedBytes: 80_000 }, 'merge'],
    [
      'merged layers that stay large become pages',
      { layersHeld: 8, mergedBytes: 5_000_001, pagesBytes: 11_000_000 },
      'pages',
    ],
    ['layers with too many bytes are merged if that helps', { layersHeld: 2, layersHeldBytes: 4_990_001 }, 'merge'],
    ['small layers are free however small the base', { baseBytes: 10, layersHeldBytes: 50_000 }, 'layer'],
  ])('%s', (_, change, choice) => {
    expect(planKeyed({ ...quiet, ...change }).choice).toBe(choice)
  })

  test('A4.1: however it goes, layers stay bounded in number and in bytes', () => {
    const number = fc.nat(20_000_000)
    const costs = fc.record({
      canLayer: fc.boolean(),
      changedKeys: number,
      layerBytes: number,
      mergedKeys: number,
      mergedBytes: number,
      changedPages: number,
      pagesBytes: number,
      layersHeld: fc.nat(8),
      layersHeldBytes: number,
      baseBytes: number,
    })
    fc.assert(
      fc.property(costs, (given) => {
        const plan = planKeyed(given)
        const after = { unchanged: given.layersHeld, layer: given.layersHeld + 1, merge: 1, pages: 0 }[plan.choice]
        const bytes = {
          unchanged: 0,
          layer: given.layersHeldBytes + given.layerBytes,
          merge: given.mergedBytes,
          pages: 0,
        }
        const { layersMax, layersBytesFree, layersShare } = defaultKeyedPlanSettings
        expect(after).toBeLessThanOrEqual(layersMax)
        expect(bytes[plan.choice]).toBeLessThanOrEqual(Math.max(layersBytesFree, layersShare * given.baseBytes))
      }),
    )
  })
})
