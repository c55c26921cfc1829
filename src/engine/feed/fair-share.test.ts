import { afterEach, expect, it } from 'vitest'
import { createWorld, openMemory } from '../../stores/memory/index.ts'
import { createEngine } from '../api/open.ts'
import type { Reprise } from '../api/reprise.ts'
import { sha256 } from '../base/platform.ts'
import { hostOf } from '../host/host.ts'
import { FairShare } from './fair-share.ts'

const engines: Reprise[] = []
const teams: FairShare[] = []
afterEach(async () => {
  for (const team of teams.splice(0)) team.stop()
  for (const engine of engines.splice(0)) await engine.close()
})

function makeTeams() {
  const world = createWorld()
  return async (owned: number, partitions = 4) => {
    const engine = createEngine({ store: openMemory({ namespace: 'default', hash: sha256, world }) })
    engines.push(engine)
    await hostOf(engine).kernel.worker.register()
    const made = new FairShare(hostOf(engine).kernel, 'projection totals', partitions, () => owned)
    teams.push(made)
    return made
  }
}

it('shares evenly once the generation is live, and lets its builder take all of it before', async () => {
  const team = makeTeams()
  const [one, two] = [await team(3), await team(1)]
  expect([one.mayTake(), one.shouldGiveUp()]).toEqual([true, false])
  one.begin()
  two.begin()
  for (const engine of engines) await hostOf(engine).kernel.worker.renewNow()
  await expect.poll(() => [one.share, two.share]).toEqual([2, 2])
  expect([one.mayTake(), one.shouldGiveUp()]).toEqual([false, true])
  expect([two.mayTake(), two.shouldGiveUp()]).toEqual([true, false])
})

it('does not count a process that runs another number of partitions: it could not take its part', async () => {
  const team = makeTeams()
  const [one, two, old] = [await team(1), await team(1), await team(2, 3)]
  for (const each of [one, two, old]) each.begin()
  for (const engine of engines) await hostOf(engine).kernel.worker.renewNow()
  // The two processes with the same number of parts see each other, and by then they have seen the third as well.
  await expect.poll(() => [one.share, two.share]).toEqual([2, 2])
  expect(old.share).toBe(3)
})
