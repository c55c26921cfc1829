// A store with every model, written the same way each time (chance and time come from a seed), and `tell`: all readable data as
// text. Damage may only replace parts of that text by errors.

import { copyFileSync, existsSync, mkdirSync, readdirSync, rmSync, statSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { type TimelineId, toHex } from '../../src/core/coordinate.ts'
import { type Clock, type FeedPosition, feedStart, type Store } from '../../src/core/store/ports.ts'
import { createEngine } from '../../src/engine/api/open.ts'
import type { Reprise } from '../../src/engine/api/reprise.ts'
import { sha256, systemClock } from '../../src/engine/base/platform.ts'
import { recover } from '../../src/engine/history/recover.ts'
import type { Fold } from '../../src/engine/model/definition.ts'
import { stateDigest } from '../../src/engine/tools/drill/drill.ts'
import { keyed, timeline } from '../../src/index.ts'
import { openDirectoryBlobs } from '../../src/stores/directory-blobs.ts'
import { openSqlite } from '../../src/stores/sqlite/index.ts'
import { withBlobs } from '../crash/support.ts'
import { define, entry, randomFrom } from '../programs/crash-model.mjs'
import { hostOf } from '../support/host.ts'

/** Text that does not compress away, so that its state needs several chunks. */
const wide = timeline('wide', {
  initial: () => ({ rows: [] as string[] }),
  apply: (state, { text }: { type: 'row'; text: string }) => ({ rows: [...state.rows, text] }),
  retain: { checkpoints: 4 },
})
/** Enough keys for several pages. */
const many = timeline('many', {
  initial: () => ({ sets: 0, items: keyed<string>() }),
  apply(state, { key, text }: { type: 'set'; key: string; text: string }) {
    state.sets += 1
    state.items.set(key, text)
  },
  retain: { checkpoints: 3 },
})

export const definitions = { ...define({ timeline, keyed }, { every: 12 }), wide, many }

const folds = new Map<string, Fold<unknown>>(
  Object.values(definitions).map(({ prefix, fold }) => [prefix, fold as Fold<unknown>]),
)

export interface Place {
  readonly file: string
  readonly chunks?: string
}

/** The store's clock is frozen, so that two reads of the same bytes are equal. */
const now = 1_700_000_000_000

export async function openAt(place: Place, seed = 1, readOnly = false, redundancy = true): Promise<Reprise> {
  const store: Store = await openSqlite(place.file, {
    namespace: 'default',
    hash: sha256,
    clock: () => now,
    readOnly,
    busyMs: 200,
  })
  const whole = place.chunks === undefined ? store : withBlobs(store, await openDirectoryBlobs(place.chunks))
  return engineOver(whole, seed, redundancy)
}

/** An engine whose chance and time repeat. */
export function engineOver(store: Store, seed: number, redundancy = true): Reprise {
  const random = randomFrom(seed)
  const clock: Clock = { ...systemClock, now: () => now }
  const bytes = (count: number) => Uint8Array.from({ length: count }, () => random.below(256))
  const engine = createEngine(
    { store, clock, random: { bytes, number: random.number } },
    { worker: 'damage', redundancy },
  )
  for (const [prefix, fold] of folds) hostOf(engine).register(prefix, fold)
  return engine
}

/** Everything at once: entries, checkpoints, keyed pages, forks, a rollback, savepoints, mail, cursors, attributes. */
export async function write(rp: Reprise): Promise<void> {
  const random = randomFrom(7)
  const text = (length: number) => Array.from({ length }, () => String.fromCharCode(33 + random.below(90))).join('')
  const { plain, ledger, shelf } = definitions
  const [a, b, c] = [await rp.open(plain, 'a'), await rp.open(ledger, 'b'), await rp.open(shelf, 'c')]
  for (let n = 1; n <= 60; n++) await Promise.all([a.append(entry(n)), b.append(entry(n)), c.append(entry(n))])
  const w = await rp.open(wide, 'w')
  for (let n = 0; n < 6; n++) {
    for (let i = 0; i < 4; i++) await w.append({ type: 'row', text: text(3000) })
    await w.checkpoint()
  }
  const m = await rp.open(many, 'm')
  for (let i = 0; i < 12; i++) {
    await m.append(
      Array.from({ length: 40 }, (_, j) => ({
        type: 'set' as const,
        key: `k${(i * 31 + j * 7) % 400}`,
        text: text(40),
      })),
    )
    if (i % 4 === 3) await m.checkpoint()
  }
  await rp.savepoint(w.coordinate, { label: 'before the change' })
  await rp.fork({ timeline: 'shelf/c', seq: 40 }, 'shelf/fork')
  const fork = await rp.open(shelf, 'fork')
  for (let n = 41; n <= 50; n++) await fork.append(entry(n))
  await c.close()
  await rp.rollback({ to: { timeline: 'shelf/c', seq: 55 } })
  const again = await rp.open(shelf, 'c')
  for (let n = 56; n <= 63; n++) await again.append(entry(n))
  for (let i = 0; i < 5; i++) await rp.send('plain/a', 'note', { i, text: text(30) }, { key: `note-${i}` })
  await rp.send('plain/later', 'note', { early: true }, { key: 'early' })
  await a.close()
  const raw = await hostOf(rp).openTimeline('plain/a' as TimelineId, plain.fold)
  const { next } = await hostOf(rp).kernel.store.feed(feedStart, {}, 10)
  await raw.write([], {
    consume: ['note-0'] as never,
    cursors: { reader: next },
    attributes: { size: 3, name: 'first', isOpen: true },
    status: 'busy',
    queue: 'default',
    priority: 2,
    wakeup: now + 5000,
  })
  await rp.collect({ graceMs: 0 })
  await b.append(entry(61))
  await a.append(entry(61)).catch(() => undefined)
  await raw.write([{ type: 'n', data: { n: 61, pad: '' } }])
}

const asText = (_: string, value: unknown) => (value instanceof Uint8Array ? toHex(value) : value)

/** An entry that was restored from its copy has its fields in another order. */
const sortedFields = (record: object) => Object.entries(record).sort(([a], [b]) => (a < b ? -1 : 1))

export interface Told {
  readonly text: string
  /** Checkpoints that are not known to be damaged. */
  readonly catalog: readonly string[]
  /** Checkpoints that were found to be damaged. */
  readonly fallbacks: number
}

/** Everything that can be read, as text. Throws what reading throws. */
export async function tell(rp: Reprise): Promise<Told> {
  const catalog: string[] = []
  const { kernel } = hostOf(rp)
  const lines: unknown[] = []
  let fallbacks = 0
  for (const head of await rp.list({ limit: 1000 })) {
    const fold = [...folds].find(([prefix]) => head.timeline.startsWith(prefix))![1]
    const { state, damaged } = await recover(kernel, head, fold)
    fallbacks += damaged.length
    lines.push(head, stateDigest(kernel, state))
    for (const record of await rp.checkpoints(head.timeline)) {
      // None was invalid when it was written: this one was found damaged, and recovery continues without it.
      if (record.invalid !== null) fallbacks += 1
      else catalog.push(JSON.stringify([head.timeline, sortedFields(record)], asText))
    }
    lines.push(
      (await kernel.store.inbox(head.timeline, 100)).messages.map((message) => [
        message.id,
        hostOf(rp).openMessage(message),
      ]),
    )
  }
  for (const id of ['plain/a', 'ledger/b', 'shelf/c', 'shelf/fork', 'wide/w', 'many/m'])
    lines.push((await rp.head(id))?.seq)
  lines.push((await rp.list({ attributes: { name: 'first' } })).map((head) => head.timeline))
  lines.push(
    (await kernel.store.inbox('plain/later' as TimelineId, 10)).messages.map((message) =>
      hostOf(rp).openMessage(message),
    ),
  )
  lines.push(await kernel.store.cursors(), await rp.workers())
  for (let after: FeedPosition = feedStart, isEnd = false; !isEnd; ) {
    const page = await rp.feed(after, { limit: 50 })
    for (const { position, timeline: id, run } of page.items) lines.push([position, id, run])
    after = page.next
    isEnd = page.isEnd
  }
  return { text: JSON.stringify(lines, asText), catalog, fallbacks }
}

/** Files below a folder, by relative path, in order. SQLite's shared memory is rebuilt at each open. */
export function filesIn(folder: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((item) => item.isFile() && !item.name.endsWith('-shm'))
    .map((item) => relative(folder, join(item.parentPath, item.name)))
    .sort()
}

/** As a crash would leave it: the files as they are, while the store may be open. */
export function copyFolder(from: string, to: string): void {
  rmSync(to, { recursive: true, force: true })
  for (const path of filesIn(from)) {
    mkdirSync(dirname(join(to, path)), { recursive: true })
    copyFileSync(join(from, path), join(to, path))
  }
}

export function sizeOf(path: string): number {
  return existsSync(path) ? statSync(path).size : 0
}
