// One of several processes that use one LangGraph thread, or one session of the OpenAI Agents SDK, at the same time.
//   node thread-writer.mjs URL graph|session NAME COUNT     prints acknowledged and failed writes, as JSON

import { Annotation, StateGraph } from '@langchain/langgraph'
import { RepriseSaver } from '../../lib/adapters/langgraph/index.js'
import { RepriseSession } from '../../lib/adapters/openai-agents/index.js'
import { open } from '../../lib/index.js'

const [url, kind, name, count] = process.argv.slice(2)
const rp = await open(url)
const acknowledged = []
const failures = []

async function graph() {
  const saver = new RepriseSaver(rp)
  const put = saver.put.bind(saver)
  saver.put = async (...args) => {
    const made = await put(...args)
    acknowledged.push(made.configurable.checkpoint_id)
    return made
  }
  const State = Annotation.Root({ count: Annotation({ reducer: (a, b) => a + b, default: () => 0 }) })
  const made = new StateGraph(State)
    .addNode('add', () => ({ count: 1 }))
    .addEdge('__start__', 'add')
    .compile({ checkpointer: saver })
  return () => made.invoke({ count: 1 }, { configurable: { thread_id: 'shared' }, durability: 'sync' })
}

async function session() {
  const made = new RepriseSession(rp, 'shared')
  let n = 0
  return async () => {
    const text = `${name} ${n++}`
    await made.addItems([{ type: 'message', role: 'user', content: text }])
    acknowledged.push(text)
  }
}

const work = await (kind === 'graph' ? graph() : session())
process.stdout.write('ready\n')
for (let i = 0; i < Number(count); i++) {
  try {
    await work()
  } catch (error) {
    failures.push(String(error?.message ?? error))
  }
}
console.log(JSON.stringify({ acknowledged, failures }))
await rp.close()
