// A store that does not answer for a while: a job and a pipeline look at it now and then, and end no sooner than their commits
// would. A shard that a process lost to a commit without an answer is taken again by that very process.

import { expect, it } from 'vitest'
import type { Store } from '../../src/core/store/ports.ts'
import { RepriseError } from '../../src/index.ts'
import { job } from '../../src/layers/job/index.ts'
import { collectSink, generatedSource, pipeline } from '../../src/layers/pipeline/index.ts'
import { until } from '../support/fixture.ts'
import { onEveryStore } from '../support/worlds.ts'

interface Outage {
  /** The number of reads of heads that fail from now on, and of those that did. */
  looks: number
  missed: number
  /** Answers to commits of jobs that get lost from now on. */
  answers: number
}

function failing(store: Store, outage: Outage): Store {
  const away = () => new RepriseError('STORE_UNREACHABLE', 'the store is away')
  const head: Store['head'] = async (ids) => {
    if (outage.looks > 0) {
      outage.looks -= 1
      outage.missed += 1
      throw away()
    }
    return await store.head(ids)
  }
  const commit: Store['commit'] = async (commits) => {
    const answer = await store.commit(commits)
    if (outage.answers === 0 || !commits.some(({ run }) => run !== undefined)) return answer
    outage.answers -= 1
    throw away()
  }
  return new Proxy(store, {
    get(target, name) {
      if (name === 'head') return head
      if (name === 'commit') return commit
      const found: unknown = Reflect.get(target, name)
      return typeof found === 'function' ? found.bind(target) : found
    },
  })
}

onEveryStore('a store that is away', (world) => {
  it('for a shorter time than patience ends neither a job nor a pipeline', async () => {
    const w = await world()
    const outage: Outage = { looks: 0, missed: 0, answers: 0 }
    const rp = await w.engine({ ports: { store: failing(await w.store(), outage) }, patience: '1m' })
    let isOpen = false
    const gate = () => until(() => isOpen)
    const papers = job('papers', { source: [1, 2, 3], concurrency: 1, each: gate })
    const out = collectSink<number>()
    const flow = pipeline('flow', (p) => {
      p.from(
        'numbers',
        generatedSource((n) => n, { count: 3 }),
      )
        .call('wait', async (n) => {
          await gate()
          return n
        })
        .to('out', out)
    })
    const [first, second] = [await rp.run(papers).started(), await rp.run(flow).started()]
    outage.looks = 6
    await until(() => outage.looks === 0)
    isOpen = true
    expect(await first.result()).toMatchObject({ status: 'completed', done: 3 })
    expect(await second.result()).toMatchObject({ status: 'completed', records: 3 })
    expect(outage.missed).toBe(6)
  })

  it('longer than patience for one commit loses a shard, which the same process takes again', async () => {
    const w = await world()
    const outage: Outage = { looks: 0, missed: 0, answers: 0 }
    const rp = await w.engine({ ports: { store: failing(await w.store(), outage) }, patience: '50ms' })
    const seen = new Set<number>()
    const papers = job('papers', {
      source: [1, 2, 3, 4],
      concurrency: 1,
      each: (n) => {
        if (n === 2 && !seen.has(2)) outage.answers = 20
        seen.add(n)
      },
    })
    expect(await rp.run(papers).result()).toMatchObject({ status: 'completed' })
    expect(outage.answers).toBe(0)
    expect([...seen].sort()).toEqual([1, 2, 3, 4])
  })
})
