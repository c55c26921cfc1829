// Steps, in virtual time.

import { describe, expect, it } from 'vitest'
import { isReprise } from '../../src/index.ts'
import { GiveUp, workflow } from '../../src/layers/workflow/index.ts'
import { entriesAfter } from '../../src/operations/history.ts'
import { pause, until } from '../support/fixture.ts'
import { kitWith } from './kits.ts'

describe('steps', () => {
  it('are retried with growing pauses, and the pauses are durable', async () => {
    const kit = kitWith()
    const at: number[] = []
    const flaky = workflow('flaky', async (ctx) => {
      return await ctx.step(
        'call',
        ({ attempt }) => {
          at.push(kit.now())
          if (attempt < 4) throw new Error(`no ${attempt}`)
          return attempt
        },
        { retry: { attempts: 4, backoff: '10s', factor: 3, jitter: 0, backoffMax: '1h' } },
      )
    })
    const run = await kit.run(flaky, { id: 'f' })
    await kit.advance('15s')
    kit.crash()
    expect(await kit.result(run)).toBe(4)
    const pauses = at.map((time, i) => (time - at[Math.max(0, i - 1)]!) / 1000)
    expect(pauses.map(Math.round)).toEqual([0, 10, 30, 90])
  })

  it('record how long each call took, and not how long it waited before', async () => {
    const kit = kitWith()
    const slow = workflow('slow', async (ctx) => {
      await ctx.sleep('1h')
      await ctx.parallel([
        (own) => own.step('left', () => kit.pause('2s')),
        (own) => own.step('right', () => kit.pause('5s')),
      ])
      const call = async ({ attempt }: { attempt: number }) => {
        await kit.pause('3s')
        if (attempt === 1) throw new Error('503')
      }
      await ctx.step('again', call, { retry: { attempts: 2, backoff: '1m', jitter: 0 } })
      await ctx.step('quick', () => undefined)
    })
    await kit.result(await kit.run(slow, { id: 's' }))
    const took: [string, string, number][] = []
    const head = (await kit.rp.head('workflow/slow/s'))!
    for await (const { type, data } of entriesAfter(kit.rp, head, 0)) {
      const { id, ms } = data as { id: string; ms?: number }
      if (ms !== undefined) took.push([type, id, Math.round(ms / 100) / 10])
    }
    expect(took.map(([type, id, seconds]) => [type, id.split('/').at(-1), seconds])).toEqual([
      ['done', 'left', 2],
      ['done', 'right', 5],
      ['retry', 'again', 3],
      ['done', 'again', 3],
      ['done', 'quick', 0],
    ])
  })

  it('fail for good with the thrown error: name, message, code and data survive', async () => {
    const kit = kitWith()
    let calls = 0
    const bad = workflow('bad', async (ctx) => {
      await ctx.step(
        'call',
        () => {
          calls += 1
          throw Object.assign(new RangeError('too far'), { code: 'EFAR', data: { by: 3 } })
        },
        { retry: { attempts: 5, giveUpOn: ['EFAR'] } },
      )
    })
    const error = await kit.result(await kit.run(bad, { id: 'b' })).catch((thrown) => thrown)
    expect(error).toBeInstanceOf(RangeError)
    expect(error).toMatchObject({ message: 'too far', code: 'EFAR', data: { by: 3 } })
    expect(calls).toBe(1)
  })

  it('may return a thenable, as query builders do: it is awaited', async () => {
    const kit = kitWith()
    const builder = (settle: (resolve: (value: unknown) => void, reject: (error: unknown) => void) => void) => ({
      // biome-ignore lint/suspicious/noThenProperty: that is what is tried.
      then: (resolve: (value: unknown) => void, reject: (error: unknown) => void) => settle(resolve, reject),
    })
    const asked = workflow('asked', async (ctx) => {
      const row = await ctx.step('row', () => builder((resolve) => setImmediate(resolve, { id: 7 })))
      const refused = await ctx.step('none', () => builder((_, reject) => reject(new Error('no table')))).catch(String)
      const broken = await ctx
        .step('broken', () =>
          builder(() => {
            throw new Error('no connection')
          }),
        )
        .catch(String)
      return { row, refused, broken }
    })
    expect(await kit.result(await kit.run(asked, { id: 'q' }))).toEqual({
      row: { id: 7 },
      refused: 'Error: no table',
      broken: 'Error: no connection',
    })
  })

  it('that fail without being awaited end the run, not the process', async () => {
    const kit = kitWith()
    const careless = workflow('careless', async (ctx) => {
      void ctx.step('left alone', () => Promise.reject(new GiveUp('nobody looks')))
      void ctx.step('', () => 1)
      await ctx.sleep('1s')
      return await ctx.step('seen', () => 'done')
    })
    await expect(kit.result(await kit.run(careless, { id: 'c' }))).rejects.toThrow('nobody looks')
    const group = workflow('group', async (ctx) => {
      void ctx.parallel([(own) => own.step('left alone', () => Promise.reject(new GiveUp('nor here')))])
      await ctx.sleep('1s')
    })
    await expect(kit.result(await kit.run(group, { id: 'g' }))).rejects.toThrow('nor here')
  })

  it('that are in flight when the code returns are cut off: nothing of them counts or is recorded', async () => {
    const kit = kitWith()
    let isAborted = false
    const hasty = workflow('hasty', async (ctx) => {
      void ctx.step('left behind', async ({ signal }) => {
        await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }))
        isAborted = true
        throw new GiveUp('too late')
      })
      return await ctx.step('seen', () => 'done')
    })
    const run = await kit.run(hasty, { id: 'h' })
    expect(await kit.result(run)).toBe('done')
    await until(() => isAborted)
    const head = (await kit.rp.head('workflow/hasty/h'))!
    expect(head.status).toBe('completed')
    const recorded: string[] = []
    for await (const entry of entriesAfter(kit.rp, head, 0)) recorded.push(JSON.stringify(entry.data))
    expect(recorded.filter((entry) => /left behind|too late/.test(entry))).toEqual([])
  })

  it('that throw GiveUp are not called again', async () => {
    const kit = kitWith()
    let calls = 0
    const bad = workflow('bad', async (ctx) => {
      const fail = () => {
        calls += 1
        throw new GiveUp('never')
      }
      await ctx.step('call', fail, { retry: { attempts: 9 } })
    })
    await expect(kit.result(await kit.run(bad, { id: 'b' }))).rejects.toThrow('never')
    expect(calls).toBe(1)
  })

  it('time out, and their AbortSignal fires', async () => {
    const kit = kitWith()
    let aborted = 0
    const slow = workflow('slow', async (ctx) => {
      await ctx.step(
        'call',
        ({ signal }) =>
          new Promise((_, reject) => {
            signal.addEventListener('abort', () => {
              aborted += 1
              reject(signal.reason)
            })
          }),
        { timeout: '30s', retry: { attempts: 2, backoff: '1s' } },
      )
    })
    const error = await kit.result(await kit.run(slow, { id: 's' })).catch((thrown) => thrown)
    expect(isReprise(error, 'TIMEOUT')).toBe(true)
    expect(aborted).toBe(2)
  })

  it('leave details with their heartbeat that a later attempt reads, also after a crash', async () => {
    const kit = kitWith({ crashAt: [{ effect: 2, when: 'after' }] })
    const seen: unknown[] = []
    const long = workflow('long', async (ctx) => {
      return await ctx.step('copy', async ({ details, heartbeat }) => {
        seen.push(details)
        for (let at = Number(details ?? 0); at < 3; at++) {
          await kit.effect(() => at)
          await ctx.heartbeat(at + 1)
          await heartbeat()
        }
        return 'copied'
      })
    })
    expect(await kit.result(await kit.run(long, { id: 'l' }))).toBe('copied')
    expect(seen).toEqual([undefined, 1])
  })

  it('that give no heartbeat in time have failed', async () => {
    const kit = kitWith()
    const silent = workflow('silent', async (ctx) => {
      await ctx.step('call', () => new Promise(() => undefined), { heartbeatTimeout: '10s' })
    })
    const error = await kit.result(await kit.run(silent, { id: 's' })).catch((thrown) => thrown)
    expect(error.message).toContain('heartbeat')
  })

  it('whose result cannot be stored fail, with the reason', async () => {
    const kit = kitWith()
    const bad = workflow('bad', async (ctx) => {
      await ctx.step('call', () => ({ fn: () => 1 }))
    })
    const error = await kit.result(await kit.run(bad, { id: 'b' })).catch((thrown) => thrown)
    expect(isReprise(error, 'UNSERIALIZABLE')).toBe(true)
  })

  it('that fail before they are awaited do not end the process, nor the run if they are awaited later', async () => {
    const kit = kitWith()
    const unhandled: unknown[] = []
    const hear = (reason: unknown) => unhandled.push(reason)
    process.on('unhandledRejection', hear)
    const careless = workflow('careless', async (ctx) => {
      ctx.step('forgotten', () => Promise.reject(new GiveUp('nobody looks'))).catch(() => undefined)
      ctx.parallel([async () => Promise.reject(new GiveUp('nor here'))]).catch(() => undefined)
      const late = ctx.step('late', () => Promise.reject(new Error('too late')))
      const first = await ctx
        .step('first', () => Promise.reject(new Error('first')))
        .catch((error: Error) => error.message)
      await ctx.sleep('1h')
      return [first, await late.catch((error: Error) => error.message)]
    })
    expect(await kit.result(await kit.run(careless, { id: 'c' }))).toEqual(['first', 'too late'])
    await pause(10)
    process.off('unhandledRejection', hear)
    expect(unhandled).toEqual([])
  })

  it('do not nest', async () => {
    const kit = kitWith()
    const nested = workflow('nested', async (ctx) => {
      await ctx.step('outer', () => ctx.step('inner', () => 1))
    })
    await expect(kit.result(await kit.run(nested, { id: 'n' }))).rejects.toThrow('do not nest')
  })
})
