// Mail for one life of a timeline. Only the shard that holds the timeline knows whether that life is over.

import type { OutgoingMessage } from '../../core/store/ports.ts'
import type { ShardMap } from './shard-map.ts'

/** @example namesLife(commit.send) // true: a message is for one life of its receiver */
export function namesLife(send: readonly OutgoingMessage[] = []): boolean {
  return send.some(({ life }) => life !== undefined)
}

/**
 * Divides messages by whether the life of their receiver continues. A message keeps its life, so the shard of its
 * receiver checks it again in the commit. In a store that has grown, a signpost with a life of its own may exist in place of
 * the receiver: there a message loses its life, and a receiver created again just after this read gets mail of the life
 * before.
 */
export async function byReceiver(
  shardMap: ShardMap,
  send: readonly OutgoingMessage[],
): Promise<{ readonly reachable: OutgoingMessage[]; readonly lost: OutgoingMessage[] }> {
  const reachable: OutgoingMessage[] = []
  const lost: OutgoingMessage[] = []
  for (const message of send) {
    const { life, ...anyLife } = message
    const [found] = life === undefined ? [] : await shardMap.find([message.to], 'askNow')
    const isReachable = life === undefined || found?.head?.life === life
    if (isReachable) reachable.push(shardMap.hasGrown ? anyLife : message)
    else lost.push(message)
  }
  return { reachable, lost }
}
