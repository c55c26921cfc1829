// The shares and rates of the tasks of a run on several threads, over the same span as those of its parts.

import type { FlowTask } from '../../../engine/model/flow-metrics.ts'
import type { TaskCounts } from '../stages/messages.ts'
import { mainThread, type StagePlan } from '../stages/plan.ts'

export interface TaskSample {
  readonly elapsedMs: number
  readonly tasks?: readonly TaskCounts[]
}

export function taskRates(plan: Pick<StagePlan, 'tasks' | 'stages'>, before: TaskSample, now: TaskSample): FlowTask[] {
  const spanMs = Math.max(0, now.elapsedMs - before.elapsedMs)
  const share = (ms: number) => (spanMs > 0 ? Math.min(1, ms / spanMs) : 0)
  const countsIn = ({ tasks = [] }: TaskSample, task: number) => tasks.find((each) => each.task === task) ?? none
  return plan.tasks.map(({ task, stage, thread, name, from }): FlowTask => {
    const [was, is] = [countsIn(before, task), countsIn(now, task)]
    const view = plan.stages.find((each) => each.stage === stage && isMain(each.threads[0]!) === isMain(thread))
    const watermarks = is.parts.flatMap(({ watermark }) => watermark ?? [])
    const busy = share(is.busyMs - was.busyMs)
    const backpressured = Math.min(1 - busy, share(is.blockedMs - was.blockedMs))
    return {
      ...{ name, parts: view?.parts ?? [], why: view?.why ?? 'dead letters of all tasks are kept here' },
      ...{ records: is.records, waitingChannels: is.waitingChannels, channels: from.length },
      perSecond: spanMs > 0 ? ((is.records - was.records) * 1000) / spanMs : 0,
      ...{ busy, backpressured, idle: Math.max(0, 1 - busy - backpressured) },
      aligning: share(is.alignedMs - was.alignedMs),
      watermark: watermarks.length > 0 ? Math.min(...watermarks) : null,
    }
  })
}

const none: Omit<TaskCounts, 'task'> = {
  ...{ records: 0, busyMs: 0, blockedMs: 0, alignedMs: 0, waitingChannels: 0, parts: [] },
}

function isMain(thread: number): boolean {
  return thread === mainThread
}
