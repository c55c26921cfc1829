// A file that is moved away under an open store, and back: a write answered with STORE_MOVED may be stored. So the handle fails
// from then on, and a process that opens the timeline again sees the outcome and continues.

import { renameSync } from 'node:fs'
import { join } from 'node:path'
import { beforeEach, expect, it } from 'vitest'
import { open, timeline } from '../../src/index.ts'
import { save } from '../../src/layers/save/index.ts'
import { temporaryFolder } from '../support/fixture.ts'

const counter = timeline('counter', {
  initial: () => ({ total: 0 }),
  apply: (state, { by }: { readonly by: number; readonly type: string }) => ({ total: state.total + by }),
})
const note = save<number>('note')

let folder: string
beforeEach(() => {
  folder = temporaryFolder('moved')
})

function move(from: string, to: string): void {
  for (const end of ['', '-wal', '-shm', '-ack']) renameSync(join(folder, from + end), join(folder, to + end))
}

it('L1: a handle that failed with STORE_MOVED does not return CONFLICT when the file is back; opened again it continues', async () => {
  const rp = await open(`sqlite:${join(folder, 'a.db')}`)
  const handle = await rp.open(counter, 'one')
  const kept = await rp.open(note, 'two')
  const add = { type: 'added', by: 1 }
  await handle.append(add)
  await kept.put(1)
  move('a.db', 'b.db')
  const moved = { code: 'STORE_MOVED', hint: expect.stringContaining('outcome is unknown') }
  await expect(handle.append(add)).rejects.toMatchObject(moved)
  await expect(kept.put(2)).rejects.toMatchObject(moved)
  move('b.db', 'a.db')
  await expect(handle.append(add)).rejects.toMatchObject(moved)
  await expect(kept.put(2)).rejects.toMatchObject(moved)
  const [again, keptAgain] = [await rp.open(counter, 'one'), await rp.open(note, 'two')]
  const { total } = again.state
  await again.append(add)
  expect(again.state.total).toBe(total + 1)
  await keptAgain.put(3)
  expect((await rp.verify()).faults).toEqual([])
  await rp.close()
})
