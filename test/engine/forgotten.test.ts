// A timeline that a reader of the feed has read, and that is missing: it was forgotten, which the reader skips, or the store
// went back to a copy that never had it, which the reader must report. Seed 121 of the failover simulation found the second.

import { expect, test } from 'vitest'
import { type Digest, timelineId } from '../../src/core/coordinate.ts'
import type { Store } from '../../src/core/store/ports.ts'
import { forwardStore } from '../../src/core/store/store-wrapper.ts'
import type { Reprise } from '../../src/engine/api/reprise.ts'
import { timeline } from '../../src/engine/api/timeline-definition.ts'
import { whereabouts } from '../../src/engine/feed/feed-marks.ts'
import { FeedReader } from '../../src/engine/feed/reader.ts'
import { createEngine } from '../../src/store.ts'
import { flipped } from '../entities/support.ts'
import { added, counter } from '../support/definitions.ts'
import { hostOf } from '../support/host.ts'
import { onEveryStore, type World } from '../support/worlds.ts'

const trimmed = timeline('trimmed', {
  initial: () => 0,
  apply: (n: number, e: ReturnType<typeof added>) => n + e.by,
  retain: { checkpoints: 1, history: 'needed' },
})

/** A store that can go over to another copy. */
function door(first: Store) {
  let store = first
  const handler = {
    get: (_: object, name: string | symbol) => {
      if (name === 'close') return async () => undefined
      const member: unknown = Reflect.get(store, name, store)
      return typeof member === 'function' ? member.bind(store) : member
    },
  }
  return { store: new Proxy({}, handler) as Store, goTo: (other: Store) => (store = other) }
}

async function write(engine: Reprise, id: string): Promise<void> {
  const handle = await engine.open(counter, id)
  await handle.append(added(1))
  await handle.close()
}

/** Reads to the end. */
async function readAll(reader: FeedReader, after: string): Promise<{ ids: string[]; next: string }> {
  const ids: string[] = []
  for (let next = after; ; ) {
    const page = await reader.page(next)
    ids.push(...page.entries.map(({ timeline }) => timeline))
    next = page.next
    if (page.isEnd) return { ids, next }
  }
}

onEveryStore('what a reader of the feed misses', (world) => {
  async function over(from: World) {
    const through = door(await from.store())
    const engine = createEngine({ store: through.store })
    return { ...through, reader: new FeedReader(hostOf(engine).kernel, ['counter/']) }
  }

  test.each(['digest', 'floorDigest'] as const)(
    'G7: a head with a damaged %s is told as damage, not as a copy',
    async (field) => {
      const one = await world()
      const engine = await one.engine()
      const handle = await engine.open(trimmed, 'a')
      for (let n = 0; n < 4; n++) {
        await handle.append(added(1))
        await handle.checkpoint()
      }
      await handle.append(added(1))
      const store = await one.store()
      const [head] = await store.head([timelineId('trimmed/a')])
      expect(head!.floor).toBeGreaterThan(0)
      const damaged = forwardStore(store, {
        head: async (timelines) =>
          (await store.head(timelines)).map(
            (each) => each && { ...each, [field]: flipped(each[field], 3, 1) as Digest },
          ),
      })
      const { kernel } = hostOf(createEngine({ store: damaged }))
      const point = { seq: field === 'digest' ? head!.seq : head!.floor, digest: head![field] }
      await expect(whereabouts(kernel, timelineId('trimmed/a'), point)).rejects.toMatchObject({
        code: 'HISTORY_DAMAGED',
      })
      const other = { seq: point.seq, digest: flipped(point.digest, 9, 1) as Digest }
      expect(await whereabouts(kernel, timelineId('trimmed/a'), other)).toBe('gone')
    },
  )

  test('G12: a copy without the last read entries is recognised, though another timeline took its place', async () => {
    const [one, copy] = [await world(), await world()]
    await write(await one.engine(), 'a')
    await write(await copy.engine(), 'b')
    const { reader, goTo } = await over(one)
    const { next } = await readAll(reader, '')
    goTo(await copy.store())
    await expect(reader.page(next)).rejects.toMatchObject({ code: 'POSITION_GONE' })
    expect((await readAll(reader, '')).ids).toEqual(['counter/b'])
  })

  test('G12: a timeline that was deleted or erased is no other copy', async () => {
    const one = await world()
    const engine = await one.engine()
    await write(engine, 'a')
    await write(engine, 'b')
    const { reader } = await over(one)
    let { next } = await readAll(reader, '')
    await engine.erase('counter/b')
    next = (await readAll(reader, next)).next
    await engine.delete('counter/a')
    await write(engine, 'c')
    expect((await readAll(reader, next)).ids).toEqual(['counter/c'])
  })

  test('G12: a reader without any of its read entries recognises its copy by the forgotten timelines', async () => {
    const [one, copy] = [await world(), await world()]
    const [engine, other] = [await one.engine(), await copy.engine()]
    for (const id of ['a', 'b']) {
      await write(engine, id)
      await write(other, id)
    }
    await engine.delete('counter/a')
    await engine.delete('counter/b')
    const { reader, goTo } = await over(one)
    const { ids, next } = await readAll(reader, '')
    expect(ids).toEqual([])
    await reader.page(next)
    goTo(await copy.store())
    await expect(reader.page(next)).rejects.toMatchObject({ code: 'POSITION_GONE' })
    // As many forgotten on both, and not the same ones.
    const again = await over(one)
    const position = (await readAll(again.reader, '')).next
    await other.delete('counter/b')
    await other.delete('counter/a')
    again.goTo(await copy.store())
    await expect(again.reader.page(position)).rejects.toMatchObject({ code: 'POSITION_GONE' })
  })

  test('forgotten timelines are named within a bound, and many at once are each noted', async () => {
    const one = await world()
    const engine = await one.engine()
    const ids = Array.from({ length: 12 }, (_, i) => String(i))
    for (const id of ids) await write(engine, id)
    await Promise.all(ids.map((id) => engine.delete(`counter/${id}`)))
    const [log] = await (await one.store()).head(['reprise/forgotten' as never])
    expect(log?.epoch).toBe(12)
    expect(String(log?.attributes.$last)).toHaveLength(12 * 16)
  })
})
