// A LangGraph app moved over by one line: the checkpointer. Run it: npx tsx examples/langgraph-app.ts

import { AIMessage, HumanMessage } from '@langchain/core/messages'
import { MessagesAnnotation, StateGraph } from '@langchain/langgraph'
import { open } from 'reprise'
import { RepriseSaver } from 'reprise/langgraph'

export async function main(url = 'memory:') {
  const rp = await open(url)
  try {
    const checkpointer = new RepriseSaver(rp) // was: new MemorySaver()

    const graph = new StateGraph(MessagesAnnotation)
      .addNode('answer', (state) => ({ messages: [new AIMessage(`You said ${state.messages.length} things.`)] }))
      .addEdge('__start__', 'answer')
      .compile({ checkpointer })

    const config = { configurable: { thread_id: 'conversation-1' } }
    await graph.invoke({ messages: [new HumanMessage('Hello')] }, config)
    const last = await graph.invoke({ messages: [new HumanMessage('Hello again')] }, config)

    // Time travel works as before, and the tools of Reprise work on threads as on any timeline.
    const history = []
    for await (const state of graph.getStateHistory(config)) history.push(state.values.messages?.length ?? 0)
    const { faults } = await rp.verify()
    return { said: last.messages.map((message) => message.content), history, faults }
  } finally {
    await rp.close()
  }
}

if (process.argv[1]?.endsWith('langgraph-app.ts')) console.log(await main())
