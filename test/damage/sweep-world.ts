// Shared parts of the damage sweeps: a small store with every model, the expected value of each timeline, and the check of one
// damaged copy. Verify names the damage, verify with `repair` repairs it, and afterwards each timeline is unchanged or the
// report named its loss.

import { copyFileSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TimelineId, toHex } from '../../src/core/coordinate.ts'
import { feedStart, type Store } from '../../src/core/store/ports.ts'
import type { Reprise } from '../../src/engine/api/reprise.ts'
import { sha256 } from '../../src/engine/base/platform.ts'
import { isReprise } from '../../src/index.ts'
import { loadDriver } from '../../src/stores/sqlite/file/driver.ts'
import { openSqlite, renewSqlite } from '../../src/stores/sqlite/index.ts'
import { newFolder, removeFolder } from '../crash/support.ts'
import { hostOf } from '../support/host.ts'
import { definitions, openAt, write } from './world.ts'

export const pageBytes = 4096

const folder = newFolder(true)
export const file = join(folder, 'store.db')
const copy = join(folder, 'copy.db')
const options = { namespace: 'default', hash: sha256, clock: () => 1_700_000_000_000, busyMs: 2000 }

let whole: Buffer
let truth: ReadonlyMap<string, string>

/** Once, before all. Returns the bytes of the file. */
export async function makeStore(): Promise<Buffer> {
  const rp = await openAt({ file }, 10)
  await write(rp)
  await addPlaces(rp)
  await rp.close()
  const database = (await loadDriver()).open(file, { isReadOnly: false })
  database.exec(
    'CREATE TABLE mine (id INTEGER PRIMARY KEY, name TEXT, extra TEXT DEFAULT 7); CREATE INDEX by_name ON mine (name)',
  )
  // Applications wrote these: two wait, one cannot be carried out.
  const request = database.prepare(
    'INSERT INTO reprise_request (verb, target, id, data, key, sent_at, problem) VALUES (?, ?, ?, ?, ?, ?, ?)',
  )
  for (const [i, problem] of [null, null, 'its input is refused'].entries()) {
    request.run(
      'start',
      'workflow/later',
      `r${i}`,
      JSON.stringify({ amount: 100 + i }),
      `key-${i}`,
      1_700_000_000_000,
      problem,
    )
  }
  const insert = database.prepare('INSERT INTO mine (name) VALUES (?)')
  for (let i = 0; i < 60; i++) insert.run(`row ${i} ${'-'.repeat(i % 60)}`)
  database.exec('PRAGMA wal_checkpoint(TRUNCATE)')
  database.close()
  whole = readFileSync(file)
  const store = await openSqlite(file, options)
  truth = await everything(store)
  await store.close()
  return whole
}

export function removeStore(): void {
  removeFolder(folder)
}

/** A few with everything that a timeline may have: mail, attributes, cursors, a wakeup, a checkpoint, a fork. */
async function addPlaces(rp: Reprise): Promise<void> {
  const { next } = await hostOf(rp).kernel.store.feed(feedStart, {}, 20)
  for (let i = 0; i < 14; i++) {
    const id = `plain/place-${i}` as TimelineId
    const open = await hostOf(rp).openTimeline(id, definitions.plain.fold)
    await open.write([{ type: 'n', data: { n: i, pad: 'x'.repeat(50 * i) } }], {
      attributes: { group: `g${i % 3}`, place: i },
      status: i % 3 ? 'busy' : 'done',
      queue: `q${i % 2}`,
      wakeup: 1_800_000_000_000 + i,
      ...(i % 4 === 0 && { cursors: { [`cursor-${i}`]: next } }),
    })
    if (i % 3 === 0) await open.checkpoint()
    if (i % 2 === 0) await rp.send(id, 'note', { i }, { key: `m-${i}` })
    if (i === 7) await rp.fork({ timeline: id, seq: 1 }, `${id}/fork`)
  }
}

/** The value of each timeline, by its name; the list of cursors and the user table have names of their own. */
async function everything(store: Store, names?: Iterable<string>): Promise<Map<string, string>> {
  const told = new Map<string, string>()
  const ids = names ?? (await store.timelines({ limit: 10_000 })).map(({ timeline }) => timeline)
  for (const id of ids) {
    if (['cursors', 'requests', 'mine'].includes(id)) continue
    told.set(id, await told1(() => ofTimeline(store, id as TimelineId)))
  }
  told.set(
    'cursors',
    await told1(async () => (await store.cursors()).map(({ name, owner, position }) => [name, owner, position])),
  )
  told.set('requests', await told1(async () => await store.requests!.list({ limit: 100 })))
  told.set(
    'mine',
    await told1(
      async () =>
        await store.query({ parts: ['SELECT * FROM mine ORDER BY id'], values: [], rowsMax: 1000, timeoutMs: 5000 }),
    ),
  )
  return told
}

async function told1(ask: () => Promise<unknown>): Promise<string> {
  try {
    return JSON.stringify(await ask(), (_, value) => (value instanceof Uint8Array ? toHex(value) : value))
  } catch (error) {
    if (isReprise(error)) return `refused: ${error.code}`
    throw error
  }
}

async function ofTimeline(store: Store, id: TimelineId): Promise<unknown> {
  const [head] = await store.head([id])
  if (!head) return null
  const { seq, digest, floor, base, status, queue, wakeup, attributes } = head
  const runs: unknown[] = []
  for (let after = Math.max(floor, base?.seq ?? 0); after < seq; ) {
    const page = await store.read(id, after, 1e6)
    if (page.length === 0) break
    runs.push(...page.map((run) => [run.first, run.count, run.digest]))
    after = page.at(-1)!.first + page.at(-1)!.count - 1
  }
  const checkpoints = (await store.checkpoints(id)).map(({ id: name, seq: at, bodyDigest }) => [name, at, bodyDigest])
  const { messages } = await store.inbox(id, 1000)
  const mail = messages.map(({ id: name, kind, data }) => [name, kind, data])
  return { seq, digest, floor, base, status, queue, wakeup, attributes, runs, checkpoints, mail }
}

function inflict(damage: (bytes: Buffer) => void): void {
  for (const name of readdirSync(folder)) if (name.startsWith('copy.db')) rmSync(join(folder, name))
  const bytes = Buffer.from(whole)
  damage(bytes)
  writeFileSync(copy, bytes)
  copyFileSync(`${file}-ack`, `${copy}-ack`)
}

interface Seen {
  /** Timelines, and what else is named. */
  readonly named: Set<string>
  readonly words: string[]
}

async function withEngine<Result>(work: (rp: Reprise) => Promise<Result>): Promise<Result> {
  const rp = await openAt({ file: copy }, 2)
  try {
    return await work(rp)
  } finally {
    await rp.close()
  }
}

/** The findings of verify; for a file that does not open, the losses of rewriting it. */
async function verifyOnce(repair: boolean): Promise<Seen> {
  const named = new Set<string>()
  const words: string[] = []
  const tell = (timeline: string | null, where: string, what: string) => {
    if (timeline !== null) named.add(timeline)
    for (const name of ['mine', 'cursors', 'requests']) if (where.includes(name)) named.add(name)
    // Its name is lost with a page of the list of tables, its rows are not (list-of-tables.test.ts).
    if (what.includes('found_at_page_')) named.add('mine')
    words.push(`${where}: ${what}`)
  }
  const verify = async (rp: Reprise) => {
    const { faults, healed } = await rp.verify({ repair })
    for (const { timeline, where, what } of faults) tell(timeline, where, what)
    for (const { timeline, where, what, code, isPutRight, isIncomplete } of healed) {
      // A row without some of its entries is not repaired: those entries are reported as lost.
      if (what.includes('missing entries are reported') !== (isIncomplete ?? false))
        throw new Error(`it is called put right: ${where}: ${what}`)
      if (!isPutRight || repair) words.push(`${where}: ${what}`)
      // This test set its status directly, so no model derives it: the status is expected to be empty.
      if (code === 'HEAD_LOST') named.add(timeline!)
    }
  }
  try {
    await withEngine(verify)
  } catch (error) {
    if (!isReprise(error, 'STORE_DAMAGED')) throw error
    const { rebuilt, lost } = await renewSqlite(copy, { ...options, dryRun: !repair })
    for (const { where, what } of rebuilt) words.push(`${where}: ${what}`)
    for (const { timeline, where, what } of lost) tell(timeline, where, what)
    if (repair) await withEngine(verify)
  }
  return { named, words }
}

export interface Judgement {
  /** The differences from the expectation. */
  readonly wrong: readonly string[]
  /** The loss that the repair named. */
  readonly named: ReadonlySet<string>
}

export async function judge(damage: (bytes: Buffer) => void): Promise<Judgement> {
  inflict(damage)
  const found = await verifyOnce(false)
  const repaired = await verifyOnce(true)
  const after = await verifyOnce(false)
  const wrong: string[] = []
  const bare = found.words.filter((text) => /^[^:]*: (file|log): .*malformed/.test(text))
  if (bare.length > 0) wrong.push(`says nothing but ${bare.join('; ')}`)
  const left = after.words.filter((text) => !/HISTORY_DAMAGED|timeline/.test(text) && after.named.size === 0)
  if (left.length > 0) wrong.push(`stays damaged: ${left.join('; ')}`)
  const store = await openSqlite(copy, options)
  const told = await everything(store, truth.keys())
  await store.close()
  for (const [name, was] of truth) {
    if (told.get(name) === was || repaired.named.has(name)) continue
    wrong.push(`${name} is not named and says ${told.get(name)?.slice(0, 300)} for ${was.slice(0, 300)}`)
  }
  const isFound = found.words.length > 0
  if (!isFound && repaired.words.length > 0) wrong.push(`only the repair found ${repaired.words.join('; ')}`)
  // Writing continues.
  await withEngine(async (rp) => {
    for (const id of ['plain/place-1', 'plain/place-11']) {
      if (repaired.named.has(id)) continue
      const open = await hostOf(rp).openTimeline(id as TimelineId, definitions.plain.fold, { takeover: true })
      await open.write([{ type: 'n', data: { n: 1 } }])
    }
  })
  const named = new Set([...repaired.named].filter((name) => told.get(name) !== truth.get(name)))
  return { wrong: wrong.slice(0, 3), named }
}
