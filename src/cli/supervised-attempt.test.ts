import { getEventListeners } from 'node:events'
import { expect, test } from 'vitest'
import { Broken, onLine } from './supervised-attempt.ts'

const never = () => new Promise<never>(() => undefined)

test('an attempt without data is given up when it stalls, and on request', async () => {
  const stop = new AbortController()
  await expect(onLine(never, 20, stop.signal)).rejects.toBeInstanceOf(Broken)
  const asked = onLine(never, 3_600_000, stop.signal)
  stop.abort()
  await expect(asked).rejects.toMatchObject({ name: 'AbortError' })
  await expect(onLine(never, 3_600_000, stop.signal)).rejects.toMatchObject({ name: 'AbortError' })
}, 30_000)

test('what moves is not given up, and an attempt leaves nothing behind', async () => {
  const stop = new AbortController()
  for (let attempt = 0; attempt < 12; attempt++) {
    const moving = onLine(
      async ({ signal, moved }) => {
        for (let i = 0; i < 4; i++) {
          await new Promise((resolve) => setTimeout(resolve, attempt === 0 ? 200 : 0))
          moved()
        }
        return signal.aborted
      },
      attempt === 0 ? 700 : 60_000,
      stop.signal,
    )
    expect(await moving).toBe(false)
  }
  expect(getEventListeners(stop.signal, 'abort')).toEqual([])
})
