// Long threads for tests: conversations of which a graph keeps the last few messages, made in waves so that many turns are one
// commit; and an engine that counts reads from its store.

import { threadFold } from '../../src/adapters/langgraph/fold.ts'
import type { RepriseSaver } from '../../src/adapters/langgraph/index.ts'
import type { Reprise } from '../../src/index.ts'
import { hostOf } from '../support/host.ts'
import { emptyCheckpoint } from './langgraph-names.ts'

export const at = (thread_id: string, checkpoint_id?: string) => ({
  configurable: { thread_id, checkpoint_ns: '', ...(checkpoint_id !== undefined && { checkpoint_id }) },
})
export const idOf = (turn: number) => `00000000-0000-6000-8000-${turn.toString(16).padStart(12, '0')}`
/** Does not compress to nothing. */
const textOf = (turn: number) =>
  `${turn} ${Array.from({ length: 60 }, (_, i) => (turn * 7919 + i * 104729).toString(36)).join(' ')}`

export async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = []
  for await (const item of items) found.push(item)
  return found
}

export async function talk(saver: RepriseSaver, thread: string, turns: number, kept: number, from = 0): Promise<void> {
  const wave = 50
  for (let first = from + 1; first <= from + turns; first += wave) {
    const last = Math.min(first + wave - 1, from + turns)
    const puts = Array.from({ length: last - first + 1 }, (_, i) => put(saver, thread, first + i, first - 1, kept))
    await Promise.all(puts)
  }
}

export async function put(
  saver: RepriseSaver,
  thread: string,
  turn: number,
  parent: number,
  kept: number,
): Promise<void> {
  const messages = messagesOf(turn, kept)
  const checkpoint = {
    ...{ ...emptyCheckpoint(), id: idOf(turn), ts: new Date(turn).toISOString() },
    ...{ channel_values: { messages }, channel_versions: { messages: turn } },
  }
  const config = parent === 0 ? at(thread) : at(thread, idOf(parent))
  await saver.put(config, checkpoint, { source: 'loop', step: turn, parents: {} }, { messages: turn })
}

export function messagesOf(turn: number, kept: number): { readonly text: string }[] {
  const first = Math.max(1, turn - kept + 1)
  return Array.from({ length: turn - first + 1 }, (_, i) => ({ text: textOf(first + i) }))
}

/** The state of a thread, captured at its end, as the policy would sooner or later. */
export async function capture(rp: Reprise, thread: string): Promise<void> {
  const timeline = await hostOf(rp).openTimeline(`langgraph/${thread}` as never, threadFold)
  await timeline.checkpoint()
  await timeline.close()
}

export interface Counted {
  entries: number
  bytes: number
  chunks: number
}

export function count(rp: Reprise): Counted {
  const { store } = hostOf(rp).kernel
  const counted = { entries: 0, bytes: 0, chunks: 0 }
  const { read } = store
  store.read = async (...args) => {
    const runs = await read.apply(store, args)
    for (const run of runs) {
      counted.entries += run.count
      counted.bytes += run.bytes.length
    }
    return runs
  }
  const { get } = store.blobs
  store.blobs.get = async (digests) => {
    const chunks = await get.call(store.blobs, digests)
    for (const chunk of chunks) counted.bytes += chunk?.length ?? 0
    counted.chunks += chunks.length
    return chunks
  }
  return counted
}
