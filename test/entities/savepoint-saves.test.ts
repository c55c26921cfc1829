// A savepoint of a timeline whose checkpoints are the truth keeps the current checkpoint whole.

import { expect, it } from 'vitest'
import { save } from '../../src/layers/save/index.ts'
import { onEveryStore } from '../support/worlds.ts'
import { noise } from './support.ts'

const models = save<{ step: number }>('models', { keep: 2 })

onEveryStore('savepoints of saves', (world) => {
  it('A9.3: keep the bytes of a stream, until they are released', async () => {
    const rp = await (await world()).engine()
    const s = await rp.open(models)
    const bytes = Buffer.from(noise(1, 64 * 1024))
    await s.putStream([bytes], { step: 1 })
    const { id, label } = await rp.savepoint({ timeline: 'save/models', seq: 1 }, { label: 'first' })
    for (const step of [2, 3, 4, 5]) await s.put({ step })
    expect(label).toBe('first')
    const kept = await s.load(id)
    expect(kept).toMatchObject({ value: { step: 1 }, size: bytes.length, label: 'first', isPinned: true })
    const read: Uint8Array[] = []
    for await (const piece of kept.stream()) read.push(piece)
    expect(Buffer.concat(read).equals(bytes)).toBe(true)
    await s.close()
  })
})
