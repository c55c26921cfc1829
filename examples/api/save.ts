// Examples of `reprise/save`.

import assert from 'node:assert/strict'
import { save } from 'reprise/save'
import { example } from './example.ts'

const training = save<{ step: number }>('training', { keep: 5 })

export default [
  example(['save', 'SaveHandle.put', 'SaveReader.latest', 'SaveReader.list', 'SaveHandle.close'], async (rp) => {
    const weights = await rp.open(training)
    await weights.put({ step: 1000 })
    await weights.put({ step: 2000 }, { label: 'before the new rate' })
    assert.equal((await weights.latest()).value.step, 2000)
    assert.equal((await weights.list()).length, 2)
    await weights.close()
  }),
  example(['SaveHandle.restore', 'SaveHandle.release', 'SaveReader.load', 'SaveReader.compare'], async (rp) => {
    const weights = await rp.open(training)
    const first = await weights.put({ step: 1 }, { pin: true })
    const second = await weights.put({ step: 2 })
    assert.equal((await weights.load(first.id)).value.step, 1)
    assert.equal((await weights.compare(first.id, second.id)).differences[0]!.path, 'step')
    await weights.restore(first.id)
    await weights.release(first.id)
    assert.equal((await training.read(rp).latest()).value.step, 1)
  }),
  example(['SaveHandle.putStream'], async (rp) => {
    const weights = await rp.open(training)
    await weights.putStream(new Uint8Array(1000), { step: 3 })
    let size = 0
    for await (const bytes of (await weights.latest()).stream()) size += bytes.length
    assert.equal(size, 1000)
  }),
  example(['SaveHandle.autosave'], async (rp) => {
    const game = await rp.open(save<{ level: number }>('game', { loseAtMost: '100ms' }))
    const autosave = game.autosave(() => ({ level: 7 }))
    while ((await game.list()).length === 0) await new Promise((resolve) => setTimeout(resolve, 10))
    autosave.stop()
    assert.equal((await game.latest()).value.level, 7)
    await game.close()
  }),
]
