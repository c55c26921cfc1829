// The check before a deploy: replays the current code over every open run and over recorded histories. It changes
// nothing, and reports each run that would diverge, with the step.

import { timelineId } from '../../../core/coordinate.ts'
import { isReprise } from '../../../core/errors.ts'
import { checkList, checkOptions, namesOf } from '../../../core/options.ts'
import type { Head } from '../../../core/store/ports.ts'
import { hostOf as engineHostOf, type Host } from '../../../engine/host/host.ts'
import type { Engine } from '../../../engine/model/definition.ts'
import type { AnyWorkflow } from '../context.ts'
import { workflowFold } from '../history/fold.ts'
import type { RunState } from '../history/state.ts'
import { hostOf } from '../host.ts'
import { endings, nameOf } from '../names.ts'
import { type RecordedHistory, stateOf } from './export.ts'
import { replayAside } from './replay.ts'

export interface CheckOptions {
  /** Exported histories to replay as well. */
  readonly histories?: readonly RecordedHistory[]
  /** Check ended runs too: a code change must not change them either. */
  readonly ended?: boolean
  readonly limit?: number
}

const known = namesOf<CheckOptions>()('histories ended limit')

export interface CheckedRun {
  readonly timeline: string
  readonly ok: boolean
  /** The step at which code and history differ; absent if they differ elsewhere. */
  readonly step: string | null
  readonly problem: string | null
}

export interface CheckReport {
  readonly ok: boolean
  readonly checked: number
  readonly diverging: readonly CheckedRun[]
  /** Open runs of workflows that were not passed. */
  readonly unknown: readonly string[]
}

/** @example const report = await checkDefinitions(rp, [checkout], {}) */
export async function checkDefinitions(
  rp: Engine,
  definitions: readonly AnyWorkflow[],
  options: CheckOptions = {},
): Promise<CheckReport> {
  checkOptions('check', options, known)
  const engine = engineHostOf(rp)
  checkList('the definitions to check', definitions)
  const byName = new Map(definitions.map((definition) => [definition.name, definition]))
  const diverging: CheckedRun[] = []
  const unknown: string[] = []
  let checked = 0
  const check = async (timeline: string, read: () => Promise<RunState>) => {
    const definition = byName.get(nameOf(timeline))
    if (!definition) return void unknown.push(timeline)
    checked += 1
    const result = await checkRun(engine, definition, timeline, read)
    if (!result.ok) diverging.push(result)
  }
  for await (const head of runsOf(engine, options)) {
    await check(head.timeline, async () => (await engine.recover(head, workflowFold)).state.value)
  }
  for (const history of options.histories ?? []) await check(history.timeline, async () => stateOf(engine, history))
  return { ok: diverging.length === 0, checked, diverging, unknown }
}

async function checkRun(
  engine: Host,
  definition: AnyWorkflow,
  timeline: string,
  read: () => Promise<RunState>,
): Promise<CheckedRun> {
  try {
    const { divergence } = await replayAside(hostOf(engine), definition, timelineId(timeline), await read())
    if (!divergence) return { timeline, ok: true, step: null, problem: null }
    return {
      timeline,
      ok: false,
      step: (divergence.data.step as string | null) ?? null,
      problem: divergence.message,
    }
  } catch (error) {
    if (isReprise(error, 'CLOSED')) throw error
    return { timeline, ok: false, step: null, problem: error instanceof Error ? error.message : String(error) }
  }
}

async function* runsOf(engine: Host, options: CheckOptions): AsyncGenerator<Head> {
  let left = options.limit ?? Number.POSITIVE_INFINITY
  for await (const head of engine.each({ prefix: 'workflow/' })) {
    if (left <= 0) return
    if (head.status === 'archived' || (endings.has(head.status) && !options.ended)) continue
    yield head
    left -= 1
  }
}
