// A LangGraph graph of two parallel nodes on RepriseSaver that is killed between putWrites and put, and run again.
//   node agent-graph.mjs URL FILE [kill]     FILE gets a line each time a node really works

import { appendFileSync } from 'node:fs'
import { Annotation, StateGraph } from '@langchain/langgraph'
import { RepriseSaver } from '../../lib/adapters/langgraph/index.js'
import { open } from '../../lib/index.js'

const [url, file, mode] = process.argv.slice(2)
const rp = await open(url)
const saver = new RepriseSaver(rp)
const State = Annotation.Root({ done: Annotation({ reducer: (a, b) => [...a, ...b], default: () => [] }) })

const node = (name) => () => {
  appendFileSync(file, `${name}\n`)
  return { done: [name] }
}

if (mode === 'kill') {
  const put = saver.put.bind(saver)
  let puts = 0
  saver.put = async (...args) => {
    puts += 1
    // The third put would publish what both nodes wrote; their writes are durable by now.
    if (puts === 3) {
      await new Promise((resolve) => setTimeout(resolve, 200))
      process.kill(process.pid, 'SIGKILL')
    }
    return await put(...args)
  }
}

const graph = new StateGraph(State)
  .addNode('left', node('left'))
  .addNode('right', node('right'))
  .addNode('end', node('end'))
  .addEdge('__start__', 'left')
  .addEdge('__start__', 'right')
  .addEdge(['left', 'right'], 'end')
  .compile({ checkpointer: saver })

const config = { configurable: { thread_id: 'killed' } }
const state = await graph.getState(config)
// The next step begins only when the last one is saved.
const result = await graph.invoke(state.createdAt ? null : { done: [] }, { ...config, durability: 'sync' })
console.log(JSON.stringify(result.done))
await rp.close()
