// Features one by one, in virtual time.

import { describe, expect, it } from 'vitest'
import { isReprise } from '../../src/index.ts'
import { GiveUp, type WorkflowRun, workflow, workflows } from '../../src/layers/workflow/index.ts'
import type { WorkflowKit } from '../../src/testing/index.ts'
import { newGate } from '../support/fixture.ts'
import { hostOf } from '../support/host.ts'
import { kitWith } from './kits.ts'

describe('a step in doubt', () => {
  const doubtful = (kit: WorkflowKit, calls: string[], inDoubt: 'hold' | ((key: string) => never)) =>
    workflow('doubt', async (ctx) => {
      return await ctx.step('pay', ({ key }) => kit.effect(() => calls.push(key)), { inDoubt })
    })

  it("is held for a person when that is its policy, and continues by the person's decision", async () => {
    const kit = kitWith({ crashAt: [{ effect: 1, when: 'after' }] })
    const calls: string[] = []
    const run = await kit.run(doubtful(kit, calls, 'hold'), { id: 'd' })
    await kit.advance('1m')
    expect((await kit.handle(run).status()).status).toBe('held')
    await kit.survive(() => kit.handle(run).settle('pay', 'done', { by: 'ann', result: 99 }))
    expect(await kit.result(run)).toBe(99)
    expect(calls).toHaveLength(1)
  })

  it('can be called again by a person', async () => {
    const kit = kitWith({ crashAt: [{ effect: 1, when: 'before' }] })
    const calls: string[] = []
    const run = await kit.run(doubtful(kit, calls, 'hold'), { id: 'd' })
    await kit.advance('1m')
    await kit.survive(() => kit.handle(run).settle('pay', 'retry'))
    expect(await kit.result(run)).toBe(1)
  })

  it('asks the outside when it has a probe', async () => {
    const kit = kitWith({ crashAt: [{ effect: 1, when: 'after' }] })
    const calls: string[] = []
    const probe = (key: string) => ({ happened: calls.includes(key), result: 7 }) as never
    const run = await kit.run(doubtful(kit, calls, probe), { id: 'd' })
    expect(await kit.result(run)).toBe(7)
    expect(calls).toHaveLength(1)
  })
})

describe('signals', () => {
  it('sent before the run exists are delivered once it waits', async () => {
    const kit = kitWith()
    await kit.survive((rp) => rp.send('workflow/early/e', 'signal', { name: 'go', value: 5 }))
    const early = workflow('early', async (ctx) => await ctx.signal<number>('go'))
    expect(await kit.result(await kit.run(early, { id: 'e' }))).toBe(5)
  })

  it('come in order, each once, also when they are many', async () => {
    const kit = kitWith()
    const many = workflow('many', async (ctx) => {
      const got: number[] = []
      for (let i = 0; i < 20; i++) got.push(await ctx.signal<number>('n'))
      return got
    })
    const run = await kit.run(many, { id: 'm' })
    for (let i = 0; i < 20; i++) await kit.survive(() => kit.handle(run).signal('n', i, { key: `n${i}` }))
    await kit.survive(() => kit.handle(run).signal('n', 99, { key: 'n3' }))
    expect(await kit.result(run)).toEqual(Array.from({ length: 20 }, (_, i) => i))
  })

  it('to a run that has ended are refused', async () => {
    const kit = kitWith()
    const run = await kit.run(
      workflow('short', async () => 1),
      { id: 's' },
    )
    await kit.result(run)
    const error = await kit
      .handle(run)
      .signal('x')
      .catch((thrown) => thrown)
    expect(isReprise(error, 'ENDED')).toBe(true)
  })
})

describe('updates', () => {
  it('are validated, handled once, and answered', async () => {
    const kit = kitWith()
    const cart = workflow('cart', async (ctx) => {
      const items: string[] = []
      ctx.onQuery('items', () => items.length)
      ctx.onUpdate(
        'add',
        async (item: string) => {
          await ctx.step('reserve', () => item)
          items.push(item)
          return items.length
        },
        {
          validate: (item) => {
            if (item === '') throw new Error('empty')
          },
        },
      )
      await ctx.signal('checkout')
      return items
    })
    const run = await kit.run(cart, { id: 'c' })
    expect(await kit.survive(() => kit.handle(run).update('add', 'a'))).toBe(1)
    await expect(kit.survive(() => kit.handle(run).update('add', ''))).rejects.toThrow('empty')
    await kit.advance('1h')
    expect(hostOf(kit.rp).kernel && (await kit.survive(() => kit.handle(run).query('items')))).toBe(1)
    expect(await kit.survive(() => kit.handle(run).update('add', 'b'))).toBe(2)
    await kit.survive(() => kit.handle(run).signal('checkout'))
    expect(await kit.result(run)).toEqual(['a', 'b'])
  })
})

describe('cancellation', () => {
  it('lets the code clean up, undoes its steps, and stops its children', async () => {
    const kit = kitWith()
    const log: string[] = []
    const child = workflow('child', async (ctx) => {
      try {
        await ctx.sleep('30d')
      } finally {
        await ctx.step('child clean-up', () => log.push('child clean-up'))
      }
    })
    const parent = workflow('parent', async (ctx) => {
      await ctx.step('a', () => 1, { compensate: () => log.push('undo a') })
      try {
        await ctx.child(child, undefined)
      } catch (error) {
        await ctx.step('clean-up', () => log.push('clean-up'))
        throw error
      }
    })
    kit.work(child)
    const run = await kit.run(parent, { id: 'p' })
    await kit.advance('1h')
    await kit.survive(() => kit.handle(run).cancel({ reason: 'customer left' }))
    const error = await kit.result(run).catch((thrown) => thrown)
    expect(isReprise(error, 'CANCELLED')).toBe(true)
    expect(error.message).toContain('customer left')
    await kit.advance('1h')
    expect([...log].sort()).toEqual(['child clean-up', 'clean-up', 'undo a'])
    const all = await workflows(kit.rp).list()
    expect(all.map(({ workflow: name, status }) => [name, status])).toEqual([
      ['child', 'cancelled'],
      ['parent', 'cancelled'],
    ])
  })

  it('waits for a step that can be undone, and undoes it', async () => {
    const kit = kitWith()
    const log: string[] = []
    let finish: (value: number) => void = () => undefined
    const busy = workflow('busy', async (ctx) => {
      await ctx.step('work', () => new Promise<number>((resolve) => (finish = resolve)), {
        compensate: (n) => log.push(`undo ${n}`),
      })
    })
    const run = await kit.run(busy, { id: 'b' })
    await kit.settle()
    await kit.survive(() => kit.handle(run).cancel({ reason: 'enough' }))
    await kit.settle()
    finish(3)
    await expect(kit.result(run)).rejects.toThrow('enough')
    expect(log).toEqual(['undo 3'])
  })

  it('comes by itself when the deadline passes', async () => {
    const kit = kitWith()
    const late = workflow('late', async (ctx) => await ctx.sleep('30d'), { timeout: '1d' })
    const error = await kit.result(await kit.run(late, { id: 'l' })).catch((thrown) => thrown)
    expect(isReprise(error, 'TIMEOUT')).toBe(true)
    expect(new Date(kit.now()).toISOString().slice(0, 10)).toBe('2026-01-02')
  })

  it('terminate ends at once: no clean-up, no compensation', async () => {
    const kit = kitWith()
    const log: string[] = []
    const stubborn = workflow('stubborn', async (ctx) => {
      await ctx.step('a', () => 1, { compensate: () => log.push('undo') })
      await ctx.sleep('30d')
    })
    const run = await kit.run(stubborn, { id: 's' })
    await kit.advance('1h')
    await kit.survive(() => kit.handle(run).terminate({ reason: 'by hand' }))
    await expect(kit.result(run)).rejects.toThrow('by hand')
    expect(log).toEqual([])
  })
})

describe('a compensation that keeps failing', () => {
  it('leaves the run in a state that a person sees, can retry and can settle', async () => {
    const kit = kitWith()
    let isBroken = true
    const log: string[] = []
    const saga = workflow('saga', async (ctx) => {
      await ctx.step('first', () => 1, { compensate: () => log.push('first undone') })
      await ctx.step('hotel', () => 1, {
        compensate: () => {
          if (isBroken) throw new Error('closed')
          log.push('hotel undone')
        },
        compensateRetry: { attempts: 3, backoff: '1m' },
      })
      await ctx.step('flight', () => 1, {
        compensate: () => {
          throw new Error('gone')
        },
        compensateRetry: { attempts: 1 },
      })
      throw new Error('no car')
    })
    const run = await kit.run(saga, { id: 's' })
    await kit.advance('1h')
    expect((await kit.handle(run).status()).status).toBe('stuck')
    await kit.survive(() => kit.handle(run).settle('flight', 'compensated', { by: 'ann' }))
    await kit.advance('1h')
    expect((await kit.handle(run).status()).status).toBe('stuck')
    isBroken = false
    await kit.survive(() => kit.handle(run).resume('bob'))
    await expect(kit.result(run)).rejects.toThrow('no car')
    expect(log).toEqual(['hotel undone', 'first undone'])
  })
})

describe('a run', () => {
  it('is rolled back to a step: later ones are undone, and it continues from there under new keys', async () => {
    const kit = kitWith()
    const log: string[] = []
    const keys = new Set<string>()
    const trip = workflow('trip', async (ctx, to: string) => {
      for (const name of ['a', 'b', 'c']) {
        const book = ({ key }: { key: string }) => keys.add(key) && log.push(`${name} ${to}`)
        await ctx.step(name, book, { compensate: () => log.push(`undo ${name}`) })
      }
      await ctx.signal('go')
      return to
    })
    const run = await kit.run(trip, 'rome', { id: 't' })
    await kit.advance('1h')
    await kit.survive(() => kit.handle(run).rollback({ to: 'b', input: 'oslo' }))
    await kit.survive(() => kit.handle(run).signal('go'))
    expect(await kit.result(run)).toBe('oslo')
    expect(log).toEqual(['a rome', 'b rome', 'c rome', 'undo c', 'undo b', 'b oslo', 'c oslo'])
    expect(keys.size).toBe(5)
  })

  it('gets mail sent during a rollback when that is done, also if it had to wait for a call in flight', async () => {
    const kit = kitWith()
    const { opened: blocked, open: release } = newGate()
    const trip = workflow('trip', async (ctx, to: string) => {
      await ctx.step('a', () => to, { compensate: () => undefined })
      await ctx.step('b', () => (to === 'rome' ? blocked : undefined))
      return `${to} ${await ctx.signal('go')}`
    })
    const run = await kit.run(trip, 'rome', { id: 't' })
    await kit.settle()
    await run.rollback({ to: 'a', input: 'oslo' })
    await run.signal('go', 1)
    await kit.settle()
    release()
    expect(await kit.result(run)).toBe('oslo 1')
  })

  it('hears what cannot wait for a rollback, however much waits for it', async () => {
    const kit = kitWith()
    const trip = workflow('trip', async (ctx) => {
      await ctx.step('a', () => 1, { compensate: () => undefined })
      await ctx.step('b', () => new Promise(() => undefined))
    })
    const run = await kit.run(trip, { id: 't' })
    await kit.settle()
    await run.rollback({ to: 'a' })
    for (let n = 0; n < 120; n++) await run.signal('go', n)
    await run.terminate({ reason: 'enough' })
    await expect(kit.result(run)).rejects.toMatchObject({ message: expect.stringContaining('enough') })
  })

  it('is retried from its failure, and only the failed step is called again', async () => {
    const kit = kitWith()
    let isBroken = true
    const calls: string[] = []
    const two = workflow('two', async (ctx) => {
      await ctx.step('a', () => calls.push('a'))
      await ctx.step('b', () => {
        calls.push('b')
        if (isBroken) throw new GiveUp('down')
        return 1
      })
      return 'fine'
    })
    const run = await kit.run(two, { id: 'r' })
    await expect(kit.result(run)).rejects.toThrow('down')
    isBroken = false
    await kit.survive(() => kit.handle(run).retry())
    expect(await kit.result(run)).toBe('fine')
    expect(calls).toEqual(['a', 'b', 'b'])
  })

  it('is forked from a step by name, with other input, and both go their way', async () => {
    const kit = kitWith()
    const calls: string[] = []
    const greet = workflow('greet', async (ctx, name: string) => {
      const first = await ctx.step('first', ({ key }) => calls.push(key))
      return `${first} ${await ctx.step('second', ({ key }) => {
        calls.push(key)
        return name
      })}`
    })
    const run = await kit.run(greet, 'ann', { id: 'g' })
    expect(await kit.result(run)).toBe('1 ann')
    const fork = await kit.survive(() => kit.handle(run).fork('second', { id: 'g2', input: 'bob' }))
    expect(await kit.result(fork)).toBe('1 bob')
    expect(await kit.result(run)).toBe('1 ann')
    expect(calls.map((key) => key.split('-')[0])).toEqual(['first', 'second', 'second'])
    expect(new Set(calls).size).toBe(3)
  })

  it('that is a fork applies an update under a key that its original knows, and so a re-run', async () => {
    const kit = kitWith()
    const till = workflow('till', async (ctx) => {
      let total = 0
      ctx.onUpdate('add', async (amount: number) => {
        total += await ctx.step('charge', () => amount)
        return total
      })
      await ctx.signal('go')
      await ctx.step('middle', () => 1)
      await ctx.signal('end')
      return total
    })
    const add = async (run: WorkflowRun<number>, amount: number) => {
      const answer = run.update('add', amount, { key: 'k' })
      await kit.advance('2s')
      return await answer
    }
    const run = await kit.run(till, { id: 't' })
    expect(await add(run, 500)).toBe(500)
    await run.signal('go')
    await kit.settle()
    await run.rollback({ to: 'middle', key: 'back' })
    await kit.settle()
    const fork = await run.fork('middle', { id: 'f' })
    await kit.settle()
    expect(await add(fork, 900)).toBe(1400)
    expect(await add(fork, 900)).toBe(1400)
    await fork.rollback({ to: 'middle', key: 'back' })
    await kit.settle()
    expect((await fork.state()).generation).toBe(2)
    // The rollback undid the update of the fork, which came after that step.
    for (const each of [fork, run]) await each.signal('end')
    expect([await kit.result(fork), await kit.result(run)]).toEqual([500, 500])
  })

  it('starts over with continueAsNew, keeps unread signals, and its steps get new keys', async () => {
    const kit = kitWith()
    const keys: string[] = []
    const again = workflow('again', async (ctx, n: number) => {
      await ctx.step('count', ({ key }) => keys.push(key))
      if (n < 3) ctx.continueAsNew(n + 1)
      return await ctx.signal('last')
    })
    const run = await kit.run(again, 1, { id: 'a' })
    await kit.survive(() => kit.handle(run).signal('last', 'kept', { key: 'k' }))
    expect(await kit.result(run)).toBe('kept')
    expect(keys).toHaveLength(3)
    expect(new Set(keys).size).toBe(3)
  })

  it('with an id that exists is given, refused or run again, as declared', async () => {
    const kit = kitWith()
    let runs = 0
    const once = workflow('once', async () => ++runs)
    await kit.result(await kit.run(once, { id: 'o' }))
    expect(await kit.result(await kit.run(once, { id: 'o' }))).toBe(1)
    const refused = await kit.survive((rp) => rp.run(once, { id: 'o', ifExists: 'reject' }).catch((e) => e))
    expect(isReprise(refused, 'EXISTS')).toBe(true)
    expect(await kit.result(await kit.run(once, { id: 'o', ifExists: 'restart' }))).toBe(2)
  })

  it('is found by its attributes, and many are cancelled at once', async () => {
    const kit = kitWith()
    const order = workflow('order', async (ctx, shop: string) => {
      ctx.attributes({ shop, stage: 1 })
      await ctx.step('a', () => 1)
      await ctx.sleep('30d')
    })
    for (const [id, shop] of Object.entries({ a: 'x', b: 'y', c: 'x' })) await kit.run(order, shop, { id })
    await kit.advance('1h')
    const runs = workflows(kit.rp).of(order)
    expect((await runs.list({ attributes: { shop: 'x' } })).map(({ id }) => id)).toEqual(['a', 'c'])
    expect(await runs.cancel({ attributes: { shop: 'x' } })).toEqual({ done: ['a', 'c'], refused: [] })
    await kit.advance('1h')
    expect((await runs.list({ status: 'cancelled' })).map(({ id }) => id)).toEqual(['a', 'c'])
  })

  it('with batched durability loses no more than its window in a crash, and repeats with the same keys', async () => {
    const kit = kitWith({ crashAt: [{ effect: 8, when: 'after' }] })
    const keys: string[] = []
    const batched = workflow(
      'batched',
      async (ctx) => {
        for (let i = 0; i < 10; i++) await ctx.step('s', ({ key }) => kit.effect(() => keys.push(key)))
        return 'ok'
      },
      { durability: { window: '1s' } },
    )
    expect(await kit.result(await kit.run(batched, { id: 'b' }))).toBe('ok')
    expect(new Set(keys).size).toBe(10)
    expect(kit.commits).toBeLessThan(10)
  })
})
