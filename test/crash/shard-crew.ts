// Workers on a set of shards are killed while they execute steps. Afterwards each step has one outcome, however often it was
// executed, and no entry was written by a former owner.

import { expect } from 'vitest'
import { toHex } from '../../src/core/coordinate.ts'
import { isReprise } from '../../src/core/errors.ts'
import { unpackEntries } from '../../src/core/history/entry-run.ts'
import { type EntryRun, feedStart, type Store } from '../../src/core/store/ports.ts'
import { openStore } from '../../src/engine/storage/open-store.ts'
import { Child } from './support.ts'

/** Steps of one run of the program `shard-worker`, with those of its child. */
const stepsPerRun = 3

export class Crew {
  shards: readonly string[]
  kills = 0
  readonly #workers: Child[] = []
  readonly #gone: Child[] = []

  constructor(shards: readonly string[], size = 2) {
    this.shards = shards
    for (let i = 0; i < size; i++) this.#workers.push(this.#start())
  }

  async ready(): Promise<void> {
    await Promise.all(this.#workers.map((worker) => worker.until(() => worker.lines.includes('READY'))))
  }

  /** How many steps have begun. */
  get steps(): number {
    return this.#steps().length
  }

  /** Waits until this many steps have begun. Call it before the action that begins them. */
  async flow(count: number): Promise<void> {
    while (this.steps < count) await pause(20)
  }

  /** One is killed, and another started in its place. */
  async replace(index: number): Promise<void> {
    const at = index % this.#workers.length
    const gone = this.#workers[at]!
    await gone.kill()
    this.#gone.push(gone)
    this.kills += 1
    this.#workers[at] = this.#start()
  }

  async replaceAll(shards: readonly string[]): Promise<void> {
    this.shards = shards
    for (let i = 0; i < this.#workers.length; i++) await this.replace(i)
  }

  async end(): Promise<void> {
    await Promise.all(this.#workers.map((worker) => worker.kill()))
  }

  /** All steps of these runs were executed, and every reader saw the same outcome. Returns figures for the log. */
  check(runs: number): string {
    const executed = new Map<string, Set<string>>()
    const seen = new Map<string, string>()
    for (const line of this.#steps()) {
      const [, token, ...saw] = line.split(' ') as [string, string, ...string[]]
      const tokens = executed.get(keyOf(token)) ?? new Set()
      executed.set(keyOf(token), tokens.add(token))
      for (const each of saw) {
        expect(seen.get(keyOf(each)) ?? each, 'a step has one outcome').toBe(each)
        seen.set(keyOf(each), each)
      }
    }
    expect(executed.size, 'steps that were executed').toBe(runs * stepsPerRun)
    for (const [key, token] of seen) expect(executed.get(key), 'an outcome that somebody had').toContain(token)
    const repeated = [...executed.values()].reduce((sum, tokens) => sum + tokens.size - 1, 0)
    return `${this.kills} workers killed, ${runs} runs, ${executed.size} steps, ${repeated} executed again, none with two outcomes`
  }

  #start(): Child {
    return new Child('shard-worker', { shards: this.shards })
  }

  #steps(): string[] {
    return [...this.#gone, ...this.#workers].flatMap(({ lines }) => lines.filter((line) => line.startsWith('STEP ')))
  }
}

function keyOf(token: string): string {
  return token.slice(0, token.lastIndexOf('#'))
}

/** Reads the feed of a set now and then, and must have everything once. */
export class Follower {
  readonly #seen: string[] = []
  #position = feedStart

  /** Continues to read; false: a shard did not answer. */
  async read(shards: readonly string[]): Promise<boolean> {
    try {
      return await opened(shards, async (store) => {
        for (;;) {
          const page = await store.feed(this.#position, {}, 50)
          for (const { timeline, run } of page.items) this.#seen.push(nameOf(timeline, run))
          this.#position = page.next
          if (page.isEnd) return true
        }
      })
    } catch (error) {
      if (!isReprise(error, 'STORE_UNREACHABLE')) throw error
      return false
    }
  }

  /** To be called when all writers have ended. */
  async finish(shards: readonly string[]): Promise<void> {
    while (!(await this.read(shards))) await pause(100)
    const fresh = new Follower()
    await fresh.read(shards)
    const there = await opened(shards, async (store) => {
      const names: string[] = []
      for (const { timeline } of await store.timelines({ limit: 100_000 })) {
        const runs = await store.read(timeline, 0, 1e9)
        refuseStale(timeline, runs)
        names.push(...runs.map((run) => nameOf(timeline, run)))
      }
      return names.sort()
    })
    for (const seen of [this.#seen, fresh.#seen]) {
      expect(new Set(seen).size, 'nothing is seen twice').toBe(seen.length)
      expect([...seen].sort()).toEqual(there)
    }
  }
}

/** No outcome is twice in a history, and no entry has an older epoch than the one before it. */
function refuseStale(timeline: string, runs: readonly EntryRun[]): void {
  const entries = runs.flatMap((run) => unpackEntries(run))
  const epochs = entries.map(({ epoch }) => epoch)
  expect(epochs, `epochs of ${timeline}`).toEqual([...epochs].sort((a, b) => a - b))
  const kind = /^workflow\/(order|rush|part)\//.exec(timeline)?.[1]
  if (kind === undefined) return
  const done = entries.filter(({ type }) => type === 'done').length
  expect(done, `outcomes of steps in ${timeline}`).toBe(kind === 'part' ? 1 : stepsPerRun - 1)
}

async function opened<T>(shards: readonly string[], call: (store: Store) => Promise<T>): Promise<T> {
  const store = await openStore(`shards:${shards.join(',')}`, { readOnly: true })
  try {
    return await call(store)
  } finally {
    await store.close()
  }
}

function nameOf(timeline: string, run: EntryRun): string {
  return `${timeline} ${run.first} ${toHex(run.digest)}`
}

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
