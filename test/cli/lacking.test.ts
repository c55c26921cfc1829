// The command line without the folders and keys of the application: it cannot check, marks nothing, and works with --blobs and
// --keys. Policies are those that are stored, and a move takes a run to another store.

import { existsSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { Options } from '../../src/engine/api/open.ts'
import type { Reprise } from '../../src/engine/api/reprise.ts'
import { root, workFolder } from './support.ts'
import { cli, json } from './warm.ts'

const folder = workFolder()
const at = { cwd: folder.path }
const store = join(folder.path, '.reprise/reprise.db')
const key = new Uint8Array(32).fill(3)
const module = `
import { timeline } from 'reprise'
import { job } from 'reprise/job'
import { workflow } from 'reprise/workflow'
export const book = timeline('book', {
  initial: () => ({ total: 0, pad: new Uint8Array(0) }),
  apply: (s, e) => ({ total: s.total + e.by, pad: new Uint8Array(60000).map((_, i) => (i * 7919 + s.total) % 251) }),
  retain: { checkpoints: 2, history: 'needed' },
})
export const night = job('night', { source: ['1', '2'], key: (x) => x, each: () => undefined, retain: { checkpoints: 9 } })
export const waits = workflow('waits', async (ctx, n) => n + (await ctx.signal('go')))
`

async function use<T>(
  options: Options,
  url: string,
  act: (rp: Reprise, defs: Record<string, never>) => Promise<T>,
): Promise<T> {
  const { open } = await import(pathToFileURL(join(root, 'dist/index.js')).href)
  const definitions = await import(pathToFileURL(join(folder.path, 'defs.mjs')).href)
  const rp = (await open(url, options)) as Reprise
  try {
    return await act(rp, definitions)
  } finally {
    await rp.close()
  }
}

beforeAll(async () => {
  writeFileSync(join(folder.path, 'defs.mjs'), module)
  writeFileSync(
    join(folder.path, 'keys.json'),
    JSON.stringify({ current: 'k', keys: { k: Buffer.from(key).toString('base64') } }),
  )
  const options = { blobs: `file:${join(folder.path, 'chunks')}`, keys: { current: 'k', keys: { k: key } } }
  await use(options, `sqlite:${store}`, async (rp, { book }) => {
    const b = (await rp.open(book as never, 'x')) as {
      append(e: object): Promise<unknown>
      checkpoint(): Promise<unknown>
    }
    for (let n = 0; n < 4; n++) {
      await b.append({ type: 'added', by: 1 })
      await b.checkpoint()
    }
  })
})
afterAll(() => folder.remove())

it('drill and verify without the folder and the keys cannot check; with them all is well, and nothing was marked', async () => {
  const drill = ['drill', 'book/x', '--module', 'defs.mjs']
  const blind = await json<{ results: { isUnknown: boolean }[] }>(drill, at)
  expect(blind.code).toBe(2)
  expect(blind.value.results.every((result) => result.isUnknown)).toBe(true)
  const verified = await cli(['verify'], at)
  expect([verified.code, verified.stdout]).toEqual([2, expect.stringContaining('unknown ')])
  expect((await cli(['drill', 'book/x', '--module', 'defs.mjs', '--blobs', 'nowhere'], at)).stderr).toContain('chunks')
  expect(existsSync(join(folder.path, 'nowhere'))).toBe(false)
  const seeing = ['--blobs', 'chunks', '--keys', 'keys.json']
  expect(await json([...drill, ...seeing], at)).toMatchObject({ code: 0, value: { ok: true } })
  expect(await json(['verify', ...seeing], at)).toMatchObject({ code: 0, value: { ok: true } })
  const env = { REPRISE_BLOBS: 'chunks', REPRISE_KEYS: 'keys.json' }
  expect(await json(drill, { ...at, env })).toMatchObject({ code: 0, value: { ok: true } })
  const marks = await json<{ invalid: string | null }[]>(['checkpoints', 'book/x'], at)
  expect(marks.value.map((mark) => mark.invalid)).toEqual(marks.value.map(() => null))
})

it('a store that a command makes notes its key: another key under that id is refused, and so is none', async () => {
  const wrong = { current: 'k', keys: { k: Buffer.alloc(32, 9).toString('base64') } }
  writeFileSync(join(folder.path, 'wrong.json'), JSON.stringify(wrong))
  const made = ['--url', 'sqlite:made.db', '--state', 'made', '--id', 'first']
  expect(await cli(['exec', ...made, '--keys', 'keys.json', '--', 'true'], at)).toMatchObject({ code: 0 })
  for (const given of [['--keys', 'wrong.json'], []]) {
    const refused = await cli(['exec', ...made, ...given, '--', 'true'], at)
    expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining('KEY_MISSING')])
  }
  expect(await cli(['verify', '--url', 'sqlite:made.db', '--keys', 'keys.json'], at)).toMatchObject({ code: 0 })
})

it('prune follows the declaration of the job, without its module', async () => {
  const url = `sqlite:${join(folder.path, 'plain.db')}`
  await use({}, url, async (rp, { night }) => {
    for (let n = 0; n < 5; n++) await ((await rp.run(night as never)) as { result(): Promise<unknown> }).result()
  })
  const pruned = await json<{ timelines: { timeline: string; drop: unknown[] }[]; unknown: unknown[] }>(
    ['prune', '--yes', '--url', url],
    at,
  )
  expect(pruned.value.timelines).toMatchObject([{ timeline: 'job/night', drop: [] }])
  expect(pruned.value.unknown).toEqual([])
})

it('prune and card agree on removed and kept checkpoints, after a change of policy', async () => {
  writeFileSync(join(folder.path, 'all.mjs'), module.replace("history: 'needed'", "history: 'all'"))
  const all = await import(pathToFileURL(join(folder.path, 'all.mjs')).href)
  const options = { blobs: join(folder.path, 'chunks'), keys: { current: 'k', keys: { k: key } } }
  const floor = await use(options, `sqlite:${store}`, async (rp) => {
    await rp.collect()
    await ((await rp.open(all.book as never, 'x')) as { append(e: object): Promise<unknown> }).append({
      type: 'added',
      by: 0,
    })
    return (await rp.head('book/x'))!.floor
  })
  expect(floor).toBeGreaterThan(0)
  const seeing = ['--blobs', 'chunks', '--keys', 'keys.json']
  expect((await cli(['prune', ...seeing], at)).stdout).not.toContain('may be removed')
  const kept = `nothing: all history is kept from ${floor + 1} on; older history was trimmed`
  expect((await cli(['card', 'book/x', '--module', 'all.mjs', ...seeing], at)).stdout).toContain(kept)
  expect((await cli(['log', 'book/x', '--reports', ...seeing], at)).stdout).toContain('code declared')
})

it('move takes a waiting run to another store, where it is executed', async () => {
  const [from, to] = ['from.db', 'to.db'].map((name) => `sqlite:${join(folder.path, name)}`) as [string, string]
  await use(
    {},
    from,
    async (rp, { waits }) => void (await rp.run(waits as never, 1 as never, { id: 'a', here: false } as never)),
  )
  expect((await cli(['signal', 'waits/a', 'go', '41', '--url', from], at)).code).toBe(0)
  expect((await cli(['move', 'waits/a', '--to', to, '--url', from], at)).code).toBe(0)
  expect((await cli(['signal', 'waits/a', 'go', '--url', from], at)).code).not.toBe(0)
  const result = await use({}, to, async (rp, { waits }) => {
    rp.work([waits as never])
    return await (
      (await rp.run(waits as never, 1 as never, { id: 'a' } as never)) as { result(): Promise<unknown> }
    ).result()
  })
  expect(result).toBe(42)
})

it('verify reports that the chunks are gone from their folder, and continues with the history on request', async () => {
  const seeing = ['--blobs', 'file:chunks', '--keys', 'keys.json']
  expect((await cli(['verify', ...seeing], at)).code).toBe(0)
  rmSync(join(folder.path, 'chunks'), { recursive: true })
  const gone = await cli(['verify', ...seeing], at)
  expect([gone.code, gone.stderr]).toEqual([8, expect.stringContaining('there is no such folder')])
  expect(gone.stderr).toContain('cure Restore the content of the folder')
  const taken = await json<{ faults: { code: string }[] }>(['verify', '--repair', '--chunks-lost', ...seeing], at)
  expect(taken.code).toBe(8)
  expect(taken.value.faults).toContainEqual(expect.objectContaining({ code: 'CHUNK_MISSING', timeline: 'book/x' }))
  expect((await cli(['verify', ...seeing], at)).stderr).not.toContain('CHUNKS_GONE')
})
