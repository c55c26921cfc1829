// An event that today's code cannot read (its upcaster throws, its data has another shape) is poison for its readers, like a
// record that a handler throws on: set aside with its place, the events around it are processed, and it can be sent back.

import { expect, it } from 'vitest'
import { timelineId } from '../../src/core/coordinate.ts'
import type { Fold } from '../../src/engine/model/definition.ts'
import { isReprise, type Reprise } from '../../src/index.ts'
import { aggregate, projection } from '../../src/layers/events/index.ts'
import { consumer, readLetters, redriveLetters } from '../../src/layers/job/index.ts'
import { collectSink, entrySource, pipeline, type Source } from '../../src/layers/pipeline/index.ts'
import { hostOf } from '../support/host.ts'
import { onEveryStore } from '../support/worlds.ts'
import { until } from './support.ts'

const before = aggregate('account', {
  initial: () => 0,
  evolve: { paid: (sum, e: { amount: number }) => sum + e.amount },
  decide: { pay: (_s, c: { amount: number }) => ({ type: 'paid', amount: c.amount }) },
})

let isMended = false
const account = aggregate('account', {
  initial: () => 0,
  evolve: { deposited: (sum, e: { cents: number }) => sum + e.cents },
  decide: {},
  upcasters: {
    paid: {
      version: 1,
      from: {
        1: {
          type: 'deposited',
          version: 1,
          data: (e: unknown) => {
            const { amount } = e as { amount: number }
            if (amount === 13 && !isMended) throw new Error('unlucky')
            return { cents: amount * 100 }
          },
        },
      },
    },
  },
})

/** For a writer without a schema of events. */
const raw: Fold<number> = { version: '1', initial: () => 0, apply: () => undefined }

/** Events of two aggregates, written by the earlier code; the upcaster throws on 13. */
async function given(rp: Reprise) {
  isMended = false
  for (const [id, amounts] of [
    ['ann', [1, 13, 2]],
    ['bob', [4]],
  ] as const) {
    const open = await rp.open(before, id)
    for (const amount of amounts) await open.do('pay', { amount })
    await open.close()
  }
}

onEveryStore('unreadable events', (world) => {
  it('are dead letters of a consumer, which continues, and are done when redriven', async () => {
    const rp = await (await world()).engine()
    await given(rp)
    const seen: number[] = []
    const mailer = consumer('mailer', {
      from: [account],
      types: ['deposited'],
      follow: false,
      each: ({ event }) => void seen.push(event.cents),
    })
    const report = await rp.run(mailer).result()
    expect(report).toMatchObject({ status: 'completed', done: 3, failed: 1 })
    expect([...seen].sort()).toEqual([100, 200, 400])
    const [letter, ...others] = await readLetters(rp, 'job/mailer')
    expect(others).toEqual([])
    expect(letter).toMatchObject({
      ...{ attempts: 1, unread: true, error: { code: 'FOLD_FAILED' } },
      item: { timeline: 'events/account/ann', seq: 2, type: 'paid', data: [{ amount: 13 }] },
    })
    // Sent back too early, it is a letter again.
    await redriveLetters(rp, 'job/mailer', [letter!.key])
    await rp.run(mailer).result()
    expect(await readLetters(rp, 'job/mailer')).toMatchObject([{ key: letter!.key, unread: true }])
    isMended = true
    await redriveLetters(rp, 'job/mailer', [letter!.key])
    await rp.run(mailer).result()
    expect(await readLetters(rp, 'job/mailer')).toEqual([])
    expect([...seen].sort()).toEqual([100, 1300, 200, 400])
  })

  it('are dead letters of a pipeline, which continues, and flow when redriven', async () => {
    const w = await world()
    const rp = await w.engine()
    await given(rp)
    const out = collectSink<number>()
    const drawn = pipeline('sums', (p) => {
      p.from('events', entrySource([account]), { time: ({ time }) => time })
        .map(({ event }) => event.cents)
        .to('out', out)
    })
    const options = { checkpoint: { every: 1 } }
    const run = await rp.run(drawn, options).started()
    await until(() => out.values.length === 3)
    expect([...out.values].sort()).toEqual([100, 200, 400])
    expect(await run.deadLetters()).toMatchObject([
      {
        operator: 'events',
        value: { timeline: 'events/account/ann', seq: 2, type: 'paid', data: [{ amount: 13 }] },
        error: expect.stringMatching(/upcaster of paid from version 1 threw.*unlucky/),
      },
    ])
    await run.stop()
    // The letter outlives the process.
    const again = await rp.run(drawn, options).started()
    expect(await again.redrive()).toBe(1)
    await until(async () => (await again.deadLetters()).length === 1)
    isMended = true
    expect(await again.redrive()).toBe(1)
    await until(() => out.values.length === 4)
    expect([...out.values].sort()).toEqual([100, 1300, 200, 400])
    expect((await again.stop()).deadLetters).toBe(0)
  })

  it('are poison of a projection, by its policy', async () => {
    const rp = await (await world()).engine()
    await given(rp)
    const sums = (name: string, poison: 'stop' | 'quarantine') =>
      projection(name, {
        ...{ from: [account], poison, initial: () => ({ sum: 0 }) },
        on: { deposited: (s, e) => ({ sum: s.sum + e.cents }) },
      })
    const lenient = await rp.open(sums('lenient', 'quarantine'))
    expect(await lenient.catchUp()).toEqual({ sum: 700 })
    expect(await lenient.deadLetters()).toMatchObject([{ timeline: 'events/account/ann', seq: 2, type: 'deposited' }])
    const strict = await rp.open(sums('strict', 'stop'))
    await expect(strict.catchUp()).rejects.toThrow('upcaster of paid')
    isMended = true
    strict.resume()
    expect(await strict.catchUp()).toEqual({ sum: 2000 })
  })

  it('of another shape are letters too, and a version without a path stops the whole reader', async () => {
    const rp = await (await world()).engine()
    await given(rp)
    isMended = true
    const open = await hostOf(rp).openTimeline(timelineId('events/account/cid'), raw)
    await open.write([{ type: 'paid', data: 7 }])
    await open.close()
    const seen: number[] = []
    const mailer = consumer('mailer', {
      ...{ from: [account], follow: false },
      each: ({ event }) => void seen.push(event.cents),
    })
    expect(await rp.run(mailer).result()).toMatchObject({ done: 4, failed: 1 })
    expect(await readLetters(rp, 'job/mailer')).toMatchObject([
      { unread: true, item: { timeline: 'events/account/cid' } },
    ])
    const older = aggregate('account', {
      ...{ initial: () => 0, decide: {}, evolve: { paid: (n: number) => n } },
      upcasters: { paid: { version: 3, from: { 2: (e: unknown) => e } } },
    })
    const stops = (error: unknown) => isReprise(error, 'UPCAST_MISSING')
    const blind = consumer('blind', { from: [older], follow: false, each: () => undefined })
    expect(
      stops(
        await rp
          .run(blind)
          .result()
          .catch((error) => error),
      ),
    ).toBe(true)
    const drawn = pipeline('blind', (p) => {
      p.from('events', entrySource([older], { follow: false }) as Source<unknown>).to('out', collectSink())
    })
    expect(
      stops(
        await rp
          .run(drawn, {})
          .result()
          .catch((error) => error),
      ),
    ).toBe(true)
  })
})
