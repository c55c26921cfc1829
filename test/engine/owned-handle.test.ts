// One timeline, several processes, both handles that are written in turns: despite deaths, closes and takeovers at any moment,
// every acknowledged write is in history once, a read never shows less than was acknowledged before it, and all handles agree
// in the end.

import { expect, it } from 'vitest'
import { timelineId } from '../../src/core/coordinate.ts'
import { unpackEntries } from '../../src/core/history/entry-run.ts'
import type { Reprise } from '../../src/engine/api/reprise.ts'
import { SharedTimeline } from '../../src/engine/host/shared-timeline.ts'
import { mortal } from '../entities/support.ts'
import { added, counter } from '../support/definitions.ts'
import { hostOf } from '../support/host.ts'
import { seeded } from '../support/seeded.ts'
import { onEveryStore, type World } from '../support/worlds.ts'

const id = 'x'
const timeline = timelineId(`counter/${id}`)

interface Handle {
  write(key: string): Promise<unknown>
  total(): Promise<number>
  checkpoint(): Promise<unknown>
  close(): Promise<void>
}

/** As adapters of other frameworks hold it. */
function adapterHandle(engine: Reprise): Handle {
  const shared = new SharedTimeline(hostOf(engine), timeline, counter.fold)
  return {
    write: (key) => shared.write(() => ({ entry: { type: 'added', data: { by: 1 }, key }, done: () => undefined })),
    total: async () => (await shared.look((state) => state.total)) ?? 0,
    checkpoint: () => shared.checkpoint('test'),
    close: () => shared.close(),
  }
}

/** As users hold it. */
async function sharedHandle(engine: Reprise): Promise<Handle> {
  const open = await engine.open(counter, id, { shared: true })
  return {
    write: (key) => open.append(added(1), { key }),
    total: async () => (await open.refresh()).total,
    checkpoint: () => open.checkpoint(),
    close: () => open.close(),
  }
}

class Process {
  readonly world: World
  readonly chance: () => number
  isDead = false
  engine!: Reprise
  handle!: Handle

  constructor(world: World, chance: () => number) {
    this.world = world
    this.chance = chance
  }

  /** It dies at a random commit, before the store has it or before the answer arrives. */
  async start(): Promise<this> {
    this.isDead = false
    const last = 3 + Math.floor(this.chance() * 25)
    const end = this.chance() < 0.5 ? 'before' : 'after'
    const { engine } = await mortal(this.world, (commit) => {
      this.isDead = commit >= last
      return this.isDead ? end : 'live'
    })
    this.engine = engine
    await this.open()
    return this
  }

  async open(): Promise<void> {
    this.handle = this.chance() < 0.5 ? adapterHandle(this.engine) : await sharedHandle(this.engine)
  }
}

async function play(world: World, seed: number): Promise<void> {
  const chance = seeded(seed)
  const watcher = await world.engine()
  const processes = [await new Process(world, chance).start(), await new Process(world, chance).start()]
  const [acknowledged, unknown] = [new Set<string>(), new Set<string>()]
  let count = 0
  for (let step = 0; step < 40; step++) {
    const process = processes[Math.floor(chance() * processes.length)]!
    const { handle } = process
    const what = chance()
    const known = acknowledged.size
    const act = async () => {
      if (what < 0.6) {
        const keys = Array.from({ length: 1 + Math.floor(chance() * 3) }, () => `k${count++}`)
        const write = (key: string) =>
          handle.write(key).then(
            () => acknowledged.add(key),
            () => unknown.add(key),
          )
        await Promise.all(keys.map(write))
      } else if (what < 0.8) expect(await handle.total()).toBeGreaterThanOrEqual(known)
      else if (what < 0.9) await handle.checkpoint()
      else {
        await handle.close()
        await process.open()
      }
    }
    await act().catch((error: unknown) => {
      if (!process.isDead) throw error
    })
    if (!process.isDead) continue
    const { registered } = hostOf(process.engine).kernel.worker
    if (registered) await hostOf(watcher).kernel.store.retire([registered])
    await process.start()
  }
  const handles = [adapterHandle(watcher), await sharedHandle(await world.engine())]
  const totals = await Promise.all(handles.map((handle) => handle.total()))
  const runs = await hostOf(watcher).kernel.store.read(timeline, 0, 1e9)
  const keys = runs.flatMap((run) => unpackEntries(run)).flatMap(({ key }) => key ?? [])
  expect(new Set(keys).size).toBe(keys.length)
  expect([...acknowledged].filter((key) => !keys.includes(key))).toEqual([])
  expect(keys.filter((key) => !acknowledged.has(key) && !unknown.has(key))).toEqual([])
  expect(totals).toEqual([keys.length, keys.length])
  // A closed handle releases the timeline, and it can be written at once.
  await handles[0]!.write('last')
  await handles[0]!.close()
  expect((await watcher.head(timeline))?.owner).toBeNull()
  await handles[1]!.write('very last')
  expect(await handles[0]!.total()).toBe(keys.length + 2)
}

onEveryStore(
  'an owned handle',
  (world) => {
    for (let seed = 1; seed <= 8; seed++) {
      it(`loses nothing and repeats nothing (seed ${seed})`, async () => await play(await world(), seed))
    }
  },
  ['memory'],
)
