// The agent whose sessions the benches run: an answer of 900 bytes per turn, or a number of payments that can be undone.

import { agent, tool } from '../../dist/layers/agent/index.js'
import { hostOf } from '../../test/support/host.mjs'
import { answerBytes, makeText } from './graph.mjs'

export function makeAgent(effects) {
  return agent('bench', {
    model: ({ messages }) => {
      const last = messages.at(-1)
      if (last.role === 'tool') return { content: 'done' }
      const requests = Array.from({ length: last.content === 'plain' ? 0 : effects }, (_, i) => ({
        tool: 'pay',
        args: { i },
      }))
      return { content: makeText(messages.length, answerBytes), requests }
    },
    tools: { pay: tool({ kind: 'compensatable', run: (_args, { key }) => ({ key }), compensate: () => null }) },
  })
}

/** Counts the bytes that the commits of a session write: history, manifests and new chunks. */
export function countBytes(rp) {
  const counted = { bytes: 0, checkpoints: 0 }
  const { store } = hostOf(rp).kernel
  const commit = store.commit.bind(store)
  store.commit = (commits) => {
    for (const { run, publish = [] } of commits) {
      counted.bytes += run?.bytes.length ?? 0
      for (const { body, addedBytes } of publish) counted.bytes += body.length + addedBytes
      counted.checkpoints += publish.length
    }
    return commit(commits)
  }
  return counted
}

/** Counts the reads of history and chunks. */
export function countReads(rp) {
  const counted = { bytes: 0 }
  const { store } = hostOf(rp).kernel
  const read = store.read.bind(store)
  store.read = async (...args) => {
    const runs = await read(...args)
    for (const { bytes } of runs) counted.bytes += bytes.length
    return runs
  }
  const get = store.blobs.get.bind(store.blobs)
  store.blobs.get = async (digests) => {
    const chunks = await get(digests)
    for (const chunk of chunks) counted.bytes += chunk?.length ?? 0
    return chunks
  }
  return counted
}
