import { expect, it } from 'vitest'
import { Alarm, Condition, Mutex, sleep, within } from './waiting.ts'

it('waits end when their condition is true, and not before', async () => {
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

it('a sleep ends with its time or its signal, and leaves neither timer nor listener', async () => {
  const clock = new HandClock()
  const controller = new AbortController()
  const [timed, aborted] = [sleep(clock, 5), sleep(clock, 50, { signal: controller.signal })]
  clock.advance(5)
  await timed
  controller.abort()
  await aborted
  expect(clock.pending).toBe(0)
  await sleep(clock, 50, { signal: controller.signal })
  expect(clock.pending).toBe(0)
})

it('work within a time limit gives its result or is late, and leaves no timer', async () => {
  const clock = new HandClock()
  expect(await within(clock, 5, Promise.resolve('done'))).toBe('done')
  const late = within(clock, 5, new Promise(() => {}))
  clock.advance(5)
  expect(await late).toBe('late')
  await expect(within(clock, 5, Promise.reject(new Error('failed')))).rejects.toThrow('failed')
  expect(clock.pending).toBe(0)
})

it('a ring ends one nap, the current or the next', async () => {
  const clock = new HandClock()
  const alarm = new Alarm(clock)
  alarm.ring()
  await alarm.nap(5)
  const current = alarm.nap(5)
  alarm.ring()
  alarm.ring()
  await current
  await alarm.nap(5)
  const last = alarm.nap(5)
  expect(clock.pending).toBe(1)
  clock.advance(5)
  await last
})

it('a mutex runs one piece of work after another, also after a failure', async () => {
  const mutex = new Mutex()
  const seen: string[] = []
  const piece = (name: string) => async () => {
    seen.push(`${name} begins`)
    await new Promise((resolve) => setImmediate(resolve))
    seen.push(`${name} ends`)
    if (name === 'b') throw new Error('failed')
  }
  const [a, b, c] = ['a', 'b', 'c'].map((name) => mutex.run(piece(name)))
  expect(mutex.isFree).toBe(false)
  await expect(b).rejects.toThrow('failed')
  await Promise.all([a, c])
  expect(seen).toEqual(['a', 'b', 'c'].flatMap((name) => [`${name} begins`, `${name} ends`]))
  expect(mutex.isFree).toBe(true)
  expect(await mutex.run(() => 1)).toBe(1)
})

class HandClock {
  readonly #calls = new Set<{ readonly at: number; readonly call: () => void }>()
  #now = 0

  get pending(): number {
    return this.#calls.size
  }

  after(delayMs: number, call: () => void): () => void {
    const entry = { at: this.#now + delayMs, call }
    this.#calls.add(entry)
    return () => this.#calls.delete(entry)
  }

  advance(ms: number): void {
    this.#now += ms
    for (const entry of [...this.#calls]) {
      if (entry.at > this.#now) continue
      this.#calls.delete(entry)
      entry.call()
    }
  }
}
