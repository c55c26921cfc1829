// Cursors over several shards. The whole position of a cursor is stored with its owner, in the same commit as the
// owner's entries; every other shard has a hold: a cursor of its own, never ahead of that position, which keeps its
// history from being trimmed. A hold is put before its cursor exists and removed after it is deleted.

import type { TimelineId } from '../../core/coordinate.ts'
import type { CursorRow, FeedPosition, Head, Outcome } from '../../core/store/ports.ts'
import { cursorKey, holdKey, holdsTimeline, joinPositions, plainHead, splitPosition } from '../../core/store/shards.ts'
import type { ShardMap } from './shard-map.ts'
import { shardsWorker } from './shards-worker.ts'

const attemptsMax = 30

export class Holds {
  readonly #shardMap: ShardMap

  constructor(shardMap: ShardMap) {
    this.#shardMap = shardMap
  }

  /** Null: they are put. Otherwise the owner of the name. */
  async put(name: string, owner: TimelineId, home: number, parts: readonly FeedPosition[]): Promise<string | null> {
    const done: number[] = []
    for (const shard of this.#others(home)) {
      const taken = await this.#change(shard, name, owner, parts[shard]!)
      if (taken !== null) {
        await Promise.allSettled(done.map((each) => this.#change(each, name, owner, null)))
        return taken
      }
      done.push(shard)
    }
    return null
  }

  /**
   * Called after the cursor has moved (or was deleted, with null). An unavailable shard keeps more than needed until
   * the next move.
   */
  async follow(name: string, owner: TimelineId, home: number, parts: readonly FeedPosition[] | null): Promise<void> {
    await Promise.allSettled(
      this.#others(home)
        .filter((shard) => !this.#shardMap.shards[shard]!.isAway)
        .map((shard) => this.#change(shard, name, owner, parts === null ? null : parts[shard]!)),
    )
  }

  /** For a new shard: entries that cursors have not read there are kept from the start. */
  async cover(shard: number): Promise<void> {
    const own = await this.#shardMap.shards[shard]!.ask((store) => store.cursors())
    for (const { name, owner } of await this.list()) {
      if (!own.some((row) => row.name === name)) await this.#change(shard, name, owner, '')
    }
  }

  /** True if this shard will refuse the name to this owner. */
  async isOfAnother(name: string, owner: TimelineId, shard: number): Promise<boolean> {
    const rows = await this.#shardMap.shards[shard]!.askNow((store) => store.cursors())
    const row = rows.find((one) => one.name === name)
    return row !== undefined && row.owner !== owner
  }

  /** Every cursor with its whole position. */
  async list(): Promise<CursorRow[]> {
    const { shards, count } = this.#shardMap
    const rows = await Promise.all(
      shards.map(async (shard) => {
        const all = await shard.ask((store) => store.cursors())
        const own = all.filter(({ owner }) => owner !== holdsTimeline)
        const owners = [...new Set(own.map(({ owner }) => owner))]
        const heads = owners.length > 0 ? await shard.ask((store) => store.head(owners)) : []
        const byId = new Map(owners.map((owner, i) => [owner, heads[i] ?? null]))
        return own.map((row) => ({
          ...row,
          position: wholePosition(row, byId.get(row.owner) ?? null, shard.index, count),
        }))
      }),
    )
    return rows.flat().sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0))
  }

  /** Removes holds without a cursor: their process died between the two steps. */
  async tidy(before: number): Promise<void> {
    for (const shard of this.#shardMap.shards) {
      const rows = await shard.ask((store) => store.cursors())
      const holds = rows.filter(({ owner, movedAt }) => owner === holdsTimeline && movedAt < before)
      if (holds.length === 0) continue
      const [own] = await shard.ask((store) => store.head([holdsTimeline]))
      for (const { name } of holds) {
        const owner = own?.attributes[holdKey(name)]
        if (typeof owner !== 'string') continue
        const [found] = await this.#shardMap.find([owner as TimelineId])
        if (found?.head?.attributes[cursorKey(name)] === undefined) {
          await this.#change(shard.index, name, owner as TimelineId, null)
        }
      }
    }
  }

  #others(home: number): number[] {
    return this.#shardMap.shards.map(({ index }) => index).filter((index) => index !== home)
  }

  /** Each change takes the timeline of the holds again, so that two processes that want the same name see each other. */
  async #change(shard: number, name: string, owner: TimelineId, position: FeedPosition | null): Promise<string | null> {
    const { shards, newOperation } = this.#shardMap
    for (let attempt = 0; attempt < attemptsMax; attempt++) {
      const [head] = await shards[shard]!.askNow((store) => store.head([holdsTimeline]))
      if (!head) return null
      const whose = head.attributes[holdKey(name)]
      if (whose !== undefined && whose !== owner) return position === null ? null : String(whose)
      if (whose === undefined && position === null) return null
      const [outcome] = await shards[shard]!.askNow((store) =>
        store.commit([
          {
            operation: newOperation(),
            guard: { timeline: holdsTimeline, epoch: head.epoch },
            take: { worker: shardsWorker, from: 'anyone' },
            release: true,
            cursors: { [name]: position },
            attributes: { [holdKey(name)]: position === null ? null : owner },
          },
        ]),
      )
      if (outcome!.ok) return null
      // It is ahead already: a former owner was slower than the owner.
      if (outcome!.code === 'CONFLICT' && whose === owner) return null
      if (outcome!.code === 'CONFLICT') return ownerIn(outcome!)
    }
    return null
  }
}

export function wholePosition(row: CursorRow, owner: Head | null, shard: number, count: number): FeedPosition {
  const whole = owner?.attributes[cursorKey(row.name)]
  if (typeof whole === 'string' && splitPosition(whole, count) !== null) return whole
  const parts = new Array<FeedPosition>(count).fill('')
  parts[shard] = row.position
  return joinPositions(parts)
}

function ownerIn(outcome: Extract<Outcome, { ok: false }>): string {
  return /belongs to (.+)$/.exec(outcome.reason)?.[1] ?? 'another timeline'
}

/** A refusal in the wording of the stores. */
export function cursorTaken(name: string, owner: string, head: Head | null): Outcome {
  return { ok: false, code: 'CONFLICT', reason: `cursor ${name} belongs to ${owner}`, head: head && plainHead(head) }
}
