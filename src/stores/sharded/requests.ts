// The requests of applications (core/store/requests.ts) in a set of shards. A transaction is in one database, so its requests are
// in the table of that shard, whichever shard they are for; the number of a request names its shard. carry-over.ts carries out
// a request of one shard on another.

import { RepriseError } from '../../core/errors.ts'
import type {
  ExecuteStatement,
  NewRequest,
  RequestBox,
  RequestClaim,
  RequestPlace,
  RequestQuery,
  RequestRow,
} from '../../core/store/ports.ts'
import { numberIn, numberOn, shardOfRequest } from '../../core/store/shards.ts'
import type { OpenShards } from './open-shards.ts'
import type { Shard } from './shard.ts'

interface Placed extends RequestPlace {
  readonly box: RequestBox
  readonly shard: number
}

/** Null: a shard has no requests, or the shards are of different kinds. */
export function requestsOf(set: OpenShards): RequestBox | null {
  const stores = set.shardMap.shards.flatMap(({ store }) => store ?? [])
  const [first] = stores
  const dialect = first?.requests?.dialect
  if (!dialect || stores.some(({ requests }) => requests?.dialect !== dialect)) return null
  return new ShardedRequests(set, dialect)
}

class ShardedRequests implements RequestBox {
  readonly dialect: 'postgres' | 'sqlite'
  readonly #set: OpenShards
  #isIdentified = false

  constructor(set: OpenShards, dialect: 'postgres' | 'sqlite') {
    this.#set = set
    this.dialect = dialect
  }

  /** A set is in several places. */
  async place(isFresh: boolean, execute?: ExecuteStatement): Promise<RequestPlace> {
    return await this.#set.shardMap.shards[0]!.ask((store) => boxOf(store).place(isFresh, execute))
  }

  async enlist(request: NewRequest, execute: ExecuteStatement) {
    this.#set.check()
    for (const isFresh of [false, true]) {
      const placed = await this.#set.everywhere(async (store, { index: shard }): Promise<Placed> => {
        const box = boxOf(store)
        return { ...(await box.place(isFresh)), box, shard }
      })
      const [first, ...others] = await placesHere(placed, execute)
      if (!first) continue
      const names = [first, ...others].map(({ name }) => name)
      const written = await first.box.enlist(request, execute, names)
      if (!written) continue
      const { shard } = [first, ...others].find(({ name }) => name === written.place)!
      return { number: numberOn(shard, written.number), place: written.place }
    }
    return null
  }

  async take(claim: RequestClaim): Promise<RequestRow[]> {
    this.#set.check()
    if (!this.#isIdentified) await this.#identify()
    const taken = await this.#set.everywhere(async (store, { index }) => {
      const except = claim.except.filter((number) => shardOfRequest(number) === index).map(numberIn)
      return (await boxOf(store).take({ ...claim, except })).map((row) => rowOn(index, row))
    })
    return taken.flat()
  }

  async release(numbers: readonly number[]): Promise<void> {
    this.#set.check()
    for (const shard of this.#set.shardMap.shards) {
      const own = numbers.filter((number) => shardOfRequest(number) === shard.index).map(numberIn)
      if (own.length > 0) await shard.ask((store) => boxOf(store).release(own))
    }
  }

  async list({ number, limit, ...query }: RequestQuery): Promise<RequestRow[]> {
    this.#set.check()
    const { shards } = this.#set.shardMap
    const named = number === undefined ? shards : shards.filter(({ index }) => index === shardOfRequest(number))
    const local = number === undefined ? {} : { number: numberIn(number) }
    const lists = await Promise.all(
      named.map(async (shard) => {
        const rows = await shard.ask((store) => boxOf(store).list({ ...query, ...local, limit }))
        return rows.map((row) => rowOn(shard.index, row))
      }),
    )
    const rows = lists.flat().sort((a, b) => a.number - b.number)
    return rows.slice(0, Math.max(0, limit))
  }

  /** On the first shard: workers carry them out on the shards where they belong. */
  async fill(requests: readonly RequestRow[]): Promise<void> {
    await this.#set.shardMap.shards[0]!.ask((store) => boxOf(store).fill(requests))
  }

  async mark(number: number, as: Parameters<RequestBox['mark']>[1]): Promise<void> {
    this.#set.check()
    await this.#set.shardMap.shard(shardOfRequest(number)).ask((store) => boxOf(store).mark(numberIn(number), as))
  }

  /**
   * A shard that was added, or was unavailable when the identity changed, refuses requests until it has the identity of the set.
   */
  async #identify(): Promise<void> {
    const [first, ...others] = this.#set.shardMap.shards as [Shard, ...Shard[]]
    if ([first, ...others].some((shard) => shard.isAway)) return
    const found = await first.askNow((store) => store.identity())
    if (found === null) return
    for (const shard of others) {
      if ((await shard.askNow((store) => store.identity())) !== found) {
        await shard.askNow((store) => store.identity(found, true))
      }
    }
    this.#isIdentified = true
  }
}

/**
 * The places with which one statement writes the request. Shards with other table names (schemas) need another statement, so the
 * place of the transaction is read first.
 */
async function placesHere(placed: readonly Placed[], execute: ExecuteStatement): Promise<readonly Placed[]> {
  const [first] = placed
  if (!first || placed.every(({ table }) => table === first.table)) return placed
  const { name } = await first.box.place(false, execute)
  const here = placed.find((each) => each.name === name)
  return here ? [here] : []
}

function boxOf({ requests }: { readonly requests: RequestBox | null }): RequestBox {
  if (requests) return requests
  throw new RepriseError('STORE_UNSUPPORTED', 'a shard of this kind does not store requests of applications')
}

function rowOn(shard: number, row: RequestRow): RequestRow {
  return { ...row, number: numberOn(shard, row.number), group: `${shard} ${row.group}` }
}
