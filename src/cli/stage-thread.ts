// The program of a worker thread of a pipeline (layers/pipeline/stages): loads the module that exports the pipeline, builds the
// tasks of this thread, and connects them with the main thread and with the other worker threads.

import { fileURLToPath } from 'node:url'
import { type MessagePort, parentPort, workerData } from 'node:worker_threads'
import { RepriseError } from '../core/errors.ts'
import { draws, type PipelineDefinition } from '../layers/pipeline/definition.ts'
import type { ChannelMessage } from '../layers/pipeline/stages/channel.ts'
import {
  type FromThread,
  isStageThread,
  type ThreadSettings,
  type ToThread,
  toPlainError,
} from '../layers/pipeline/stages/messages.ts'
import { mainThread, type StagePlan } from '../layers/pipeline/stages/plan.ts'
import { ThreadTasks } from '../layers/pipeline/stages/thread-tasks.ts'
import { loadModule } from './module.ts'

interface ThreadData {
  readonly settings: ThreadSettings
  /** The ports to the other worker threads, by thread. */
  readonly ports: ReadonlyMap<number, MessagePort>
}

async function main({ settings, ports }: ThreadData): Promise<void> {
  const report = (message: FromThread) => parentPort!.postMessage(message, transferOf(message))
  Object.assign(globalThis, { [isStageThread]: true })
  try {
    const graph = (await definitionOf(settings))[draws]()
    const send = (plan: StagePlan, message: ChannelMessage) => {
      const { from, to } = message
      const thread = plan.tasks['credit' in message ? from : to]!.thread
      if (thread === mainThread) report({ kind: 'channel', message })
      else if (thread === settings.thread) tasks.receive(message)
      else ports.get(thread)!.postMessage(message, 'frame' in message ? [message.frame.buffer as ArrayBuffer] : [])
    }
    const tasks = new ThreadTasks(graph, settings, send, report)
    for (const port of ports.values()) port.on('message', (message: ChannelMessage) => tasks.receive(message))
    parentPort!.on('message', (message: ToThread) => {
      tasks.take(message)
      if (message.kind === 'stop') process.exit()
    })
    report({ kind: 'ready' })
  } catch (error) {
    report({ kind: 'failed', error: toPlainError(error) })
  }
}

async function definitionOf({ module, pipeline }: ThreadSettings): Promise<PipelineDefinition> {
  const exported = Object.values(
    (await loadModule(fileURLToPath(module))) as Record<string, Partial<PipelineDefinition>>,
  )
  const found = exported.find((each) => each?.kind === 'pipeline' && each.name === pipeline && draws in each)
  if (found) return found as PipelineDefinition
  const what = `${module} does not export the pipeline ${pipeline}: export it from the module that the option names`
  throw new RepriseError('NOT_FOUND', what, { module, pipeline })
}

function transferOf(message: FromThread): ArrayBuffer[] {
  return message.kind === 'channel' && 'frame' in message.message ? [message.message.frame.buffer as ArrayBuffer] : []
}

await main(workerData as ThreadData)
