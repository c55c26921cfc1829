// Dead letters and endings on a store in memory: the status of a shard that was left, and requests of people to it.

import { afterEach, expect, it } from 'vitest'
import { timelineId } from '../../core/coordinate.ts'
import { open } from '../../engine/api/open.ts'
import { type Host, hostOf } from '../../engine/host/host.ts'
import { entry } from './entries.ts'
import { discardLetters, readLetters, redriveLetters, stopJob } from './letters.ts'
import { finishShard, leaveShard } from './round-end.ts'
import { Shard, type ShardItem } from './shard.ts'
import { jobFold } from './state.ts'

const id = 'job/j'
const engines: Host[] = []

async function shardWith(keys: readonly string[]) {
  const engine = hostOf(await open('memory:'))
  engines.push(engine)
  const timeline = await engine.openTimeline(timelineId(id), jobFold())
  const shard = new Shard<ShardItem>(
    engine.kernel,
    timeline,
    0,
    { keepsResults: false, cursorName: null },
    () => undefined,
  )
  await shard.write([entry('started', { round: 1, shards: 1, shard: 0 })])
  const error = { name: 'Error', message: 'no' }
  for (const key of keys)
    await shard.write([entry('dead', { key, attempts: 3, error, item: { of: key }, hasItem: true })])
  return { engine, shard }
}

afterEach(async () => {
  for (const engine of engines.splice(0)) await engine.close()
})

it('are read, redriven with an edit, and discarded, for a shard without a worker', async () => {
  const { engine, shard } = await shardWith(['a', 'b', 'c'])
  await leaveShard(engine.kernel, shard, 'asked to')
  await shard.open.close()
  expect((await readLetters(engine, id)).map(({ key, item }) => [key, item])).toEqual([
    ['a', { of: 'a' }],
    ['b', { of: 'b' }],
    ['c', { of: 'c' }],
  ])
  await redriveLetters(engine, id, ['a', 'unknown'], { a: 'another' })
  await discardLetters(engine, id, ['b'])
  expect((await readLetters(engine, id)).map(({ key }) => key)).toEqual(['c'])
  const again = await engine.openTimeline(timelineId(id), jobFold())
  expect([...again.state.redrive.entries()]).toEqual([['a', { item: 'another', hasItem: true }]])
  expect((await engine.head(id))?.attributes.dead).toBe(1)
  await again.close()
})

it('wait as mail for a shard with an active worker, and so do requests to stop', async () => {
  const { engine, shard } = await shardWith(['a'])
  await redriveLetters(engine, id, ['a'])
  await stopJob(engine, id, 'enough')
  expect(shard.state.dead.size).toBe(1)
  expect((await shard.open.inbox()).map(({ kind }) => kind)).toEqual(['job.redrive', 'job.stop'])
  await shard.open.close()
})

it('a left or finished shard records that in history, in its head, and with a checkpoint', async () => {
  const { engine, shard } = await shardWith(['a'])
  await leaveShard(engine.kernel, shard, 'a reason')
  expect(shard.state.status).toBe('stopped')
  expect(await engine.head(id)).toMatchObject({ status: 'stopped', attributes: { dead: 1, round: 1 } })
  await shard.write([entry('started', { round: 1, shards: 1, shard: 0 })])
  await finishShard(engine.kernel, shard, 2, false)
  expect(shard.state).toMatchObject({ status: 'completed', cursor: null })
  const head = await engine.head(id)
  expect(head).toMatchObject({ status: 'completed', wakeup: null })
  expect(await engine.catalogOf(timelineId(id))).not.toEqual([])
  await shard.open.close()
})
