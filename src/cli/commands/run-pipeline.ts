// reprise run, for a pipeline: shows how it flows on stderr, and prints the report on stdout. Ctrl-C stops it with a
// savepoint and leaves one line that resumes it.

import { runs } from '../../engine/definition.ts'
import { hostOf } from '../../engine/host.ts'
import type { Reprise } from '../../engine/reprise.ts'
import type { PipelineReport, PipelineRun, PipelineStatus } from '../../layers/pipeline/index.ts'
import { type Options, text } from '../command.ts'
import { exit, UsageError } from '../exit.ts'
import { bytes, count, ms } from '../format.ts'
import { onInterrupt } from '../interrupt.ts'
import { type Output, toJson } from '../output.ts'
import type { Runnable } from '../runnable.ts'

const everyMs = 1000
const linesEveryMs = 10_000

export async function runPipeline(
  engine: Reprise,
  definition: Runnable,
  attributes: Readonly<Record<string, string>>,
  options: Options,
  output: Output,
): Promise<{ readonly report: PipelineReport; readonly code: number }> {
  const id = text(options, 'id')
  const given = { ...(id !== undefined && { id }), attributes }
  const run = (await definition[runs](hostOf(engine), {}, given)) as PipelineRun
  const interruption = onInterrupt(output, 'stopping with a savepoint')
  const stopShowing = show(run, text(options, 'report') ?? 'auto')
  try {
    void interruption.asked.then(() => run.stop().catch(() => undefined))
    const report = await run.result()
    stopShowing()
    const { status, records, deadLetters } = report
    output.result({ pipeline: definition.name, ...report }, () => {
      output.line(`${definition.name}: ${status}, ${count(records, 'record')} in all`)
    })
    if (deadLetters > 0) output.note(`${count(deadLetters, 'dead letter')}: reprise dead ${run.timeline}`)
    if (interruption.isAsked && status === 'suspended') return { report, code: exit.interrupted }
    return { report, code: deadLetters > 0 ? exit.partly : exit.ok }
  } finally {
    stopShowing()
    interruption.off()
  }
}

/** The returned function ends it; called twice, it does nothing. */
function show(run: PipelineRun, reporter: string): () => void {
  if (!['auto', 'bar', 'lines', 'json', 'none'].includes(reporter)) {
    throw new UsageError(`there is no reporter ${reporter}`, 'auto, bar, lines, json or none')
  }
  const isBar = reporter === 'bar' || (reporter === 'auto' && process.stderr.isTTY === true)
  if (reporter === 'none') return () => undefined
  let before = { records: 0, elapsedMs: 0 }
  let isOver = false
  const draw = () => {
    const { status } = run
    const spanMs = status.elapsedMs - before.elapsedMs
    const perSecond = spanMs > 0 ? Math.round(((status.records - before.records) * 1000) / spanMs) : 0
    before = status
    if (reporter === 'json') process.stderr.write(`${toJson({ perSecond, ...status })}\n`)
    else if (isBar) process.stderr.write(`\r\u001b[2K${lineOf(status, perSecond)}`)
    else process.stderr.write(`${lineOf(status, perSecond)}\n`)
  }
  const timer = setInterval(draw, isBar || reporter === 'json' ? everyMs : linesEveryMs)
  return () => {
    if (isOver) return
    isOver = true
    clearInterval(timer)
    if (isBar) process.stderr.write('\r\u001b[2K')
  }
}

/** @example 12,345 records, 2,000/s, watermark 10:00:00, lag 3 s, waits 12 % for totals, checkpoint 3 in 12 ms (4 KB, …) */
export function lineOf(status: PipelineStatus, perSecond: number): string {
  const parts = [`${status.records.toLocaleString('en-US')} records`, `${perSecond.toLocaleString('en-US')}/s`]
  const watermarks = status.sources.flatMap(({ watermark }) => watermark ?? [])
  if (watermarks.length > 0) parts.push(`watermark ${new Date(Math.min(...watermarks)).toISOString()}`)
  const lags = status.sources.flatMap(({ lagMs, isEnded }) => (lagMs === null || isEnded ? [] : [lagMs]))
  if (lags.length > 0) parts.push(`lag ${ms(Math.max(...lags))}`)
  const blocked = status.elapsedMs > 0 ? Math.round((100 * status.blockedMs) / status.elapsedMs) : 0
  if (blocked > 0) {
    const slowest = status.operators.reduce((most, each) => (each.blockedMs > most.blockedMs ? each : most))
    parts.push(`waits ${blocked} % for ${slowest.blockedMs > 0 ? slowest.name : 'checkpoints'}`)
  }
  const last = status.checkpoints.recent.at(-1)
  if (last) {
    const { checkpoint, ms: took, addedBytes, longestStallMs } = last
    parts.push(`checkpoint ${checkpoint} in ${ms(took)} (${bytes(addedBytes)}, stall ${ms(longestStallMs)})`)
  }
  if (status.checkpoints.failuresInARow > 0) {
    parts.push(`${count(status.checkpoints.failuresInARow, 'failed checkpoint')}: ${status.checkpoints.lastFailure}`)
  }
  if (status.lateRecords > 0) parts.push(`${status.lateRecords.toLocaleString('en-US')} late`)
  if (status.deadLetters > 0) parts.push(count(status.deadLetters, 'dead letter'))
  return parts.join(', ')
}
