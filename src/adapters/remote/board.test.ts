// Tasks for outside workers: lent, withdrawn, settled once, and aborted while a worker has them, by two processes on one store.

import { afterEach, describe, expect, it } from 'vitest'
import { isGiveUp } from '../../core/retry/retry.ts'
import { createEngine } from '../../engine/api/open.ts'
import type { Reprise } from '../../engine/api/reprise.ts'
import { sha256 } from '../../engine/base/platform.ts'
import { hostOf } from '../../engine/host/host.ts'
import { createWorld, openMemory } from '../../stores/memory/index.ts'
import { type Board, boardOf, type Offer } from './board.ts'

const engines: Reprise[] = []
afterEach(async () => {
  for (const engine of engines.splice(0)) await engine.close()
})

function boards(count = 2): Board[] {
  const world = createWorld()
  return Array.from({ length: count }, (_, n) => {
    const store = openMemory({ namespace: 'default', hash: sha256, world })
    const engine = createEngine({ store }, { worker: `w${n}` })
    engines.push(engine)
    return boardOf(hostOf(engine))
  })
}

const never = new AbortController().signal
const offerOf = (key: string, rest: Partial<Offer> = {}): Offer => {
  return { queue: 'q', key, attempt: 1, input: key, signal: never, beat: async () => undefined, ...rest }
}
const now = { max: 10, ttlMs: 60_000, waitMs: 0, signal: never }
const soon = { ...now, waitMs: 10_000 }

describe('a board', () => {
  it('hands out each task once and settles it once, at whichever process', async () => {
    const [here, there] = boards() as [Board, Board]
    const [a, b] = [here.offer(offerOf('a')), here.offer(offerOf('b'))]
    const tasks = [...(await there.claim('q', { ...soon, max: 1 })), ...(await here.claim('q', soon))]
    expect(tasks.map(({ key }) => key).sort()).toEqual(['a', 'b'])
    expect(await there.claim('q', now)).toEqual([])
    const [first, second] = tasks.sort((one, other) => (one.key < other.key ? -1 : 1))
    expect(await here.list()).toEqual([{ queue: 'q', waiting: 0, claimed: 2 }])
    expect(await there.settle('q', first!.id, { kind: 'done', result: 1 })).toBe(true)
    // The answer was lost: the same answer again, and the first result stays.
    expect(await here.settle('q', first!.id, { kind: 'done', result: 2 })).toBe(true)
    expect(await a).toBe(1)
    await here.settle('q', second!.id, { kind: 'failed', message: 'no', mayRetry: false })
    expect(isGiveUp(await b.catch((error) => error))).toBe(true)
    expect(await there.settle('q', second!.id, { kind: 'failed', message: 'no', mayRetry: false })).toBe(true)
    await expect.poll(() => there.list()).toEqual([])
    for (const wrong of [`${first!.id}x`, 'x', `${'0'.repeat(40)}.1`]) {
      expect(await here.settle('q', wrong, { kind: 'done', result: 1 })).toBe(false)
    }
  })

  it('answers a waiting claim with the next task, also from another process', async () => {
    const [here, there] = boards() as [Board, Board]
    const claiming = there.claim('q', { ...now, waitMs: 60_000 })
    const offered = here.offer(offerOf('a'))
    const [task] = await claiming
    await there.settle('q', task!.id, { kind: 'done', result: 1 })
    expect(await offered).toBe(1)
  })

  it('passes heartbeats on, and keeps alive the others while one is settled', async () => {
    const [here, there] = boards() as [Board, Board]
    const heard: unknown[] = []
    const beat = async (details: unknown) => void heard.push(details)
    const offers = ['a', 'b', 'c'].map((key) => here.offer(offerOf(key, { beat })))
    const ids: string[] = []
    while (ids.length < 3) ids.push(...(await there.claim('q', soon)).map(({ id }) => id))
    await there.settle('q', ids[1]!, { kind: 'done', result: 'b' })
    expect(await there.beat('q', [...ids, 'x'], 60_000, { page: 7 })).toEqual([ids[0], ids[2]])
    await expect.poll(() => heard, { timeout: 10_000 }).toEqual([{ page: 7 }, { page: 7 }])
    await expect(there.beat('q', ids, 60_000, 'x'.repeat(3000))).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
    for (const id of ids) await here.settle('q', id, { kind: 'done', result: null })
    expect((await Promise.all(offers)).length).toBe(3)
    await expect.poll(() => here.list()).toEqual([])
  })

  it('hands a task out again without a sign of life, refuses the late result, and gives up after five workers', async () => {
    const [here, there] = boards() as [Board, Board]
    const offered = here.offer(offerOf('a')).catch((error) => error)
    const seen: string[] = []
    for (let lost = 0; lost < 5; lost++) {
      const [task] = await (lost % 2 ? here : there).claim('q', { ...soon, ttlMs: 10 })
      expect(task).toMatchObject({ key: 'a', lost })
      if (seen.length > 0) expect(await there.settle('q', seen.at(-1)!, { kind: 'done', result: 1 })).toBe(false)
      seen.push(task!.id)
    }
    expect(new Set(seen).size).toBe(5)
    await there.claim('q', { ...now, waitMs: 2000 })
    expect(String(await offered)).toContain('5 workers took it')
    await expect.poll(() => here.list()).toEqual([])
  })

  it('withdraws a task without a waiting caller, and keeps those of an ending process for the next', async () => {
    const [here, there] = boards() as [Board, Board]
    for (const isClaimed of [false, true]) {
      const ending = new AbortController()
      const offered = here.offer(offerOf('a', { signal: ending.signal }))
      await expect.poll(async () => (await there.list()).length).toBe(1)
      const [task] = isClaimed ? await there.claim('q', soon) : []
      ending.abort()
      await expect(offered).rejects.toMatchObject({ code: 'ABORTED' })
      await expect.poll(() => there.list()).toEqual([])
      if (task) expect(await there.beat('q', [task.id], 10)).toEqual([])
    }
    const ending = new AbortController()
    const offered = here.offer(offerOf('b', { signal: ending.signal }))
    const [task] = await there.claim('q', soon)
    here.hold()
    ending.abort()
    await expect(offered).rejects.toMatchObject({ code: 'ABORTED' })
    // The next process offers it again: the worker that has it settles it, and no other gets it.
    const again = there.offer(offerOf('b', { attempt: 2 }))
    expect(await there.claim('q', { ...now, waitMs: 300 })).toEqual([])
    expect(await there.settle('q', task!.id, { kind: 'done', result: 'once' })).toBe(true)
    expect(await again).toBe('once')
    // Also when it was settled before the next process offered it.
    expect(await there.offer(offerOf('b', { attempt: 3 }))).toBe('once')
  })
})
