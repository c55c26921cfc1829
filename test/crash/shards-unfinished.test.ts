// G20: the addition of a shard, which moves timelines between shards, is killed (SIGKILL) before each of its transactions. The
// change is then listed by changes, verify and doctor until it is resumed or abandoned, or the set is as it was before or after
// it. Nothing acknowledged is lost or duplicated. By default a sample of the kill points, by seed; REPRISE_SHARD_KILLS=all is
// the whole sweep.

import { spawnSync } from 'node:child_process'
import { cpSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { isReprise, open, type Reprise, timeline } from '../../src/index.ts'
import { checkStore } from '../../src/operations/doctor.ts'
import { randomFrom } from '../programs/crash-model.mjs'
import { amount } from './support.ts'

const program = fileURLToPath(new URL('../programs/shard-killed.mjs', import.meta.url))
const seed = amount('REPRISE_CRASH_SEED', 7)
const isFull = process.env.REPRISE_SHARD_KILLS === 'all'
const sampled = 6
const names = Array.from({ length: 8 }, (_, i) => `c${i}`)

const counter = timeline('counter', {
  initial: () => ({ total: 0 }),
  apply: (state: { total: number }, entry: { type: 'added'; by: number }) => ({ total: state.total + entry.by }),
})

let directory: string
let commits = 0
beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'reprise-shard-kills-'))
  const rp = await open({ shards: urlsIn('whole', 2), housekeeping: false })
  for (const [i, name] of names.entries()) {
    const each = await rp.open(counter, name)
    for (let n = 0; n < 3; n++) await each.append({ type: 'added', by: i + 1 })
    await each.checkpoint()
    await each.close()
  }
  await rp.close()
  const { stdout, stderr } = addKilled('count', 0)
  expect(stdout, stderr).toContain('commits')
  const done = JSON.parse(stdout) as { commits: number; moved: number }
  expect(done.moved).toBeGreaterThan(0)
  commits = done.commits
}, 120_000)
afterAll(() => rmSync(directory, { recursive: true, force: true }))

function urlsIn(folder: string, count: number): string[] {
  return Array.from({ length: count }, (_, i) => `sqlite:${join(directory, folder, `${i}.db`)}`)
}

/** In a copy of the set, in a process of its own. */
function addKilled(folder: string, at: number) {
  cpSync(join(directory, 'whole'), join(directory, folder), { recursive: true })
  const given = JSON.stringify({ shards: urlsIn(folder, 2), url: urlsIn(folder, 3)[2], at })
  return spawnSync(process.execPath, [program, given], { encoding: 'utf8' })
}

/** With the new shard where it has joined, without it where it has not. */
async function openSet(folder: string): Promise<Reprise> {
  const how = { housekeeping: false, evenUnfinished: true } as const
  return await open({ shards: urlsIn(folder, 3), ...how }).catch(async (error) => {
    if (!isReprise(error, 'SHARDS_DIFFER')) throw error
    return await open({ shards: urlsIn(folder, 2), ...how })
  })
}

async function expectWhole(rp: Reprise, where: string): Promise<void> {
  const listed = (await rp.list({ prefix: 'counter/' })).map((head) => head.timeline)
  expect(listed, where).toEqual(names.map((name) => `counter/${name}`))
  for (const [i, name] of names.entries()) {
    const each = await rp.open(counter, name, { mustExist: true, takeover: true })
    expect(each.state.total, `${where}: ${name}`).toBe(3 * (i + 1))
    await each.append({ type: 'added', by: 0 })
    await each.close()
  }
  expect(await rp.verify(), where).toMatchObject({ ok: true, faults: [], unfinished: [] })
}

it('G20: the addition of a shard is whole, or is listed until it is ended', { timeout: 900_000 }, async () => {
  const random = randomFrom(seed)
  const all = Array.from({ length: commits }, (_, i) => i + 1)
  const points = isFull ? all : Array.from({ length: sampled }, () => all[random.below(commits)]!)
  let unfinished = 0
  for (const at of new Set([1, ...points, commits])) {
    const where = `killed before transaction ${at} of ${commits} (REPRISE_CRASH_SEED=${seed})`
    const folder = `kill-${at}`
    const { signal, status, stderr } = addKilled(folder, at)
    // The progress is noted once per second, so the number of transactions varies: an addition that ended must be whole.
    expect(signal === 'SIGKILL' || status === 0, `${where} ${stderr}`).toBe(true)
    const rp = await openSet(folder)
    const changes = await rp.changes()
    if (changes.length > 0) {
      unfinished += 1
      expect(changes, where).toMatchObject([{ kind: 'shards', isRunning: false }])
      expect(await rp.verify(), where).toMatchObject({ ok: false, faults: [], unfinished: changes })
      const health = (await checkStore(rp)).find(({ name }) => name === 'changes')
      expect(health, where).toMatchObject({ state: 'bad' })
      const { id } = changes[0]!
      const isAbandoned = await rp.abandonChange(id).then(
        () => true,
        (error) => {
          expect(error.code, where).toBe('INVALID_ARGUMENT')
          return false
        },
      )
      if (!isAbandoned) await rp.resumeChange(id)
      expect(await rp.changes(), where).toEqual([])
      // An addition that was given up is made as if it had never begun.
      const shards = await rp.shards()
      expect(
        shards.some(({ isJoining }) => isJoining),
        where,
      ).toBe(false)
      expect(shards.length, where).toBe(isAbandoned ? 2 : 3)
    }
    await expectWhole(rp, where)
    await rp.close()
  }
  // It was killed in the middle, too.
  expect(unfinished).toBeGreaterThan(2)
})
