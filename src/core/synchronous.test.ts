import { expect, test } from 'vitest'
import { refuseThenable, type Synchronous } from './synchronous.ts'

test('a promise and any other thenable are refused, with the callback and the verb that waits', () => {
  // biome-ignore lint/suspicious/noThenProperty: the test needs a thenable that is not a promise
  for (const value of [Promise.resolve(1), Promise.reject(new Error('no')), { then() {} }]) {
    expect(() => refuseThenable(value, 'filter()', 'use call()')).toThrow(
      expect.objectContaining({
        code: 'ASYNC_CALLBACK',
        message: expect.stringMatching(/^filter\(\) returned a promise.*use call\(\)/),
        data: { place: 'filter()', instead: 'use call()' },
      }),
    )
  }
})

test('the rejection of a refused promise ends no process', async () => {
  const unhandled: unknown[] = []
  const note = (reason: unknown) => void unhandled.push(reason)
  process.on('unhandledRejection', note)
  expect(() => refuseThenable(Promise.reject(new Error('late')), 'key', 'use call()')).toThrow()
  await new Promise((resolve) => setImmediate(resolve))
  process.off('unhandledRejection', note)
  expect(unhandled).toEqual([])
})

test('what an async generator returns is refused, and types refuse it too', () => {
  async function* one() {
    yield 1
  }
  expect(() => refuseThenable(one(), 'flatMap()', 'use call()')).toThrow(
    expect.objectContaining({
      code: 'ASYNC_CALLBACK',
      message: expect.stringMatching(/^flatMap\(\) returned an async iterable.*use call\(\)/),
    }),
  )
  const map = <R>(change: () => Synchronous<R>): R => change()
  // @ts-expect-error: an async generator has no synchronous result
  void map(one)
})

test('every other value passes', () => {
  // biome-ignore lint/suspicious/noThenProperty: a data field with this name is not a promise
  for (const value of [undefined, null, 0, '', true, 1n, {}, [], { then: 'soon' }, () => 1]) {
    refuseThenable(value, 'map()', 'use call()')
  }
})

test('types refuse an async function', () => {
  const map = <R>(change: () => Synchronous<R>): R => change()
  expect(map(() => 1)).toBe(1)
  expect(map(() => ({ a: 1 as unknown })).a).toBe(1)
  // @ts-expect-error: an async function has no synchronous result
  void map(async () => 1)
})
