// Carries out a request of one shard with a commit on another. The commit leaves a mark beside the timeline that it writes; then
// the request is removed from its own shard, and the mark after it. A process that is killed in between leaves the request and
// the mark: the next process that takes the request finds the mark, and removes both without a second commit.
//
// The mark is read before the request. A request that is still there after a missing mark was not carried out before the caller
// read the life of its timeline, so a commit of another process since then has used that life, and this one is refused.

import type { MessageId } from '../../core/coordinate.ts'
import type { Commit, Head, Outcome } from '../../core/store/ports.ts'
import { marksTimeline, numberIn, plainHead, shardOfRequest } from '../../core/store/shards.ts'
import { making } from './membership.ts'
import type { ShardMap } from './shard-map.ts'

const marksAtOnce = 1000

interface Carried {
  readonly commit: Commit
  readonly after: () => Promise<void>
}

/** `commit`: for `shard`, without the request. `head`: of the timeline that it writes; null: it does not exist. */
export async function carryOver(
  shardMap: ShardMap,
  shard: number,
  commit: Commit,
  request: number,
  head: Head | null,
): Promise<Carried | { readonly refusal: Outcome }> {
  const marks = new Marks(shardMap, shard)
  const mark = markOf(request)
  const found = await marks.list()
  const isCarriedOut = found.includes(mark)
  const [oldest] = found
  // A process was killed before it removed its mark.
  if (oldest !== undefined && oldest !== mark && !(await hasRequest(shardMap, requestOf(oldest)))) {
    await marks.remove(oldest)
  }
  // The answer to this very commit was lost: it returns its success again.
  const isRepeated = head?.operation === commit.operation
  if (!isRepeated && (isCarriedOut || !(await hasRequest(shardMap, request)))) {
    if (isCarriedOut) await remove(shardMap, request)
    if (isCarriedOut) await marks.remove(mark)
    const reason = `request ${request} was carried out or removed`
    return { refusal: { ok: false, code: 'CONFLICT', reason, head: head && plainHead(head) } }
  }
  return {
    commit: {
      ...commit,
      send: [...(commit.send ?? []), { id: mark, to: marksTimeline, kind: '$done', data: nothing }],
    },
    after: async () => {
      // If this fails, the request is taken again, and its mark is found.
      await remove(shardMap, request)
        .then(() => marks.remove(mark))
        .catch(() => undefined)
    },
  }
}

const nothing = new Uint8Array()

/** The marks on one shard. */
class Marks {
  readonly #shardMap: ShardMap
  readonly #shard: number

  constructor(shardMap: ShardMap, shard: number) {
    this.#shardMap = shardMap
    this.#shard = shard
  }

  async list(): Promise<MessageId[]> {
    for (let limit = marksAtOnce; ; limit *= 2) {
      const { messages } = await this.#shardMap.shard(this.#shard).askNow((store) => store.inbox(marksTimeline, limit))
      if (messages.length < limit) return messages.map(({ id }) => id)
    }
  }

  async remove(mark: MessageId): Promise<void> {
    const { newOperation } = this.#shardMap
    const shard = this.#shardMap.shard(this.#shard)
    const read = async () => (await shard.askNow((store) => store.head([marksTimeline])))[0]
    const known = await read()
    if (!known) await shard.askNow((store) => store.commit([making(newOperation(), marksTimeline)]))
    const guard = { timeline: marksTimeline, epoch: (known ?? (await read()))!.epoch }
    // Refused: another process has removed it.
    await shard.askNow((store) => store.commit([{ operation: newOperation(), guard, consume: [mark] }]))
  }
}

async function hasRequest(shardMap: ShardMap, number: number): Promise<boolean> {
  const query = { number: numberIn(number), limit: 1 }
  const rows = await shardMap.shard(shardOfRequest(number)).askNow((store) => store.requests?.list(query) ?? [])
  return rows.length > 0
}

async function remove(shardMap: ShardMap, number: number): Promise<void> {
  const shard = shardMap.shard(shardOfRequest(number))
  await shard.askNow((store) => store.requests?.mark(numberIn(number), 'removed'))
}

function markOf(request: number): MessageId {
  return `request ${request}` as MessageId
}

function requestOf(mark: MessageId): number {
  return Number(mark.split(' ')[1])
}
