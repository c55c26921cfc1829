// The data and the queries of the test of damaged pages: a store with every model and enough timelines that each list takes
// several pages of the file, and every query of the API, one by one. A query returns the same answer as before, or is refused
// with a code.

import { type TimelineId, toHex, type WorkerId } from '../../src/core/coordinate.ts'
import { type FeedPosition, feedStart } from '../../src/core/store/ports.ts'
import type { Reprise } from '../../src/engine/api/reprise.ts'
import { isReprise, RepriseError } from '../../src/index.ts'
import { fill, readersOf } from '../entities/damage-world.ts'
import { hostOf } from '../support/host.ts'
import { definitions, write } from './world.ts'

const places = 130
const now = 1_700_000_000_000

/** Everything that the other tests of damage write, and many small timelines with mail, attributes, cursors and forks. */
export async function fillPages(rp: Reprise): Promise<void> {
  await write(rp)
  await fill(rp)
  await growPages(rp, 0)
}

/** Continues all of them, so that each touched page has an older version. */
export async function growPages(rp: Reprise, round: number): Promise<void> {
  const { next } = await hostOf(rp).kernel.store.feed(feedStart, {}, 20 + 5 * round)
  for (let i = 0; i < places; i++) {
    const id = `plain/place-${String(i).padStart(4, '0')}` as TimelineId
    const open = await hostOf(rp).openTimeline(id, definitions.plain.fold)
    await open.write([{ type: 'n', data: { n: round, pad: 'x'.repeat(i % 90) } }], {
      attributes: { group: `g${(i + round) % 7}`, place: i, round },
      status: (i + round) % 3 ? 'busy' : 'done',
      queue: `q${i % 2}`,
      wakeup: (i + round) % 4 === 0 ? now - 1000 - i : now + 5_000_000 + i,
      ...(i % 9 === 0 && { cursors: { [`cursor-${i}`]: next } }),
    })
    if (i % 5 === 0) await open.checkpoint()
    if (i % 3 === 0) await open.close()
    if (i % 4 === round % 4) await rp.send(id, 'note', { i, round }, { key: `m-${i}-${round}` })
    if (i % 40 === 7) await rp.fork({ timeline: id, seq: 1 }, `${id}/fork-${round}`)
  }
}

/** Some are owned by a worker of another process. */
export async function holdSome(rp: Reprise): Promise<void> {
  const { store } = hostOf(rp).kernel
  const record = { id: writer, name: 'other', host: 'elsewhere', process: '1', leaseMs: 1e9, info: {}, progress: 0 }
  await store.beat(record)
  await store.claim({ worker: writer, queues: ['q0'], limit: 20 })
}

const asText = (_: string, value: unknown) => (value instanceof Uint8Array ? toHex(value) : value)
const spell = (value: unknown) => JSON.stringify(value, asText)

export type Question = readonly [name: string, ask: () => Promise<string>]

/**
 * Every list and every lookup of the store, whole histories and states of every model. Claims run last, because they write.
 */
export function questionsOf(rp: Reprise): Question[] {
  const { store } = hostOf(rp).kernel
  const list = async (query: Parameters<typeof store.timelines>[0]) =>
    spell(
      (await store.timelines(query)).map(({ timeline, seq, status, mail, attributes }) => [
        timeline,
        seq,
        status,
        mail,
        attributes,
      ]),
    )
  const each = async (what: (timeline: TimelineId) => Promise<unknown>) => {
    const lines: unknown[] = []
    for (const id of names) lines.push(await what(id))
    return spell(lines)
  }
  const readAll = async (id: TimelineId) => {
    const [head] = await store.head([id])
    const runs: unknown[] = []
    let after = Math.max(head?.floor ?? 0, head?.base?.seq ?? 0)
    while (head && after < head.seq) {
      const page = await store.read(id, after, 1e6)
      if (page.length === 0) break
      runs.push(page)
      after = page.at(-1)!.first + page.at(-1)!.count - 1
    }
    return [after, runs]
  }
  const catalog = async (id: TimelineId) => {
    const records = await store.checkpoints(id)
    const wrong = records.find(({ invalid }) => invalid !== null)
    if (wrong) throw new RepriseError('CHECKPOINT_DAMAGED', `${wrong.id} is said to be damaged`)
    return records
  }
  const feed = async () => {
    const items: unknown[] = []
    let after: FeedPosition = feedStart
    for (let page = 0; page < 10_000; page++) {
      const { items: found, next, isEnd } = await store.feed(after, {}, 100)
      items.push(found)
      after = next
      if (isEnd) return spell(items)
    }
    throw new Error('the feed does not end')
  }
  return [
    ['list', () => list({ limit: 5000 })],
    ['list by prefix', () => list({ prefix: 'plain/place-00', limit: 5000 })],
    ['list page', () => list({ prefix: 'plain/', after: 'plain/place-0050' as TimelineId, limit: 30 })],
    ['list by status', () => list({ prefix: 'plain/', status: 'done', limit: 5000 })],
    ['list by queue', () => list({ queue: 'q1', limit: 5000 })],
    ['list by attribute', () => list({ attributes: { group: 'g3' }, limit: 5000 })],
    ['list by attributes', () => list({ attributes: { group: 'g2', round: 1 }, limit: 5000 })],
    ['list by owner', () => list({ owner: writer, limit: 5000 })],
    ['list forks', () => list({ parent: 'plain/place-0047' as TimelineId, limit: 100 })],
    ['heads', () => each(async (id) => (await store.head([id]))[0])],
    ['histories', () => each(readAll)],
    ['catalog', () => each(catalog)],
    ['inboxes', () => each(async (id) => (await store.inbox(id, 100)).messages)],
    ['cursors', async () => spell(await store.cursors())],
    ['workers', async () => spell((await store.workers()).filter(({ name }) => name === 'damage'))],
    ['feed', feed],
    ...readersOf(rp).map((read, index): Question => [`model ${index}`, async () => (await read()).text]),
    [
      'claims',
      async () => {
        const { worker } = hostOf(rp).kernel
        const claim = async () => await store.claim({ worker: worker.id, queues: ['q0', 'q1'], limit: 500 })
        const taken = await claim()
        // Repeated claims, as by a worker: each claim checks a part of the index for missing rows, and all of it in turn.
        for (let again = 0; again < 5; again++) taken.push(...(await claim()))
        // An unreadable timeline is quarantined: no worker gets it, and reads of it are refused.
        const quarantined: string[] = []
        for (const id of names) {
          await store.head([id]).catch((error) => {
            if (!isReprise(error, 'STORE_DAMAGED')) throw error
            quarantined.push(id)
          })
        }
        return spell({ taken: taken.map(({ timeline }) => timeline), quarantined })
      },
    ],
  ]
}

const names: TimelineId[] = []
const writer = 'other-worker' as WorkerId

/** Names are queried one by one, so that an index that lost one does not hide it. */
export async function learnNames(rp: Reprise): Promise<void> {
  names.length = 0
  for (const { timeline } of await hostOf(rp).kernel.store.timelines({ limit: 5000 })) names.push(timeline)
}

export type Answer = string | { readonly code: string }

export async function answer([, ask]: Question): Promise<Answer> {
  try {
    return await ask()
  } catch (error) {
    if (isReprise(error)) return { code: error.code }
    throw error
  }
}
