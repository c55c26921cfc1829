// The agent that benches run sessions of: an answer of 900 bytes a turn, or a number of payments that can be undone.

import { agent, tool } from '../../dist/layers/agent/index.js'
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

/** Counts what a session's commits write: history, manifests and the chunks that they add. */
export function countBytes(rp) {
  const counted = { bytes: 0, checkpoints: 0 }
  const { store } = rp.kernel
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
