import { expect, it } from 'vitest'
import { Condition } from './condition.ts'

it('those who wait are let go when what they wait for is true, and not before', async () => {
  const condition = new Condition()
  let count = 0
  const met: number[] = []
  const waits = [1, 3, 2].map((least) => condition.until(() => count >= least).then(() => met.push(least)))
  const settle = () => new Promise((resolve) => setImmediate(resolve))
  condition.changed()
  await settle()
  expect(met).toEqual([])
  for (count = 1; count <= 2; count++) {
    condition.changed()
    await settle()
  }
  expect(met).toEqual([1, 2])
  count = 3
  condition.changed()
  await Promise.all(waits)
  expect(met).toEqual([1, 2, 3])
  await condition.until(() => true)
})
