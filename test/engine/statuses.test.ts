// Statuses have one vocabulary: the table in docs/decisions/statuses.md lists every status of the sources, and the words that
// earlier versions stored are read as the current ones.

import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { timelineId } from '../../src/core/coordinate.ts'
import { headsInReach, headsOfMoment } from '../../src/core/store/shard-set.ts'
import { open } from '../../src/index.ts'
import { hostOf } from '../support/host.ts'
import { onEveryStore } from '../support/worlds.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const page = readFileSync(join(root, 'docs/decisions/statuses.md'), 'utf8')
const listed = new Set(
  [...page.matchAll(/^\| (`.*?) \|/gm)].flatMap(([, cell]) =>
    [...cell!.matchAll(/`([a-z-]+)`/g)].map(([, word]) => word!),
  ),
)

/** The state before the first entry, outcomes of promises, and names of fields and types. */
const others: ReadonlySet<string> = new Set(['new', 'fulfilled', 'rejected', 'status', 'number'])

/** Every literal that is written to, compared with or declared as a status. */
function statusesIn(text: string): string[] {
  const places = text.matchAll(
    /(?:\bstatus\??: |Status = |\bstatus (?:===|!==) |(?:unfinished|attention): )(\[?(?:'[a-z-]+'[ ,|?:]*)+)/g,
  )
  return [...places].flatMap(([, list]) => [...list!.matchAll(/'([a-z-]+)'/g)].map(([, word]) => word!))
}

it('the table lists every status of the models', () => {
  const files = ['src/layers', 'src/engine/tools/timeline-groups'].flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
      .filter((name) => /(?<!\.test)\.ts$/.test(name))
      .map((name) => join(folder, name)),
  )
  const found = files.flatMap((file) =>
    statusesIn(readFileSync(join(root, file), 'utf8')).map((status) => ({ file, status })),
  )
  expect(new Set(found.map(({ status }) => status)).size).toBeGreaterThan(20)
  expect(found.filter(({ status }) => !listed.has(status) && !others.has(status))).toEqual([])
  expect(statusesIn("{ status: 'finished' }, readonly status: 'a' | 'b'")).toEqual(['finished', 'a', 'b'])
})

const earlier = [
  ['exec/a', 'done', 'completed'],
  ['exec/b', 'interrupted', 'stopped'],
  ['group/cut/a', 'complete', 'completed'],
  ['job/a', 'finished', 'completed'],
  ['migrate/a', 'finished', 'completed'],
  ['pipeline/a', 'done', 'completed'],
  ['pipeline/b', 'suspended', 'stopped'],
  ['upload/u/a', 'ended', 'removed'],
  ['workflow/w/a', 'compensation-stuck', 'stuck'],
] as const

onEveryStore('statuses of earlier versions', (world) => {
  it('are read as the current ones, and found by them, page by page', async () => {
    const rp = await (await world()).engine()
    const bare = { version: '1', initial: () => 0, apply: (n: number) => n }
    const current = [
      ['job/b', 'completed'],
      ['pipeline/c', 'completed'],
    ] as const
    // A user's timeline may have any status.
    const own = [['plain/a', 'done']] as const
    for (const [id, status] of [...earlier, ...current, ...own]) {
      await hostOf(rp).create(timelineId(id), bare, [{ type: 'noted', data: {} }], { status, release: true })
    }
    for (const [id, , status] of earlier) expect((await rp.head(id))!.status).toBe(status)
    expect((await rp.head('plain/a'))!.status).toBe('done')
    const completed = ['exec/a', 'group/cut/a', 'job/a', 'job/b', 'migrate/a', 'pipeline/a', 'pipeline/c']
    const found: string[] = []
    for (let after: string | undefined; ; ) {
      const heads = await rp.list({
        status: 'completed',
        limit: 2,
        ...(after !== undefined && { after: timelineId(after) }),
      })
      for (const { timeline, status } of heads) {
        expect(status).toBe('completed')
        found.push(timeline)
      }
      if (heads.length < 2) break
      after = heads.at(-1)!.timeline
    }
    expect(found).toEqual(completed)
    const ids = async (prefix: string, status: string) =>
      (await rp.list({ prefix, status })).map((head) => head.timeline)
    expect(await ids('job/', 'completed')).toEqual(['job/a', 'job/b'])
    expect(await ids('pipeline/a', 'completed')).toEqual(['pipeline/a'])
    expect(await ids('plain/', 'completed')).toEqual([])
    expect((await rp.list({ status: 'stopped' })).map((head) => head.timeline)).toEqual(['exec/b', 'pipeline/b'])
  })
})

it('statuses of earlier versions are read as the current ones from a set of stores, in each way to read heads', async () => {
  const rp = await open({ shards: ['memory:statuses-a', 'memory:statuses-b'] }, { housekeeping: false })
  const bare = { version: '1', initial: () => 0, apply: (n: number) => n }
  const ids = earlier.map(([id]) => timelineId(id))
  for (const [id, status] of earlier) {
    await hostOf(rp).create(timelineId(id), bare, [{ type: 'noted', data: {} }], { status, release: true })
  }
  const { store } = hostOf(rp).kernel
  expect(store.shards).not.toBeNull()
  for (const read of [headsInReach, headsOfMoment]) {
    expect((await read(store, ids))!.map((head) => head?.status)).toEqual(earlier.map(([, , status]) => status))
  }
  expect(await headsInReach(store, [timelineId('job/none')])).toEqual([null])
  await rp.close()
})
