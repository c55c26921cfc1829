// A real LangGraph graph for the agent suite: one node that answers, and messages that only grow. Texts are drawn from a seed,
// so that every saver stores the same bytes.

import { AIMessage, HumanMessage } from '@langchain/core/messages'
import { Annotation, messagesStateReducer, StateGraph } from '@langchain/langgraph'

const words =
  'time state entry fold order refund parcel letter answer question monday invoice ship wait check plan'.split(' ')

export function makeText(seed, bytes) {
  let state = seed * 2654435761 + 1
  let text = ''
  while (text.length < bytes) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    text += `${words[state % words.length]}${(state >>> 8).toString(36)} `
  }
  return text.slice(0, bytes)
}

/** About 1 KB per turn: a short question and a long answer. */
export const questionBytes = 124
export const answerBytes = 900
export const turnBytes = questionBytes + answerBytes

export function makeGraph(checkpointer) {
  const State = Annotation.Root({ messages: Annotation({ reducer: messagesStateReducer, default: () => [] }) })
  const answer = (state) => {
    const turn = state.messages.length
    return { messages: [new AIMessage({ id: `a${turn}`, content: makeText(turn * 2 + 1, answerBytes) })] }
  }
  return new StateGraph(State)
    .addNode('answer', answer)
    .addEdge('__start__', 'answer')
    .addEdge('answer', '__end__')
    .compile({ checkpointer })
}

export async function runTurns(graph, threadId, count, from = 0) {
  const config = { configurable: { thread_id: threadId } }
  for (let turn = from; turn < from + count; turn++) {
    await graph.invoke(
      { messages: [new HumanMessage({ id: `h${turn}`, content: makeText(turn * 2, questionBytes) })] },
      config,
    )
  }
}

/** Wraps a saver and records the time of each put. */
export function timePuts(saver) {
  const putMs = []
  const put = saver.put.bind(saver)
  saver.put = async (...args) => {
    const start = performance.now()
    const result = await put(...args)
    putMs.push(performance.now() - start)
    return result
  }
  return putMs
}

/** Messages as a graph passes them: the same objects, with one more each time; `kept`: only the last of them. */
export async function directPuts(saver, config, count, kept = count) {
  const messages = []
  let at = config
  for (let turn = 1; turn <= count; turn++) {
    messages.push({ role: 'assistant', content: makeText(turn, turnBytes) })
    const checkpoint = {
      v: 4,
      id: `00000000-0000-6000-8000-${turn.toString(16).padStart(12, '0')}`,
      ts: new Date(turn).toISOString(),
      channel_values: { messages: messages.slice(-kept) },
      channel_versions: { messages: turn },
      versions_seen: {},
    }
    at = await saver.put(at, checkpoint, { source: 'loop', step: turn, parents: {} }, { messages: turn })
  }
}
