// list() returns all matches, or throws.

import { expect, it } from 'vitest'
import { timeline } from '../../src/index.ts'
import { onEveryStore } from '../support/worlds.ts'

const note = timeline('note', { initial: () => 0, apply: (n: number, _e: { type: 'noted' }) => n + 1 })

onEveryStore('list', (world) => {
  it('gives all timelines, not the first hundred, and refuses more than it can hold', async () => {
    const w = await world()
    const rp = await w.engine({ limits: { listedTimelines: 620 } })
    const make = async (n: number) => {
      const handle = await rp.open(note, String(n).padStart(4, '0'))
      await handle.append({ type: 'noted' })
      await handle.close()
    }
    for (let from = 0; from < 620; from += 62) await Promise.all(Array.from({ length: 62 }, (_, i) => make(from + i)))
    expect(await rp.list({ prefix: 'note/' })).toHaveLength(620)
    expect(await rp.list({ prefix: 'note/', limit: 7 })).toHaveLength(7)
    await make(620)
    await expect(rp.list({ prefix: 'note/' })).rejects.toEqual(expect.objectContaining({ code: 'LIMIT_EXCEEDED' }))
    const ids = new Set<string>()
    for await (const head of rp.each({ prefix: 'note/' })) ids.add(head.timeline)
    expect(ids.size).toBe(621)
  })
})
