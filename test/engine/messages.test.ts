// Inbox, wakeups, queues, feeds, cursors and attributes: what layers build on.

import { expect, it, vi } from 'vitest'
import { timelineId } from '../../src/core/coordinate.ts'
import { unpackEntries } from '../../src/core/history/entry-run.ts'
import { feedStart, RepriseError, timeline } from '../../src/index.ts'
import { added, counter, frugal } from '../support/definitions.ts'
import { hostOf } from '../support/host.ts'
import { onEveryStore } from '../support/worlds.ts'

const log = timeline('log', {
  initial: () => [] as string[],
  apply: (s, e: { type: 'got'; text: string }) => [...s, e.text],
})

onEveryStore('messages', (world) => {
  it('mail sent before the timeline exists is kept, read in order, and consumed once with the entry that reacts', async () => {
    const w = await world()
    const [a, b] = [await w.engine(), await w.engine()]
    await a.send('log/x', 'greet', { text: 'one' }, { key: 'm1' })
    await a.send('log/x', 'greet', { text: 'two' })
    await a.send('log/x', 'greet', { text: 'one again' }, { key: 'm1' })
    hostOf(b).register(log.prefix, log.fold)
    const open = await hostOf(b).openTimeline(timelineId('log/x'), log.fold)
    const mail = await open.inbox()
    expect(mail.map((message) => hostOf(b).openMessage(message))).toEqual([{ text: 'one' }, { text: 'two' }])
    for (const message of mail) {
      await open.write([{ type: 'got', data: hostOf(b).openMessage(message) }], { consume: [message.id] })
    }
    expect(open.state).toEqual(['one', 'two'])
    await a.send('log/x', 'greet', { text: 'one for the third time' }, { key: 'm1' })
    expect(await open.inbox()).toEqual([])
    await expect(open.write([{ type: 'got', data: { text: 'twice' } }], { consume: [mail[0]!.id] })).rejects.toThrow()
    expect((await b.head('log/x'))!.seq).toBe(2)
  })

  it('a listener learns whether anything may be due: not after appends and ends, but after mail and releases', async () => {
    const w = await world()
    const store = await w.store()
    const rp = await w.engine({ ports: { store } })
    const one = await hostOf(rp).openTimeline(timelineId('log/one'), log.fold)
    const two = await hostOf(rp).openTimeline(timelineId('log/two'), log.fold)
    const three = await hostOf(rp).openTimeline(timelineId('log/three'), log.fold)
    // All earlier notifications were delivered by then, and polls have run.
    const quiet = () => new Promise((resolve) => setTimeout(resolve, 150))
    await quiet()
    let heard: (boolean | undefined)[] = []
    const after = async (work: () => Promise<unknown>) => {
      heard = []
      await work()
      await expect.poll(() => heard.length).toBeGreaterThan(0)
      await quiet()
      return heard.includes(true)
    }
    const stop = store.listen((mayBeDue) => heard.push(mayBeDue))
    // Until it receives its own notification it polls, and a poll has no such information. After two notifications of one
    // write, here and by the server, it has.
    const toldTwice = async () => {
      heard = []
      await one.write([{ type: 'got', data: { text: 'first' } }])
      await quiet()
      return heard.filter((mayBeDue) => mayBeDue === false).length > 1
    }
    if (w.kind === 'postgres') await expect.poll(toldTwice).toBe(true)
    await quiet()
    expect(await after(() => one.write([{ type: 'got', data: { text: 'a' } }]))).toBe(false)
    expect(await after(() => one.write([{ type: 'got', data: { text: 'b' } }], { status: 'busy' }))).toBe(false)
    expect(await after(() => one.write([], { release: true, queue: null, wakeup: null }))).toBe(false)
    expect(await after(() => two.write([], { release: true, queue: 'q', wakeup: Date.now() }))).toBe(true)
    expect(await after(() => three.write([], { send: [hostOf(rp).message('log/x', 'greet', {}, 'm2')] }))).toBe(true)
    expect(await after(() => rp.send('log/x', 'greet', {}))).toBe(true)
    stop()
  })

  it('the dispatcher executes due timelines: by wakeup, by mail, by priority, each under a new epoch', async () => {
    const w = await world()
    const [a, b] = [await w.engine(), await w.engine()]
    const start = async (id: string, wakeup: number | null, priority: number) => {
      const open = await hostOf(a).openTimeline(timelineId(`log/${id}`), log.fold)
      await open.close({ queue: 'work', wakeup, priority })
    }
    await hostOf(a).kernel.worker.register()
    await start('mailed', null, 0)
    await start('later', hostOf(a).kernel.worker.now() + 3_600_000, 0)
    await start('low', 0, 1)
    await start('high', 0, 9)
    await a.send('log/mailed', 'wake', null)
    const seen: string[] = []
    await new Promise<void>((resolve) => {
      hostOf(b).serve(
        'work',
        async (head) => {
          const open = await hostOf(b).adopt(head, log.fold)
          const mail = await open.inbox()
          seen.push(head.timeline)
          await open.write([{ type: 'got', data: { text: 'run' } }], { consume: mail.map(({ id }) => id) })
          await open.close({ wakeup: null })
          if (seen.length === 3) resolve()
        },
        { concurrency: 1 },
      )
    })
    expect([...seen].sort()).toEqual(['log/high', 'log/low', 'log/mailed'])
    expect(seen.indexOf('log/high')).toBeLessThan(seen.indexOf('log/low'))
    expect((await b.head('log/later'))!.seq).toBe(0)
  })

  it('a timeline that a failed store kept from opening is claimed again by the same worker', async () => {
    const rp = await (await world()).engine()
    const made = await hostOf(rp).openTimeline(timelineId('log/stray'), log.fold)
    await made.close({ queue: 'stray', wakeup: 0 })
    const epochs: number[] = []
    await new Promise<void>((resolve) => {
      hostOf(rp).serve('stray', async (head) => {
        epochs.push(head.epoch)
        if (epochs.length === 1) throw new RepriseError('STORE_UNREACHABLE', 'the server went away just now')
        const open = await hostOf(rp).adopt(head, log.fold)
        await open.close({ wakeup: null })
        resolve()
      })
    })
    expect(epochs[1]).toBe(epochs[0]! + 1)
  })

  it('a timeline whose handler fails is given back: another process takes it, and this one waits before it does', async () => {
    const w = await world()
    const [failing, other] = [await w.engine(), await w.engine()]
    const made = await hostOf(failing).openTimeline(timelineId('log/failed'), log.fold)
    await made.close({ queue: 'failed', wakeup: 0 })
    let failures = 0
    hostOf(failing).serve('failed', async () => {
      failures += 1
      throw new Error('a key that this process lacks')
    })
    await expect.poll(async () => [failures, (await failing.head('log/failed'))!.owner]).toEqual([1, null])
    await new Promise<void>((resolve) => {
      hostOf(other).serve('failed', async (head) => {
        const open = await hostOf(other).adopt(head, log.fold)
        await open.close({ wakeup: null })
        resolve()
      })
    })
  })

  it('a timeline whose handler failed is claimed again by the same worker, later each time', async () => {
    const rp = await (await world()).engine()
    const made = await hostOf(rp).openTimeline(timelineId('log/again'), log.fold)
    await made.close({ queue: 'again', wakeup: 0 })
    const { clock } = hostOf(rp).kernel
    const times: number[] = []
    await new Promise<void>((resolve) => {
      hostOf(rp).serve('again', async (head) => {
        times.push(clock.elapsed())
        if (times.length < 3) throw new Error('not now')
        const open = await hostOf(rp).adopt(head, log.fold)
        await open.close({ wakeup: null })
        resolve()
      })
    })
    const [first, second] = [times[1]! - times[0]!, times[2]! - times[1]!]
    expect(first).toBeGreaterThanOrEqual(500)
    expect(second).toBeGreaterThanOrEqual(1000)
  })

  it('the feed has every entry of every timeline once, in order, also when writers interleave', async () => {
    const w = await world()
    const [a, b] = [await w.engine(), await w.engine()]
    const writers = await Promise.all(['p', 'q', 'r', 's'].map((id, i) => (i % 2 ? a : b).open(counter, id)))
    let isWriting = true
    const writing = Promise.all(
      writers.map(async (c, i) => {
        for (let n = 0; n < 25; n++) await c.append(added(i * 1000 + n))
      }),
    ).finally(() => {
      isWriting = false
    })
    const seen: string[] = []
    let position = feedStart
    for (let isDone = false; !isDone; ) {
      isDone = !isWriting
      const page = await a.feed(position, { prefixes: ['counter/'] })
      for (const { timeline: id, run } of page.items)
        for (const { seq } of unpackEntries(run)) seen.push(`${id}@${seq}`)
      position = page.next
      if (page.isEnd && !isDone) await new Promise((resolve) => setTimeout(resolve, 1))
      if (!page.isEnd) isDone = false
    }
    await writing
    expect(new Set(seen).size).toBe(seen.length)
    expect(seen).toHaveLength(100)
    for (const id of ['p', 'q', 'r', 's']) {
      expect(seen.filter((each) => each.startsWith(`counter/${id}@`))).toEqual(
        Array.from({ length: 25 }, (_, n) => `counter/${id}@${n + 1}`),
      )
    }
  })

  it('A6.4: history that a named cursor has not passed is never trimmed', async () => {
    const w = await world()
    const rp = await w.engine()
    const consumer = await hostOf(rp).openTimeline(timelineId('log/consumer'), log.fold)
    await consumer.write([], { cursors: { reports: feedStart } })
    const f = await rp.open(frugal, 'x')
    for (let i = 0; i < 30; i++) await f.append(added(1))
    await f.checkpoint()
    expect((await rp.head('frugal/x'))!.floor).toBe(0)
    // To its end: on a shared server an open transaction of another session hides the last of it for a moment.
    const read = () => hostOf(rp).kernel.store.feed(feedStart, {}, 1000)
    const page = await vi.waitUntil(() => read().then((found) => found.isEnd && found), { timeout: 90_000 })
    await consumer.write([{ type: 'got', data: { text: 'read' } }], { cursors: { reports: page.next } })
    await f.append(added(1))
    await f.checkpoint()
    expect((await rp.head('frugal/x'))!.floor).toBeGreaterThan(0)
    expect((await hostOf(rp).kernel.store.cursors()).map(({ name }) => name)).toEqual(['reports'])
  })

  it('timelines are found by their attributes and status', async () => {
    const w = await world()
    const rp = await w.engine()
    for (const [id, city] of [
      ['a', 'Rome'],
      ['b', 'Oslo'],
      ['c', 'Rome'],
    ] as const) {
      const open = await hostOf(rp).openTimeline(timelineId(`log/${id}`), log.fold)
      await open.write([], { attributes: { city, size: 3 }, status: 'running' })
    }
    expect((await rp.list({ attributes: { city: 'Rome' }, status: 'running' })).map(({ timeline: id }) => id)).toEqual([
      'log/a',
      'log/c',
    ])
    expect(await rp.list({ attributes: { city: 'Rome', size: 4 } })).toEqual([])
    await expect(rp.list({ town: 'Rome' } as never)).rejects.toEqual(
      expect.objectContaining({ code: 'INVALID_ARGUMENT' }),
    )
  })

  it('a message must have a text for an id and a kind: anything else is refused, and the inbox stays whole', async () => {
    const rp = await (await world()).engine()
    const open = await hostOf(rp).openTimeline(timelineId('counter/a'), counter.fold)
    for (const id of [12345, '', 'a\0b', '\ud800', {}, null, 'x'.repeat(3000)]) {
      await expect(rp.send('counter/a', 'note', 1, { key: id as string })).rejects.toMatchObject({
        code: 'INVALID_ARGUMENT',
      })
      await expect(rp.send('counter/a', id as string, 1)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
    }
    await rp.send('counter/a', 'note', 1, { key: '12345' })
    expect((await open.inbox()).map(({ id }) => id)).toEqual(['12345'])
  })
})
