// Keys of consumers belong to the entry: its timeline, its sequence, and its content. Its position in the feed is not part of
// them, since a restored store has every entry at another position.

import { join } from 'node:path'
import { expect, it } from 'vitest'
import { timelineId } from '../../src/core/coordinate.ts'
import { intentKey } from '../../src/core/identity.ts'
import { feedStart } from '../../src/core/store/ports.ts'
import type { Reprise } from '../../src/engine/api/reprise.ts'
import { sha256 } from '../../src/engine/base/platform.ts'
import { consumer, readLetters, redriveLetters } from '../../src/layers/job/index.ts'
import { jobFold } from '../../src/layers/job/state.ts'
import { OutsideLedger } from '../../src/testing/index.ts'
import { added, counter } from '../support/definitions.ts'
import { temporaryFolder } from '../support/fixture.ts'
import { hostOf } from '../support/host.ts'
import { onEveryStore } from '../support/worlds.ts'

const folder = temporaryFolder('entry-keys')
let files = 0
const newFile = () => join(folder, `${++files}.file`)

async function add(rp: Reprise, id: string, ...numbers: readonly number[]): Promise<void> {
  const open = await rp.open(counter, id)
  for (const by of numbers) await open.append(added(by))
  await open.close()
}

/** Mails every entry, under the key of the item and under that of an effect. */
function mailer(bank: OutsideLedger) {
  return consumer('mailer', {
    from: [counter],
    follow: false,
    each: async ({ timeline, seq, data }, ctx) => {
      const mail = `${timeline}@${seq} ${JSON.stringify(data)}`
      bank.receive(ctx.idempotencyKey, mail)
      await ctx.effect('note', ({ key }) => bank.receive(key, `note of ${mail}`))
    },
  })
}

onEveryStore('keys of a consumer', (world) => {
  it('stay over a restore, wherever the entries are in the feed of the restored store', async () => {
    const bank = new OutsideLedger()
    const rp = await (await world()).engine()
    await add(rp, 'z', 1, 2)
    await add(rp, 'm', 1)
    await add(rp, 'a', 1)
    await add(rp, 'z', 3)
    await rp.rollback({ to: { timeline: 'counter/z', seq: 1 } })
    await add(rp, 'z', 2)
    const file = newFile()
    await rp.backup(file)
    await (await rp.run(mailer(bank))).result()
    expect(bank.done).toHaveLength(8)
    const restored = await (await world()).engine()
    await restored.restore(file)
    expect(await (await restored.run(mailer(bank))).result()).toMatchObject({ done: 4 })
    expect([bank.calls.length, bank.done.length]).toEqual([16, 8])
    expect([bank.confused, bank.repeated]).toEqual([[], []])
    // Where the restored store diverges from the original, the entry is another one.
    for (const [each, by] of [
      [rp, 7],
      [restored, 8],
    ] as const) {
      await add(each, 'a', by)
      await (await each.run(mailer(bank))).result()
    }
    expect([bank.done.length, bank.confused, bank.repeated]).toEqual([12, [], []])
    const copy = await (await world()).engine()
    await copy.restore(file, { copy: true })
    await (await copy.run(mailer(bank))).result()
    expect(bank.done).toHaveLength(20)
  })

  it('change with an entry that takes the place of an undone or deleted one', async () => {
    const keys: string[] = []
    const each = (_: unknown, ctx: { idempotencyKey: string }) => void keys.push(ctx.idempotencyKey)
    const reads = consumer('reads', { from: [counter], follow: false, each })
    const rp = await (await world()).engine()
    await add(rp, 'x', 1, 2)
    await (await rp.run(reads)).result()
    await rp.rollback({ to: { timeline: 'counter/x', seq: 1 }, consumed: 'force' })
    await add(rp, 'x', 2)
    await (await rp.run(reads)).result()
    await rp.delete('counter/x')
    await add(rp, 'x', 1)
    await (await rp.run(reads)).result()
    expect(new Set(keys).size).toBe(4)
  })

  it('of a letter are those of its first attempt when it is redriven', async () => {
    const keys: string[] = []
    const rp = await (await world()).engine()
    await add(rp, 'x', 1)
    const reads = consumer('reads', {
      from: [counter],
      follow: false,
      retry: { attempts: 1 },
      each: (_, ctx) => {
        keys.push(ctx.idempotencyKey)
        if (keys.length === 1) throw new Error('not now')
      },
    })
    expect(await (await rp.run(reads)).result()).toMatchObject({ failed: 1 })
    const [letter] = await readLetters(hostOf(rp), 'job/reads')
    await redriveLetters(hostOf(rp), 'job/reads', [letter!.key])
    await (await rp.run(reads)).result()
    expect(keys).toHaveLength(2)
    expect(keys[1]).toBe(keys[0])
  })

  it('stay unchanged in a consumer that started with position keys, and done work is not repeated', async () => {
    const rp = await (await world()).engine()
    await add(rp, 'x', 1)
    await add(rp, 'y', 1)
    const { kernel, openTimeline } = hostOf(rp)
    const { items } = await kernel.store.feed(feedStart, { prefixes: ['counter/'] }, 10)
    const [first, second] = items.map(({ position, timeline }) => `${position} ${timeline}@1`)
    const open = await openTimeline.call(hostOf(rp), timelineId('job/reads'), jobFold())
    const { identity } = open.origin
    // As an earlier version left it: the second entry is done, ahead of its cursor.
    await open.write(
      [
        { type: 'started', data: { round: 1, shards: 1, shard: 0, forgets: true, identity } },
        { type: 'done', data: { keys: [second] } },
      ],
      { cursors: { 'consumer/reads': feedStart } },
    )
    await open.close()
    const keys: string[] = []
    const each = (_: unknown, ctx: { idempotencyKey: string }) => void keys.push(ctx.idempotencyKey)
    await (await rp.run(consumer('reads', { from: [counter], follow: false, each }))).result()
    const parts = [first!, '']
    expect(keys).toEqual([intentKey(sha256, { identity, generation: 0, model: 'job', name: 'item', parts })])
  })
})
