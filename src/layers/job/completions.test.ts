// Completions on their own, with a shard that reports the batches it receives.

import { describe, expect, it } from 'vitest'
import { RepriseError } from '../../core/errors.ts'
import type { Clock } from '../../core/store/ports.ts'
import { Completions } from './completions.ts'
import type { Shard } from './shard.ts'
import type { Task } from './task.ts'

const clock = { soon: (call: () => void) => void setImmediate(call) } as unknown as Clock

function setUp(refuses: (keys: readonly string[]) => Error | null = () => null) {
  const batches: string[][] = []
  const done: string[] = []
  const refused: unknown[] = []
  const shard = {
    lost: null as unknown,
    isIdle: true,
    moves: 0,
    noteMoves: () => void shard.moves++,
    recordDone: async (tasks: readonly { key: string }[]) => {
      const keys = tasks.map(({ key }) => key)
      batches.push(keys)
      await Promise.resolve()
      const error = refuses(keys)
      if (error) throw error
    },
  }
  const completions = new Completions<unknown>(clock, {
    done: (tasks) => done.push(...tasks.map(({ key }) => key)),
    refused: (task, error) => refused.push([task.key, (error as Error).message]),
  })
  const owner = shard as unknown as Shard<Task<unknown>>
  const add = (key: string, userSqls: unknown = null) =>
    completions.add({ key, userSqls, shard } as unknown as Task<unknown>)
  return { shard, owner, completions, add, batches, done, refused }
}

describe('items that completed', () => {
  it('in one moment are written in one batch, and those that come meanwhile in the next', async () => {
    const { completions, owner, shard, add, batches, done } = setUp((keys) => {
      if (keys.includes('a')) add('c')
      return null
    })
    add('a')
    add('b')
    expect(completions.isPending(owner)).toBe(true)
    await completions.settled(owner)
    expect(completions.isPending(owner)).toBe(false)
    expect(batches).toEqual([['a', 'b'], ['c']])
    expect(done).toEqual(['a', 'b', 'c'])
    expect(shard.moves).toBe(1)
  })

  it('with SQL of their own go first and apart, and one that is refused does not hold up the others', async () => {
    const cause = new Error('constraint')
    const { completions, owner, add, batches, done, refused } = setUp((keys) =>
      keys.includes('bad') ? new RepriseError('RIDER_FAILED', 'the SQL failed', {}, cause) : null,
    )
    add('plain')
    add('bad', [])
    add('good', [])
    await completions.settled(owner)
    expect(batches).toEqual([['bad', 'good'], ['bad'], ['good'], ['plain']])
    expect(done).toEqual(['good', 'plain'])
    expect(refused).toEqual([['bad', 'constraint']])
  })

  it('of a lost shard have no outcome, and no caller waits for them', async () => {
    const { completions, owner, shard, add, done, refused } = setUp(() => {
      shard.lost = new Error('fenced')
      return new Error('fenced')
    })
    add('a')
    add('b')
    await completions.settled(owner)
    expect([done, refused, completions.isPending(owner)]).toEqual([[], [], false])
  })
})
