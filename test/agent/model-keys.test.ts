// The key of a model call stands for the question (G5): a receiver that honours keys never answers one question with the answer
// to another, and the same question keeps its key.

import { join } from 'node:path'
import { expect, it } from 'vitest'
import { timelineId } from '../../src/core/coordinate.ts'
import { agent, type LanguageModel } from '../../src/layers/agent/index.ts'
import { OutsideLedger } from '../../src/testing/index.ts'
import { temporaryFolder } from '../support/fixture.ts'
import { hostOf } from '../support/host.ts'
import { onEveryStore } from '../support/worlds.ts'

const folder = temporaryFolder('model-keys')
let files = 0

/** Calls `ledger`, which answers a known key with its first answer. */
function clerkOf(ledger: OutsideLedger, before: () => void = () => undefined) {
  const model: LanguageModel<object> = async ({ messages, settings, key }) => {
    const question = [messages.at(-1)!.content, settings.model ?? null]
    const answer = ledger.receive(key, question)
    before()
    return { content: answer, requests: [] }
  }
  return agent('clerk', { initial: () => ({}), tools: {}, model })
}

onEveryStore('keys of model calls', (world) => {
  it('after a restore: another question has another key, the same one has the same', async () => {
    const ledger = new OutsideLedger()
    const clerk = clerkOf(ledger)
    const live = await (await world()).engine()
    const session = await live.open(clerk, 'x')
    await session.turn('zero')
    await session.close()
    const file = join(folder, `${++files}.rpb`)
    await live.backup(file)
    for (const question of ['What does Ann owe?', 'What does Bob owe?', 'What does Ann owe?']) {
      const restored = await (await world()).engine()
      await restored.restore(file)
      const again = await restored.open(clerk, 'x')
      expect((await again.turn(question)).content).toEqual([question, null])
      await again.close()
    }
    expect(ledger.confused).toEqual([])
    expect(ledger.done).toHaveLength(3)
    expect(ledger.calls).toHaveLength(4)
  })

  it('a failed call is repeated under its key, and under another with other settings', async () => {
    const ledger = new OutsideLedger()
    let isAway = true
    const clerk = clerkOf(ledger, () => {
      if (isAway) throw Object.assign(new Error('away'), { status: 400 })
    })
    const rp = await (await world()).engine()
    const session = await rp.open(clerk, 'x')
    await expect(session.turn('hello', { key: 'one' })).rejects.toThrow('away')
    await expect(session.resume()).rejects.toThrow('away')
    isAway = false
    await session.configure({ model: 'other' })
    await session.resume()
    const [first, second, third] = ledger.calls.map(({ key }) => key)
    expect(second).toBe(first)
    expect(third).not.toBe(first)
    expect(ledger.confused).toEqual([])
  })

  it('a call that was recorded without its question continues under its key', async () => {
    const ledger = new OutsideLedger()
    const clerk = clerkOf(ledger)
    const w = await world()
    const rp = await w.engine()
    const session = await rp.open(clerk, 'x')
    await session.close()
    const id = '00000001.0000'
    const open = await hostOf(rp).openTimeline(timelineId('agent/clerk/x'), clerk.fold)
    const call = { id, turn: 1, tool: 'model', kind: 'model', args: null, digest: id, attempt: 1, state: 'intended' }
    await open.write([
      { type: 'turn.started', data: { turn: 1, input: 'hello', key: null } },
      { type: '$effect.intended', data: { id, name: 'model', key: 'model-of-before', reversal: 'none' } },
      { type: 'called', data: call },
    ])
    await open.close()
    const again = await rp.open(clerk, 'x')
    await again.resume()
    expect(ledger.calls.map(({ key }) => key)).toEqual(['model-of-before'])
  })
})
