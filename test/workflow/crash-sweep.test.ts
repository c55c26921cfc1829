// The crash sweep (G5): a workflow with every feature in it, killed at each commit boundary and before and after each
// effect. The result, the effects and the compensations are those of the undisturbed run; at most the call in flight is
// repeated, with its key. REPRISE_SWEEP_EVERY=1 visits every point, the default every third.

import { expect, it } from 'vitest'
import { RetryLater, workflow } from '../../src/layers/workflow/index.ts'
import { crashEverywhere, type WorkflowKit } from '../../src/testing/index.ts'

/** The outside calls: each key, and how often. */
class Outside {
  readonly calls = new Map<string, number>()
  readonly #kit: WorkflowKit

  constructor(kit: WorkflowKit) {
    this.#kit = kit
  }

  do<T>(key: string, value: T): Promise<T> {
    return this.#kit.effect(() => {
      this.calls.set(key, (this.calls.get(key) ?? 0) + 1)
      return value
    })
  }
}

function definitions(outside: Outside, flaws: Map<string, number>) {
  const failOnce = (key: string, error: Error) => {
    flaws.set(key, (flaws.get(key) ?? 0) + 1)
    if (flaws.get(key) === 1) throw error
  }
  const child = workflow('child', async (ctx, n: number) => {
    await ctx.sleep('1h')
    return await ctx.step('work', ({ key }) => outside.do(key, n * 10))
  })
  const lonely = workflow('lonely', async (ctx) => {
    await ctx.step('alone', ({ key }) => outside.do(key, 1))
  })
  const everything = workflow('everything', async (ctx, input: { fail: boolean }) => {
    const undo =
      (name: string) =>
      (_: unknown, { key }: { key: string }) =>
        outside.do(`${name}!${key}`, 0)
    const log: unknown[] = []
    let note = ''
    ctx.onQuery('note', () => note)
    ctx.onUpdate('note', async (text: string) => {
      await ctx.step('note', ({ key }) => outside.do(key, text))
      note = text
      return text.length
    })
    log.push(await ctx.step('charge', ({ key }) => outside.do(key, 7), { compensate: undo('charge') }))
    log.push(
      await ctx.step(
        'flaky',
        async ({ key, attempt }) => {
          failOnce('flaky', new Error('not yet'))
          return await outside.do(key, attempt >= 1)
        },
        { retry: { attempts: 5, backoff: '10s' }, compensate: undo('flaky') },
      ),
    )
    log.push(
      await ctx.step('later', async ({ key }) => {
        failOnce('later', new RetryLater('1d'))
        return await outside.do(key, 'later')
      }),
    )
    log.push(
      await Promise.all([
        ctx.step('label', ({ key }) => outside.do(key, 'l')),
        ctx.step('invoice', ({ key }) => outside.do(key, 'i'), { compensate: undo('invoice') }),
      ]),
    )
    log.push(
      await ctx.parallel({
        left: async (own) => {
          await own.sleep('5m')
          return await own.step('x', ({ key }) => outside.do(key, 1))
        },
        right: async (own) => {
          const a = await own.step('x', ({ key }) => outside.do(key, 2), { compensate: undo('right') })
          return a + (await own.step('x', ({ key }) => outside.do(key, 3)))
        },
      }),
    )
    log.push(
      await ctx.race({
        slow: async (own) => {
          await own.sleep('30d')
          return 's'
        },
        quick: async (own) => {
          await own.sleep('1s')
          return await own.step('quick', ({ key }) => outside.do(key, 'q'))
        },
      }),
    )
    log.push(await ctx.signal('decision', { timeout: '7d' }))
    log.push(await ctx.signal('never', { timeout: '1h', otherwise: 'nobody' }))
    log.push(await ctx.child(child, 4), (await ctx.start(lonely, undefined)).length)
    log.push(ctx.patch('new way') ? await ctx.step('new', ({ key }) => outside.do(key, 'new')) : 'old')
    log.push(
      await ctx.loop({ n: 0, sum: 0 }, async ({ n, sum }, own) => {
        if (n === 3) return own.stop(sum)
        const add = await own.step('add', ({ key }) => outside.do(key, n))
        await own.sleep('1m')
        return { n: n + 1, sum: sum + add }
      }),
    )
    log.push(
      await ctx.step('asked', ({ key }) => outside.do(key, 'asked'), {
        inDoubt: (key) => (outside.calls.has(key) ? { happened: true, result: 'asked' } : { happened: false }),
        compensate: undo('asked'),
      }),
    )
    log.push(typeof ctx.random(), ctx.uuid().length, note)
    if (input.fail) throw new Error('and now for the way back')
    return log
  })
  return { everything, child, lonely }
}

async function program(kit: WorkflowKit, fail: boolean) {
  const outside = new Outside(kit)
  const { everything, child, lonely } = definitions(outside, new Map())
  kit.work(child)
  kit.work(lonely)
  const run = await kit.run(everything, { fail }, { id: 'e' })
  await kit.survive(() => kit.handle(run).signal('decision', 'ship', { key: 'decision' }))
  const noted = await kit.survive(async () => {
    const found = await kit
      .handle(run)
      .query('note')
      .catch(() => null)
    return found ? (found as string).length : await kit.handle(run).update('note', 'hello')
  })
  const result = await kit.result(run).catch((error: Error) => error.message)
  await kit.advance('1d')
  return { result, noted, calls: outside.calls, crashes: kit.crashes, status: (await kit.handle(run).status()).status }
}

for (const fail of [false, true]) {
  it(`A2.4, C2: a workflow with everything in it ${fail ? 'compensates' : 'completes'} alike wherever its process dies (G5)`, async () => {
    const { undisturbed, crashes } = await crashEverywhere((kit) => program(kit, fail), {
      every: Number(process.env.REPRISE_SWEEP_EVERY ?? 3),
    })
    const names = namesOf(undisturbed.calls)
    expect([...undisturbed.calls.values()].every((count) => count === 1)).toBe(true)
    expect(names.some((name) => name.endsWith('~undo'))).toBe(fail)
    expect(crashes.length).toBeGreaterThan(40)
    for (const { at, outcome } of crashes) {
      const where = JSON.stringify(at)
      expect(outcome.result, where).toEqual(undisturbed.result)
      expect(outcome.status, where).toBe(undisturbed.status)
      expect(outcome.noted, where).toBe(undisturbed.noted)
      expect(namesOf(outcome.calls), where).toEqual(names)
      // One process may have had several calls in flight: Promise.all starts two at once.
      const repeats = [...outcome.calls.values()].reduce((sum, count) => sum + count - 1, 0)
      expect(repeats, where).toBeLessThanOrEqual(2)
      expect(outcome.crashes, where).toBeLessThanOrEqual(1)
    }
  })
}

/**
 * The step name of each key: every world has keys of its own. An update that is sent again after a crash of its sender is
 * another update, so its steps count once.
 */
function namesOf(calls: ReadonlyMap<string, number>): string[] {
  const names = [...calls.keys()].map((key) => key.replace(/-[0-9a-f]{32}/, ''))
  return [...names.filter((name) => name !== 'note'), 'note'].sort()
}
