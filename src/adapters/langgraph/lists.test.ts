import { expect, test } from 'vitest'
import { defaultLimits } from '../../core/limits.ts'
import { sha256 } from '../../engine/base/platform.ts'
import { type ThreadState, threadFold, valueId } from './fold.ts'
import { Leaves } from './leaves.ts'
import { Lists } from './lists.ts'
import { Portable } from './portable.ts'
import { prepareCheckpoint } from './put.ts'

test('a window that moves on names the leaves that it holds, not all that passed through it', () => {
  const portable = new Portable(sha256, defaultLimits)
  const lists = new Lists(portable)
  const leaves = new Leaves()
  const state: ThreadState = threadFold.initial()
  const text = (n: number) => `${n} ${'text '.repeat(40)}`
  for (let turn = 1; turn <= 100; turn++) {
    // The unchanged first element makes each list extend the previous one.
    const messages = ['the beginning', ...Array.from({ length: 20 }, (_, i) => text(turn * 20 + i))]
    const checkpoint = {
      ...{ v: 4, id: String(turn), ts: '', channel_values: { messages } },
      ...{ channel_versions: { messages: turn }, versions_seen: {} },
    }
    const parent = turn === 1 ? null : String(turn - 1)
    const metadata = { source: 'loop' as const, step: turn, parents: {} }
    const put = { state, ns: '', parent, checkpoint, metadata, newVersions: { messages: turn }, serialized: null }
    const { entry, done } = prepareCheckpoint(put, portable, lists, leaves)
    threadFold.apply(state, {
      ...{ timeline: 't' as never, seq: turn, epoch: 1, version: 1, time: 0, key: undefined },
      ...{ type: entry.type, data: entry.data },
    })
    done({ first: turn, count: 1, isDuplicate: false, sqlResult: undefined })
    const held = lists.items(state, valueId(turn, 0))
    expect(held.items).toHaveLength(21)
    const known = leaves.read(state.leaves, held.leaves)
    expect([...known.values()]).toEqual(expect.arrayContaining(messages.slice(1)))
    expect(held.leaves.length).toBeLessThan(400)
  }
})
