// After `shred` the key is in no file of the store: neither in the rows that it shared with others, nor in free pages, nor in the
// write-ahead log. The files are read as bytes.

import { readdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { existing } from '../../src/engine/history/locate.ts'
import { recover } from '../../src/engine/history/recover.ts'
import { open, type Reprise, timeline } from '../../src/index.ts'
import { aggregate, personal } from '../../src/layers/events/index.ts'
import { temporaryFolder } from '../support/fixture.ts'
import { hostOf } from '../support/host.ts'

const person = aggregate('person', {
  initial: () => ({ email: null as unknown }),
  evolve: { registered: (_, event: { email: unknown }) => ({ email: event.email }) },
  decide: { register: (_, command: { email: string }) => ({ type: 'registered', email: personal(command.email) }) },
})
const noise = timeline('noise', {
  initial: () => 0,
  apply: (n: number, _entry: { type: 'made'; text: string }) => n + 1,
  retain: { checkpoints: 2, history: 'needed' },
})

const folders: string[] = []
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true })
})

function filesWith(folder: string, bytes: Uint8Array): string[] {
  return readdirSync(folder).filter((name) => readFileSync(join(folder, name)).includes(Buffer.from(bytes)))
}

async function keyOf(rp: Reprise, id: string): Promise<Uint8Array> {
  const fold = { version: '1', initial: () => null, apply: (_: unknown, entry: { data: unknown }) => entry.data }
  const head = await existing(hostOf(rp).kernel, `keys/person/${id}` as never)
  return (await recover(hostOf(rp).kernel, head, fold as never)).state.value as unknown as Uint8Array
}

describe('shred', () => {
  it('leaves the key in no file, while the store is open, beside other processes and after it is closed', async () => {
    const folder = temporaryFolder('shred')
    folders.push(folder)
    const url = `sqlite:${join(folder, 'a.db')}`
    const rp = await open(url, { housekeeping: false })
    const other = await open(url, { housekeeping: false })
    const ids = Array.from({ length: 24 }, (_, n) => `p${n}`)
    const beside = await rp.open(noise, 'n')
    // In batches with other work, so that keys lie in rows with much that is alive.
    await Promise.all(
      ids.flatMap((id) => [
        rp.open(person, id).then((handle) => handle.do('register', { email: `${id}@example.org` })),
        beside.append({ type: 'made', text: `${id} `.repeat(2000) }),
      ]),
    )
    await beside.checkpoint()
    const keys = new Map<string, Uint8Array>()
    for (const id of ids) keys.set(id, await keyOf(rp, id))
    for (const key of keys.values()) expect(filesWith(folder, key)).not.toEqual([])
    const gone = ids.filter((_, n) => n % 3 !== 0)
    for (const [n, id] of gone.entries()) {
      const by = n % 2 === 0 ? rp : other
      expect(await (await by.open(person, id)).shred()).toEqual([])
      expect(filesWith(folder, keys.get(id)!)).toEqual([])
    }
    // The others are as they were, and so is the store.
    for (const id of ids.filter((each) => !gone.includes(each))) expect(await keyOf(other, id)).toEqual(keys.get(id))
    expect((await other.verify()).faults).toEqual([])
    await rp.close()
    await other.close()
    for (const id of gone) expect(filesWith(folder, keys.get(id)!)).toEqual([])
  })

  it('finishes the work of a process that was killed in between', async () => {
    const folder = temporaryFolder('shred')
    folders.push(folder)
    const rp = await open(`sqlite:${join(folder, 'a.db')}`, { housekeeping: false })
    const handle = await rp.open(person, 'ann')
    await handle.do('register', { email: 'ann@example.org' })
    const key = await keyOf(rp, 'ann')
    const { upkeep } = hostOf(rp).kernel.store
    const { scrub } = upkeep
    upkeep.scrub = () => Promise.reject(new Error('killed'))
    await expect(handle.shred()).rejects.toThrow('killed')
    upkeep.scrub = scrub
    expect(await handle.shred()).toEqual([])
    expect(filesWith(folder, key)).toEqual([])
    await rp.close()
  })
})
