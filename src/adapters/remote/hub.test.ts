// Tasks for outside workers: lent, taken back, settled once, and aborted while a worker has them.

import { describe, expect, it, vi } from 'vitest'
import { isGiveUp } from '../../core/calls/retry.ts'
import { Hub, type Offer } from './hub.ts'

const never = new AbortController().signal
const offerOf = (key: string, rest: Partial<Offer> = {}): Offer => {
  return { queue: 'q', key, attempt: 1, input: key, signal: never, beat: async () => undefined, ...rest }
}
const now = { max: 10, ttlMs: 60_000, waitMs: 0, signal: never }

describe('a hub', () => {
  it('hands out each task once, in the order in which they came, and settles it once', async () => {
    const hub = new Hub()
    const [a, b] = [hub.offer(offerOf('a')), hub.offer(offerOf('b'))]
    const [first] = await hub.claim('q', { ...now, max: 1 })
    const [second] = await hub.claim('q', now)
    expect([first!.key, second!.key, await hub.claim('q', now)]).toEqual(['a', 'b', []])
    hub.settle('q', first!.id, { kind: 'done', result: 1 })
    hub.settle('q', first!.id, { kind: 'done', result: 2 })
    expect(await a).toBe(1)
    hub.settle('q', second!.id, { kind: 'failed', message: 'no', mayRetry: false })
    expect(isGiveUp(await b.catch((error) => error))).toBe(true)
    expect(hub.list()).toEqual([])
  })

  it('gives a claim that waits what comes', async () => {
    const hub = new Hub()
    const claiming = hub.claim('q', { ...now, waitMs: 60_000 })
    const offered = hub.offer(offerOf('a'))
    const [task] = await claiming
    hub.settle('q', task!.id, { kind: 'done', result: 1 })
    expect(await offered).toBe(1)
  })

  it('keeps alive the others while one beats, though one of them is settled meanwhile', async () => {
    const hub = new Hub()
    const offers = [
      hub.offer(
        offerOf('a', {
          beat: async () => hub.settle('q', ids[1]!, { kind: 'done', result: 'b' }),
        }),
      ),
      hub.offer(offerOf('b')),
      hub.offer(offerOf('c')),
    ]
    const ids = (await hub.claim('q', now)).map(({ id }) => id)
    expect(await hub.beat('q', ids, 60_000)).toEqual([ids[0], ids[2]])
    expect(await offers[1]).toBe('b')
    for (const id of ids) hub.settle('q', id, { kind: 'done', result: null })
    await Promise.all(offers)
    expect(hub.list()).toEqual([])
  })

  it('takes back what nobody is heard of about, and gives up after five', async () => {
    vi.useFakeTimers()
    try {
      const hub = new Hub()
      const offered = hub.offer(offerOf('a')).catch((error) => error)
      const seen: string[] = []
      for (let lost = 0; lost < 5; lost++) {
        const [task] = await hub.claim('q', { ...now, ttlMs: 10 })
        expect(task).toMatchObject({ key: 'a', lost })
        seen.push(task!.id)
        await vi.advanceTimersByTimeAsync(10)
        // A late result of this worker is refused: another has the task.
        expect(hub.find('q', task!.id)).toBe(null)
      }
      expect(new Set(seen).size).toBe(5)
      expect(String(await offered)).toContain('5 workers took it')
      expect(hub.list()).toEqual([])
    } finally {
      vi.useRealTimers()
    }
  })

  it('forgets what nobody waits for any longer, wherever it is', async () => {
    const hub = new Hub()
    for (const isClaimed of [false, true]) {
      const ending = new AbortController()
      const offered = hub.offer(offerOf('a', { signal: ending.signal }))
      const [task] = isClaimed ? await hub.claim('q', now) : []
      ending.abort()
      await expect(offered).rejects.toMatchObject({ code: 'ABORTED' })
      if (task) expect(await hub.beat('q', [task.id], 10)).toEqual([])
      expect(hub.list()).toEqual([])
    }
  })
})
