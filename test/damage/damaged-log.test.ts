// The write-ahead log of a SQLite file is damaged, and holds nearly everything: SQLite would truncate it there. A repair reads
// it frame by frame, names the losses, and keeps the old log beside the file.

import { copyFileSync, existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { sha256 } from '../../src/engine/base/platform.ts'
import { open, timeline } from '../../src/index.ts'
import { renewSqlite } from '../../src/stores/sqlite/index.ts'
import { cli } from '../cli/support.ts'
import { newFolder, removeFolder } from '../crash/support.ts'

const folder = newFolder(true)
const written = join(folder, 'store.db')
const frameBytes = 24 + 4096

const notes = timeline('notes', {
  initial: () => ({ texts: [] as string[] }),
  apply: ({ texts }, { text }: { type: 'note'; text: string }) => ({ texts: [...texts, text] }),
})

beforeAll(async () => {
  // As after a kill: the open file has its log beside it.
  const file = join(folder, 'open.db')
  const rp = await open(`sqlite:${file}`, { housekeeping: false })
  const all = await Promise.all([0, 1, 2, 3, 4].map((id) => rp.open(notes, `${id}`)))
  for (let i = 0; i < 40; i++) await all[i % 5]!.append({ type: 'note', text: `note ${i}` })
  for (const each of all) await each.close()
  for (const end of ['', '-wal', '-ack']) copyFileSync(`${file}${end}`, `${written}${end}`)
  await rp.close()
})
afterAll(() => removeFolder(folder))

async function repaired(name: string, damage: (log: Buffer) => void) {
  const file = join(folder, `${name}.db`)
  for (const end of ['', '-wal', '-ack']) copyFileSync(`${written}${end}`, `${file}${end}`)
  const log = readFileSync(`${file}-wal`)
  damage(log)
  writeFileSync(`${file}-wal`, log)
  await expect(open(`sqlite:${file}`)).rejects.toMatchObject({ code: 'STORE_DAMAGED' })
  const { rebuilt, lost } = await renewSqlite(file, { namespace: 'default', hash: sha256, busyMs: 1000 })
  expect(rebuilt.map(({ what }) => what).join()).toContain('write-ahead log is damaged')
  const kept = readdirSync(folder).filter((each) => each.startsWith(`${name}.db-damaged-`))
  expect(kept.filter((each) => each.endsWith('-wal'))).toHaveLength(1)
  expect(existsSync(`${file}-wal`) ? readFileSync(`${file}-wal`).length : 0).toBe(0)
  const rp = await open(`sqlite:${file}`, { housekeeping: false })
  const texts: string[] = []
  for (let i = 0; i < 5; i++) {
    const id = `notes/${i}`
    if (!lost.some((each) => JSON.stringify(each).includes(id)) && (await rp.head(id)))
      texts.push(...(await rp.open(notes, `${i}`)).state.texts)
  }
  await rp.close()
  return { lost, texts }
}

const frames = () => Math.floor((readFileSync(`${written}-wal`).length - 32) / frameBytes)

it.each([0.05, 0.1, 0.3, 0.6, 0.9])('a flipped bit at %d of the log costs nothing that is not named', async (share) => {
  const frame = Math.floor(share * frames())
  const { lost, texts } = await repaired(`flip-${share}`, (log) => {
    log[32 + frame * frameBytes + 24 + 3000]! ^= 4
  })
  if (lost.length === 0) expect(texts.length).toBe(40)
  else expect(texts.length).toBeGreaterThan(0)
})

it('so does a damaged header of a frame', async () => {
  const { lost, texts } = await repaired('header', (log) => {
    log[32 + Math.floor(frames() / 2) * frameBytes + 17]! ^= 4
  })
  expect({ lost, texts: texts.length }).toEqual({ lost: [], texts: 40 })
})

it.each([3, 10, 17, 25])('so does byte %i of the header of the log', async (at) => {
  const { lost, texts } = await repaired(`log-${at}`, (log) => {
    log[at]! ^= 1
  })
  expect({ lost, texts: texts.length }).toEqual({ lost: [], texts: 40 })
})

it.each([1, 2, 3])('so does the frame %i from the end', async (back) => {
  const { lost, texts } = await repaired(`end-${back}`, (log) => {
    log[32 + (frames() - back) * frameBytes + 24 + 3000]! ^= 4
  })
  expect({ lost, texts: texts.length }).toEqual({ lost: [], texts: 40 })
})

it.each([0, 0.01, 0.2, 0.5, 0.7])('a log cut to %d of its length loses nothing in silence', async (share) => {
  const file = join(folder, `cut-${share}.db`)
  for (const end of ['', '-wal', '-ack']) copyFileSync(`${written}${end}`, `${file}${end}`)
  const log = readFileSync(`${file}-wal`)
  const cut = log.subarray(0, Math.floor(share * log.length))
  writeFileSync(`${file}-wal`, cut)
  const url = `sqlite:${file}`
  expect((await cli(['verify', '--url', url], { cwd: folder })).code).toBe(8)
  const repair = await cli(['verify', '--repair', '--url', url], { cwd: folder })
  expect(repair.code).toBe(8)
  expect(repair.stdout).toMatch(/^\d+ loss(es)? beside /m)
  // Rows of the log without a known timeline are a loss of their own.
  const gone = /lost: {2}log rows? (\d+)(?: to (\d+))?: acknowledged, but missing/.exec(repair.stderr)
  expect(gone, repair.stderr).not.toBeNull()
  expect(repair.stderr).not.toMatch(/log row \d+: .*that part is kept/)
  const kept = readdirSync(folder).filter(
    (each) => each.startsWith(`cut-${share}.db-damaged-`) && each.endsWith('-wal'),
  )
  expect(kept.map((each) => readFileSync(join(folder, each)).equals(cut))).toEqual(share === 0 ? [] : [true])
  const rp = await open(url, { housekeeping: false })
  const texts: string[] = []
  for (let i = 0; i < 5; i++) {
    if (!(await rp.head(`notes/${i}`))) continue
    texts.push(...(await rp.open(notes, `${i}`, { takeover: true })).state.texts)
  }
  await rp.close()
  expect(texts.length).toBeLessThan(40)
})
