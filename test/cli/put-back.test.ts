// An older copy of a SQLite file is put in its place by hand: the store is refused until `reprise incarnate`, also if that
// command is killed, and positions from before are refused afterwards.

import { copyFileSync, existsSync, mkdtempSync, renameSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { feedStart, open, timeline } from '../../src/index.ts'
import { cli } from './support.ts'

const folder = mkdtempSync(join(tmpdir(), 'reprise-put-back-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const counter = timeline('counter', {
  initial: () => 0,
  apply: (total: number, entry: { type: 'added'; by: number }) => total + entry.by,
})

/** A file in which an older copy was put back, and a position of the lost history. */
async function putBack(name: string) {
  const file = join(folder, `${name}.db`)
  const url = `sqlite:${file}`
  const append = async (namespace: string, by: number) => {
    const rp = await open(url, { namespace, housekeeping: false })
    const c = await rp.open(counter, 'a')
    await c.append({ type: 'added', by })
    await c.close()
    const { next } = await rp.feed(feedStart)
    await rp.close()
    return next
  }
  for (const namespace of ['default', 'blue']) await append(namespace, 1)
  copyFileSync(file, `${file}.old`)
  await append('blue', 10)
  const position = await append('default', 10)
  renameSync(`${file}.old`, file)
  for (const end of ['-wal', '-shm']) rmSync(file + end, { force: true })
  return { file, url, position }
}

it('the error names reprise incarnate, which accepts the copy in every namespace', async () => {
  const { file, url, position } = await putBack('accepted')
  const refused = open(url, { housekeeping: false })
  await expect(refused).rejects.toMatchObject({ code: 'STORE_DAMAGED' })
  await expect(refused).rejects.toThrow('reprise incarnate')
  const ran = await cli(['incarnate', '--url', url, '--json'], { cwd: folder })
  expect(ran, ran.stderr).toMatchObject({ code: 0 })
  const { namespaces } = JSON.parse(ran.stdout) as { namespaces: { namespace: string }[] }
  expect(namespaces.map(({ namespace }) => namespace).sort()).toEqual(['blue', 'default'])
  const rp = await open(url, { housekeeping: false })
  const c = await rp.open(counter, 'a')
  expect(c.state).toBe(1)
  await c.append({ type: 'added', by: 100 })
  await c.append({ type: 'added', by: 100 })
  await expect(rp.feed(position)).rejects.toMatchObject({ code: 'POSITION_GONE' })
  expect(await rp.verify()).toMatchObject({ ok: true, faults: [] })
  await rp.close()
  expect(existsSync(`${file}-ack-before`)).toBe(false)
  await (await open(url, { housekeeping: false })).close()
})

it('an incarnate that was killed leaves the store refused', async () => {
  const { file, url } = await putBack('killed')
  // The state of a process that died after the mark was set aside.
  renameSync(`${file}-ack`, `${file}-ack-before`)
  await expect(open(url, { housekeeping: false })).rejects.toMatchObject({ code: 'STORE_DAMAGED' })
  expect((await cli(['incarnate', '--url', url], { cwd: folder })).code).toBe(0)
  await (await open(url, { housekeeping: false })).close()
})

it('incarnate creates no store', async () => {
  const missing = join(folder, 'missing.db')
  expect((await cli(['incarnate', '--url', `sqlite:${missing}`], { cwd: folder })).stderr).toContain('NOT_FOUND')
  expect(existsSync(missing)).toBe(false)
})
