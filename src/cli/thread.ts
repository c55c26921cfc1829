// One of the threads of `reprise run FILE --threads N`. It shares only the store with the others: it has its own engine, its
// own copy of the module, and its share of the pipeline's tasks, like a separate process.

import { parentPort, workerData } from 'node:worker_threads'
import { hostOf } from '../engine/host/host.ts'
import { type PipelineDefinition, shares } from '../layers/pipeline/definition.ts'
import { problemWords } from './action-report.ts'
import { pick } from './commands/run.ts'
import { grace, inHand } from './interrupt.ts'
import { loadModule } from './module.ts'
import { openEngine } from './store.ts'
import type { ThreadCommand, ThreadMessage, ThreadOf } from './threads.ts'

const reportEveryMs = 500
/** Shorter work is not shown. */
const shownAfterMs = 2000

async function main({ file, name, number, store, options }: ThreadOf): Promise<void> {
  const send = (message: ThreadMessage) => parentPort!.postMessage(message)
  const engine = await openEngine({ ...store, worker: `thread ${number}` })
  engine.events.on('problem', ({ where, error }) => send({ problem: problemWords(where, error) }))
  const definition = pick(await loadModule(file), name, file) as unknown as PipelineDefinition
  const tasks = definition[shares](hostOf(engine), options)
  const reportProgress = () => send({ status: tasks.status, waits: inHand(engine, shownAfterMs) })
  const reporting = setInterval(reportProgress, reportEveryMs)
  // On a stop request, or when all is done: each task that runs here ends with a savepoint.
  const stopRequested = new Promise<void>((resolve) => {
    parentPort!.on('message', (command: ThreadCommand) => {
      if (command === 'stop') return resolve()
      void Promise.resolve(hostOf(engine).kernel.store.close()).finally(() => process.exit())
    })
  })
  await Promise.race([tasks.ended.wait(), stopRequested])
  await engine.close({ grace })
  clearInterval(reporting)
  reportProgress()
  // A source that still lists its partitions, or connects to unavailable brokers, would keep the thread alive.
  process.exit()
}

await main(workerData as ThreadOf)
