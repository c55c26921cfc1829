// Two processes want the same result, and one of them is killed: while it computes, when part of the result is written, before
// it becomes visible, and right after that. The other process gets the whole result, and computes it only if it did not exist.

import { type ChildProcess, spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { open } from '../../src/index.ts'
import { temporaryFolder } from '../support/fixture.ts'
import { programPath } from '../support/programs.ts'

const folder = temporaryFolder('killed')
const children: ChildProcess[] = []
afterAll(() => {
  for (const child of children) child.kill('SIGKILL')
})

function start(store: string, log: string, where: string) {
  const child = spawn(process.execPath, [programPath('memo-killed'), `sqlite:${store}`, log, where], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  children.push(child)
  let all = ''
  child.stdout.on('data', (piece) => {
    all += piece
  })
  const ended = new Promise<string>((done) => child.once('close', (_, signal) => done(signal ?? all)))
  const said = async (text: string) => {
    await Promise.race([
      expect.poll(() => all, { timeout: 60_000 }).toContain(text),
      ended.then((end) => expect(end).toContain(text)),
    ])
  }
  return { child, said, ended }
}

it('B9: a kill -9 in any phase leaves nothing half, and the one who waits takes over', async () => {
  const tried = await Promise.all(
    ['computing', 'chunks', 'before', 'after'].map(async (where) => {
      const [store, log] = [join(folder, `${where}.db`), join(folder, `${where}.log`)]
      const first = start(store, log, where)
      await first.said('there')
      const second = start(store, log, 'never')
      await second.said('asked')
      first.child.stdin.write('die\n')
      const end = await first.ended
      const said = await second.ended
      const rp = await open(`sqlite:${store}`, { housekeeping: false })
      const { ok } = await rp.verify()
      await rp.close()
      return { where, end, said: said.split('\n')[1], runs: readFileSync(log, 'utf8').split('\n').length - 1, ok }
    }),
  )
  expect(tried).toEqual([
    { where: 'computing', end: 'SIGKILL', said: 'computed true', runs: 2, ok: true },
    { where: 'chunks', end: 'SIGKILL', said: 'computed true', runs: 2, ok: true },
    { where: 'before', end: 'SIGKILL', said: 'computed true', runs: 2, ok: true },
    { where: 'after', end: 'SIGKILL', said: 'found true', runs: 1, ok: true },
  ])
})
