// G8: the row of one timeline is damaged. That timeline is quarantined: nobody reads it or works on it, and every tool names it.
// The store opens, and all others work. verify with `repair` ends it.

import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { open, type Reprise, timeline } from '../../src/index.ts'
import { workflow, workflows } from '../../src/layers/workflow/index.ts'
import { checkStore } from '../../src/operations/doctor.ts'
import { loadDriver } from '../../src/stores/sqlite/driver.ts'
import { bin } from '../cli/support.ts'
import { newFolder, removeFolder } from '../crash/support.ts'

let folder: string
let url: string

const waiting = workflow('waiting', async (ctx, n: number) => n + (await ctx.signal<number>('go')))
const counter = timeline('counter', {
  initial: () => 0,
  apply: (sum: number, { by }: { readonly type: 'add'; readonly by: number }) => sum + by,
})

beforeEach(async () => {
  folder = newFolder(true)
  url = `sqlite:${join(folder, 'store.db')}`
  const rp = await at()
  for (const id of ['a', 'b', 'c']) {
    await (await rp.open(counter, id)).append({ type: 'add', by: 5 })
    await rp.run(waiting, 1, { id })
  }
  await asleep(rp)
  await rp.close()
})
afterEach(() => removeFolder(folder))

async function at(): Promise<Reprise> {
  return await open(url, { housekeeping: false })
}

async function asleep(rp: Reprise): Promise<void> {
  for (;;) {
    const heads = await rp.list({ prefix: 'workflow/' })
    if (heads.length === 3 && heads.every(({ owner }) => owner === null)) return
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
}

async function edit(sql: string): Promise<void> {
  const database = (await loadDriver()).open(join(folder, 'store.db'), { isReadOnly: false })
  database.exec(sql)
  database.close()
}

const damages = [
  ['its status', `UPDATE reprise_timeline SET status = 'x' WHERE name LIKE 'workflow/%/b'`],
  ['its queue', `UPDATE reprise_timeline SET queue = 'x' WHERE name LIKE 'workflow/%/b'`],
  [
    'both copies of its head',
    `UPDATE reprise_head SET state = x'0102030405' WHERE tid = (SELECT tid FROM reprise_timeline WHERE name LIKE 'workflow/%/b');
     UPDATE reprise_head_mark SET state = x'0102030405' WHERE tid = (SELECT tid FROM reprise_timeline WHERE name LIKE 'workflow/%/b')`,
  ],
] as const

it.each(damages)('%s is damaged: the others work, and every tool names it', async (_, sql) => {
  await edit(sql)
  const rp = await at()
  const named: string[] = []
  rp.events.on('problem', ({ where }) => named.push(where))
  rp.work([waiting])
  const runs = workflows(rp).of(waiting)
  for (const id of ['a', 'c']) {
    await runs.get(id).signal('go', 1)
    expect(await runs.get(id).result({ timeout: '20s' })).toBe(2)
    expect((await rp.open(counter, id)).state).toBe(5)
  }
  await expect(runs.get('b').result({ timeout: '20s' })).rejects.toMatchObject({ code: 'STORE_DAMAGED' })
  expect((await checkStore(rp)).find(({ name }) => name === 'quarantine')).toMatchObject({ state: 'bad' })
  const { faults } = await rp.verify()
  expect(faults.some(({ timeline: id }) => id?.endsWith('/b'))).toBe(true)
  while (!named.some((where) => where.endsWith('/b'))) await new Promise((resolve) => setTimeout(resolve, 20))
  await rp.close()
  const listed = await promisify(execFile)(process.execPath, [bin, 'ls', '--url', url]).catch((error) => error)
  expect({ code: listed.code, names: /quarantined: workflow\/\S+\/b/.test(listed.stderr) }).toEqual({
    code: 8,
    names: true,
  })
  expect(listed.stdout).toContain('counter/a')
})
