// Effects: intent before the call, outcome after it, the same key for every attempt, and no guessing when in doubt.

import { expect, it } from 'vitest'
import { counter } from '../support/definitions.ts'
import { until } from '../support/fixture.ts'
import { hostOf } from '../support/host.ts'
import { onEveryStore } from '../support/worlds.ts'

const code = (expected: string) => expect.objectContaining({ code: expected })

onEveryStore('effects', (world) => {
  it('A5.3: a done effect is not called again, in this process or the next', async () => {
    const w = await world()
    let calls = 0
    for (let round = 0; round < 2; round++) {
      const rp = await w.engine()
      const c = await rp.open(counter, 'x')
      expect(await c.effects.run('charge', () => ({ paid: ++calls }))).toEqual({ paid: 1 })
      await rp.close()
    }
    expect(calls).toBe(1)
  })

  it('G5: after a crash between intent and outcome the call is repeated once, with the same key', async () => {
    const w = await world()
    const keys: string[] = []
    const first = await w.engine()
    const c = await first.open(counter, 'x')
    void c.effects.run('charge', ({ key }) => {
      keys.push(key)
      return new Promise(() => {})
    })
    await until(() => keys.length !== 0)
    hostOf(first).kernel.worker.abandon()
    const second = await w.engine()
    const again = await second.open(counter, 'x', { takeover: true })
    expect(again.effects.inDoubt().map(({ name }) => name)).toEqual(['charge'])
    await again.effects.run('charge', ({ key, attempt }) => keys.push(key) && attempt)
    expect(keys).toHaveLength(2)
    expect(new Set(keys).size).toBe(1)
    expect(again.effects.inDoubt()).toEqual([])
  })

  it('G5: another input under the id of an effect is never answered with its result, nor called under its key', async () => {
    const w = await world()
    const rp = await w.engine()
    const c = await rp.open(counter, 'x')
    const keys: string[] = []
    const charge = (input: number, result: () => unknown) =>
      c.effects.run('charge', ({ key }) => keys.push(key) && result(), { input })
    const fails = () => {
      throw new Error('declined')
    }
    await expect(charge(500, fails)).rejects.toThrow('declined')
    await expect(charge(500, fails)).rejects.toThrow('declined')
    expect(await charge(900, () => 'paid 900')).toBe('paid 900')
    expect(keys[1]).toBe(keys[0])
    expect(keys[2]).not.toBe(keys[0])
    expect(await charge(900, fails)).toBe('paid 900')
    await expect(charge(500, () => 'paid 500')).rejects.toEqual(code('CONFLICT'))
    expect(keys).toHaveLength(3)
    await c.close()
    expect((await rp.open(counter, 'x')).effects.get('charge')).toMatchObject({ result: 'paid 900', input: 900 })
  })

  it('A5.3: in doubt, hold waits for a person, and a probe asks the outside', async () => {
    const w = await world()
    const first = await w.engine()
    const c = await first.open(counter, 'x')
    let isCalled = false
    for (const id of ['held', 'probed', 'absent']) void c.effects.run(id, () => new Promise(() => (isCalled = true)))
    await until(() => isCalled && c.coordinate.seq >= 3)
    const second = await w.engine()
    const again = await second.open(counter, 'x', { takeover: true })
    await expect(again.effects.run('held', () => 1, { inDoubt: 'hold' })).rejects.toEqual(code('EFFECT_IN_DOUBT'))
    await again.effects.settle('held', 'done', 'ann', 42)
    expect(await again.effects.run('held', () => 1, { inDoubt: 'hold' })).toBe(42)
    expect(await again.effects.run('probed', () => 1, { inDoubt: async () => ({ happened: true, result: 7 }) })).toBe(7)
    expect(await again.effects.run('absent', () => 5, { inDoubt: async () => ({ happened: false }) })).toBe(5)
  })

  it('the first decision about an effect counts: a repetition is accepted, another is refused with its author', async () => {
    const w = await world()
    const rp = await w.engine()
    const c = await rp.open(counter, 'x')
    let isCalled = false
    void c.effects.run('mail', () => new Promise(() => (isCalled = true)))
    await until(() => isCalled)
    hostOf(rp).kernel.worker.abandon()
    const tool = await w.engine()
    const { effects } = await tool.open(counter, 'x', { takeover: true })
    await effects.settle('mail', 'done', 'ann', 7)
    await effects.settle('mail', 'done', 'bob')
    const refused = { code: 'CONFLICT', data: { outcome: 'done', by: 'ann', at: expect.any(Number) } }
    await expect(effects.settle('mail', 'failed', 'bob')).rejects.toMatchObject(refused)
    await expect(effects.settle('mail', 'done', 'bob', 8)).rejects.toMatchObject(refused)
    await effects.settle('mail', 'compensated', 'bob')
    await expect(effects.settle('mail', 'done', 'ann')).rejects.toMatchObject({ code: 'CONFLICT', data: { by: 'bob' } })
    await expect(effects.settle('none', 'done', 'ann')).rejects.toEqual(code('NOT_FOUND'))
  })

  it('a failed effect may be tried again under the same key; its failure is recorded', async () => {
    const w = await world()
    const rp = await w.engine()
    const c = await rp.open(counter, 'x')
    const keys: string[] = []
    const failing = c.effects.run('charge', ({ key }) => {
      keys.push(key)
      throw new Error('declined')
    })
    await expect(failing).rejects.toThrow('declined')
    expect(c.effects.get('charge')).toMatchObject({ outcome: 'failed' })
    await c.effects.run('charge', ({ key }) => keys.push(key))
    expect(new Set(keys).size).toBe(1)
  })

  it('a compensation is recorded before and after, and runs once', async () => {
    const w = await world()
    const rp = await w.engine()
    const c = await rp.open(counter, 'x')
    await c.effects.run('charge', () => 'p1', { reversal: 'compensate' })
    const undone: unknown[] = []
    await expect(c.effects.compensate('charge', () => Promise.reject(new Error('bank is closed')))).rejects.toThrow(
      'closed',
    )
    await c.effects.compensate('charge', (effect) => undone.push(effect.result))
    await c.effects.compensate('charge', (effect) => undone.push(effect.result))
    expect(undone).toEqual(['p1'])
    expect(c.effects.get('charge')?.state).toBe('compensated')
  })
})
