import { expect, test } from 'vitest'
import { givenOf, tolerated } from './command.ts'

test.each([true, false])(
  'what code is given knows whether anybody looks at it (directly awaited: %s)',
  async (isDirect) => {
    const looks: ((given: Promise<unknown>) => unknown)[] = [
      async (given) => await given,
      (given) => given.then(String),
      (given) => given.finally(() => undefined),
      (given) => Promise.all([given]),
      (given) => Promise.race([given]),
      async (given) => given,
    ]
    for (const look of looks) {
      const given = givenOf(isDirect, (resolve) => resolve(1))
      tolerated(given)
      expect(given.isObserved, 'what tolerates it does not look').toBe(false)
      await look(given)
      expect(given.isObserved, String(look)).toBe(true)
    }
  },
)

test('runs that began before keep their three rounds of microtasks, others take one', async () => {
  const rounds = async (isDirect: boolean) => {
    const given = givenOf(isDirect, (resolve) => resolve(1))
    let count = 0
    let isDone = false
    const done = (async () => {
      await given
      isDone = true
    })()
    while (!isDone) {
      await null
      count += 1
    }
    await done
    return count
  }
  expect(await rounds(true)).toBe(1)
  expect(await rounds(false)).toBe(3)
})
