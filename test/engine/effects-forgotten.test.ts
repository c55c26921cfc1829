// The ledger of effects forgets below the floor, if declared: it stays small, keeps effects in doubt, and every way to the
// state forgets at the same place.

import { expect, it } from 'vitest'
import { timeline } from '../../src/index.ts'
import { onEveryStore } from '../support/worlds.ts'

const make = (effects?: 'all' | 'needed') =>
  timeline('shop', {
    initial: () => 0,
    apply: (n: number) => n + 1,
    retain: { checkpoints: 2, history: 'needed', ...(effects && { effects }) },
  })

onEveryStore('the ledger of effects', (world) => {
  it('forgets settled effects below the floor, and nothing else', async () => {
    const at = await world()
    const engine = await at.engine()
    const shop = await engine.open(make('needed'), 's')
    const doubtful = shop.effects.run('doubtful', () => new Promise<never>(() => undefined))
    doubtful.catch(() => undefined)
    for (let n = 0; n < 12; n++) {
      await shop.effects.run('mail', () => n, { id: `mail ${n}` })
      await shop.append({ type: 'sold' })
      await shop.checkpoint()
    }
    const kept = shop.effects.list().map((effect) => effect.id)
    expect(kept).toContain('doubtful')
    expect(kept).toContain('mail 11')
    expect(kept.length).toBeLessThan(6)
    const { floor } = (await engine.head('shop/s'))!
    expect(floor).toBeGreaterThan(0)
    expect((await engine.drill()).results.filter((result) => !result.ok)).toEqual([])
    expect((await engine.verify()).faults).toEqual([])
    await shop.close()

    const next = await at.engine()
    const again = await next.open(make('needed'), 's')
    expect(again.effects.list().map((effect) => effect.id)).toEqual(kept)
    // Known: the recorded result. Forgotten: a new effect, according to its policy.
    expect(await again.effects.run('mail', () => 'again', { id: 'mail 11' })).toBe(11)
    expect(await again.effects.run('mail', () => 'again', { id: 'mail 0' })).toBe('again')
  })

  it('remembers every one where nothing was declared', async () => {
    const engine = await (await world()).engine()
    const shop = await engine.open(make(), 's')
    for (let n = 0; n < 6; n++) {
      await shop.effects.run('mail', () => n, { id: `mail ${n}` })
      await shop.append({ type: 'sold' })
      await shop.checkpoint()
    }
    expect((await engine.head('shop/s'))!.floor).toBeGreaterThan(0)
    expect(shop.effects.list()).toHaveLength(6)
    expect(await shop.effects.run('mail', () => 'again', { id: 'mail 0' })).toBe(0)
  })
})
