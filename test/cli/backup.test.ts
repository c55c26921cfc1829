// reprise backup and restore, killed with SIGKILL: the same command resumes, and the result is complete.

import { spawn, spawnSync } from 'node:child_process'
import { existsSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { until } from '../support/fixture.ts'
import { binIn, cli, json, workFolder } from './support.ts'

const folder = workFolder()
const at = { cwd: folder.path }
afterAll(() => folder.remove())
const count = 400

/** Kills it as soon as that is true; false if it was over before. */
async function killWhen(args: readonly string[], isMidway: () => boolean): Promise<boolean> {
  const child = spawn(process.execPath, [binIn(folder.path), ...args], { cwd: folder.path, stdio: 'ignore' })
  let isOver = false
  const closed = new Promise<void>((resolve) =>
    child.once('close', () => {
      isOver = true
      resolve()
    }),
  )
  await until(() => isOver || isMidway())
  const wasKilled = !isOver && child.kill('SIGKILL')
  await closed
  return wasKilled
}

it('go on where they were killed', async () => {
  writeFileSync(
    join(folder.path, 'fill.mjs'),
    `import { open, timeline } from 'reprise'
const counter = timeline('counter', { initial: () => 0, apply: (n) => n + 1 })
const rp = await open('sqlite:.reprise/reprise.db')
for (let i = 0; i < ${count}; i++) {
  const c = await rp.open(counter, 'c' + String(i).padStart(4, '0'))
  for (let n = 0; n < 3; n++) await c.append({ type: 'x', text: 'y'.repeat(500) })
  await c.close()
}
await rp.close()
`,
  )
  expect(spawnSync(process.execPath, ['fill.mjs'], { cwd: folder.path }).status).toBe(0)
  const file = join(folder.path, 'all.rpb')
  const size = () => (existsSync(`${file}.part`) ? statSync(`${file}.part`).size : 0)
  let kills = 0
  for (const bytes of [10_000, 60_000]) if (await killWhen(['backup', 'all.rpb'], () => size() > bytes)) kills += 1
  expect(kills).toBeGreaterThan(0)
  expect(existsSync(file)).toBe(false)
  const backup = await json<{ timelines: number; before: number }>(['backup', 'all.rpb'], at)
  expect(backup).toMatchObject({ code: 0, value: { timelines: count } })
  expect(backup.value.before).toBeGreaterThan(0)
  expect((await cli(['backup', 'all.rpb'], at)).code).toBe(2)

  const to = ['--url', 'sqlite:other.db']
  const target = join(folder.path, 'other.db-wal')
  const restored = () => (existsSync(target) ? statSync(target).size : 0)
  let isKilled = false
  for (const bytes of [150_000, 400_000]) {
    if (await killWhen(['restore', 'all.rpb', ...to], () => restored() > bytes)) isKilled = true
  }
  expect(isKilled).toBe(true)
  const restore = await json<{ timelines: number; before: number }>(['restore', 'all.rpb', ...to], at)
  expect(restore).toMatchObject({ code: 0, value: { timelines: count } })
  expect(restore.value.before).toBeGreaterThan(0)
  const heads = async (...where: string[]) =>
    (
      await json<{ timeline: string; seq: number; digest: string }[]>(['ls', '--limit', '1000', ...where], at)
    ).value.map((head) => `${head.timeline} ${head.seq} ${head.digest}`)
  expect(await heads(...to)).toEqual(await heads())
  expect((await cli(['verify', ...to], at)).code).toBe(0)
})

it('refuse options that this form of the command would ignore', async () => {
  writeFileSync(join(folder.path, 'some.reprise'), '')
  const forms: readonly (readonly string[])[] = [
    ['import', 'some.reprise', '--key', 'id'],
    ['import', 'some.reprise', '--progress', 'numbers', '--as', 'job/other'],
    ['changes', '--to', 'sqlite:other.db'],
    ['changes', 'x', '--resume', '--to', 'sqlite:a.db', '--from', 'sqlite:b.db'],
    ['move', 'counter/c0000', '--back', '--takeover'],
    ['ship', 'place', '--verify', '--once'],
    ['shards', '--wait', '1s'],
    ['restore', '.', '--namespace', 'blue'],
  ]
  for (const form of forms) {
    const ran = await cli(form, at)
    expect(ran.code, form.join(' ')).toBe(2)
    expect(ran.stderr, form.join(' ')).toMatch(/--\w+: /)
  }
})
