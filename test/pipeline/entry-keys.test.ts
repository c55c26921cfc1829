// Keys of records that a pipeline reads from the feed of its store belong to the entry, not to its place in the feed: a restored
// store has the same entries in another order.

import { join } from 'node:path'
import { expect, it } from 'vitest'
import { timelineId, toHex } from '../../src/core/coordinate.ts'
import { intentKey } from '../../src/core/identity.ts'
import type { Reprise } from '../../src/engine/api/reprise.ts'
import { sha256 } from '../../src/engine/base/platform.ts'
import { StateTimeline } from '../../src/engine/writing/state-timeline.ts'
import { entrySource, pipeline, sendSink } from '../../src/layers/pipeline/index.ts'
import { added, counter } from '../support/definitions.ts'
import { temporaryFolder } from '../support/fixture.ts'
import { hostOf } from '../support/host.ts'
import { onEveryStore } from '../support/worlds.ts'

const folder = temporaryFolder('entry-keys')
let files = 0
const newFile = () => join(folder, `${++files}.file`)

async function add(rp: Reprise, id: string, by: number): Promise<void> {
  const open = await rp.open(counter, id)
  await open.append(added(by))
  await open.close()
}

/** Each entry of `by` 5 is paid, with a call before it; the others are dead letters. Two payments to one timeline are equal. */
async function paid(rp: Reprise): Promise<string[]> {
  const keys: string[] = []
  const decode = ({ timeline, data }: { timeline: string; data: unknown }) => {
    const { by } = data as { by: number }
    if (by !== 5) throw new Error('not an amount')
    return { to: timeline, cents: by }
  }
  const flow = pipeline('pay', (p) =>
    p
      .from('in', entrySource([counter], { follow: false }), { decode })
      .call('ask', async (payment, { key }) => {
        keys.push(key)
        return payment
      })
      .to(
        'out',
        sendSink(async (_, { key }) => void keys.push(key)),
      ),
  )
  await (await rp.run(flow)).result()
  return keys.sort()
}

onEveryStore('keys of entries in a pipeline', (world) => {
  it('stay over a restore, wherever the entries are in the feed of the restored store', async () => {
    const rp = await (await world()).engine()
    for (const [id, by] of [
      ['z', 5],
      ['m', 1],
      ['m', 5],
      ['a', 5],
      ['z', 5],
    ] as const)
      await add(rp, id, by)
    const file = newFile()
    await rp.backup(file)
    const keys = await paid(rp)
    expect(new Set(keys).size).toBe(8)
    const restored = await (await world()).engine()
    await restored.restore(file)
    expect(await paid(restored)).toEqual(keys)
    const copy = await (await world()).engine()
    await copy.restore(file, { copy: true })
    expect((await paid(copy)).filter((key) => keys.includes(key))).toEqual([])
  })

  it('change with an entry that takes the place of a deleted one', async () => {
    const rp = await (await world()).engine()
    const keys: string[] = []
    const flow = () =>
      pipeline('pay', (p) =>
        p
          .from('in', entrySource([counter]))
          .map(() => 'paid')
          .to(
            'out',
            sendSink(async (_, { key }) => void keys.push(key)),
          ),
      )
    await add(rp, 'x', 5)
    for (const count of [1, 2]) {
      const run = await (await rp.run(flow())).started()
      await expect.poll(() => keys.length, { timeout: 20_000 }).toBe(count)
      await run.stop()
      if (count === 2) break
      await rp.delete('counter/x')
      await add(rp, 'x', 5)
    }
    expect(keys[0]).not.toBe(keys[1])
  })

  it('stay numbers in a pipeline that began with them', async () => {
    const rp = await (await world()).engine()
    await add(rp, 'x', 5)
    const { kernel } = hostOf(rp)
    await kernel.identity.load()
    const id = timelineId('pipeline/pay')
    // As an earlier version left it, before its first checkpoint.
    const left = await StateTimeline.take(kernel, id)
    await left.release({ status: 'failed' })
    const keys: string[] = []
    const flow = pipeline('pay', (p) =>
      p.from('in', entrySource([counter], { follow: false }), { decode: () => 5 }).to(
        'out',
        sendSink(async (_, { key }) => void keys.push(key)),
      ),
    )
    await (await rp.run(flow)).result()
    const parts = ['["in",""]1', '', 'object null', 'null', toHex(sha256(kernel.codec.encode(5))), '0']
    const identity = kernel.identity.of(id, 1)
    expect(keys).toEqual([intentKey(sha256, { identity, generation: 0, model: 'pipeline', name: 'out', parts })])
  })
})
