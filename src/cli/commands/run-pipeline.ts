// reprise run, for a pipeline: shows its progress on stderr, and prints the report on stdout. Ctrl-C stops it with a
// savepoint and prints one line that resumes it.

import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Reprise } from '../../engine/api/reprise.ts'
import { hostOf } from '../../engine/host/host.ts'
import { runs } from '../../engine/model/definition.ts'
import { divides, draws, type PipelineDefinition } from '../../layers/pipeline/definition.ts'
import type { PipelineReport, PipelineRun, PipelineStatus } from '../../layers/pipeline/index.ts'
import { reportOfTasks, type TasksStatus } from '../../layers/pipeline/run/tasks.ts'
import { checkShareable } from '../../layers/pipeline/shareable.ts'
import { type Options, text } from '../command.ts'
import { exit, UsageError } from '../exit.ts'
import type { Runnable } from '../find-definition.ts'
import { bytes, count, ms } from '../format.ts'
import { inHand, onInterrupt } from '../interrupt.ts'
import { type Output, toJson } from '../output.ts'
import { pipelineFlags, workFlags } from '../run-flags.ts'
import { patienceOf, urlOf } from '../store.ts'
import { Threads } from '../threads.ts'

const everyMs = 1000
const linesEveryMs = 10_000
const threadsMax = 64
/** Shorter work is not shown. */
const shownAfterMs = 2000

export async function runPipeline(
  engine: Reprise,
  definition: Runnable,
  file: string,
  attributes: Readonly<Record<string, string>>,
  options: Options,
  output: Output,
): Promise<{ readonly report: PipelineReport; readonly code: number }> {
  const id = text(options, 'id')
  const threads = threadsOf(options)
  const given = {
    ...{ ...pipelineFlags(options), attributes },
    ...(id !== undefined && { id }),
    ...(threads !== undefined && { threads, module: pathToFileURL(resolve(file)).href }),
  }
  const run = (await definition[runs](hostOf(engine), undefined, given)) as PipelineRun
  const interruption = onInterrupt(output, 'stopping with a savepoint', { waitsFor: () => inHand(engine) })
  const stopShowing = show(run, text(options, 'report') ?? 'auto', () => inHand(engine, shownAfterMs))
  try {
    void interruption.requested.then(() => run.stop().catch(() => undefined))
    const report = await run.result()
    stopShowing()
    const { status, records, deadLetters } = report
    output.result({ pipeline: definition.name, ...report }, () => {
      output.line(`${definition.name}: ${status}, ${count(records, 'record')} in all`)
    })
    if (deadLetters > 0) output.note(`${count(deadLetters, 'dead letter')}: reprise dead ${run.timeline}`)
    // Stopped by someone: exit code 0 would signal that all input was read.
    if (status !== 'completed') return { report, code: exit.interrupted }
    return { report, code: deadLetters > 0 ? exit.partly : exit.ok }
  } finally {
    stopShowing()
    interruption.off()
  }
}

/** True: threads get stages of its graph. False: they share its partitions. */
export function isDivided(definition: Runnable): boolean {
  return (definition as unknown as PipelineDefinition)[divides]()
}

function threadsOf(options: Options): number | undefined {
  const given = text(options, 'threads')
  if (given === undefined) return undefined
  const threads = Number(given)
  if (Number.isSafeInteger(threads) && threads >= 1 && threads <= threadsMax) return threads
  throw new UsageError(`--threads must be a whole number from 1 to ${threadsMax} (got ${given})`)
}

/** Its partitions are shared among threads, each a worker of its own, under one command. */
export async function runThreads(
  engine: Reprise,
  definition: Runnable,
  file: string,
  options: Options,
  output: Output,
): Promise<{ readonly code: number }> {
  const threads = threadsOf(options)!
  if (text(options, 'id') !== undefined) {
    throw new UsageError('--id starts a separate run; threads share the partitions of the pipeline itself')
  }
  const { url, namespace, blobs, keys } = options as Readonly<Record<string, string | undefined>>
  const store = { url, namespace, blobs, keys, patience: patienceOf(options), create: true }
  if (urlOf(store).startsWith('memory:'))
    throw new UsageError('threads need a store that they can share: memory: belongs to one thread')
  const { name } = definition
  checkShareable(name, (definition as unknown as PipelineDefinition)[draws]())
  const running = new Threads(threads, { file, name, store, options: workFlags(options) }, (words) =>
    output.note(words),
  )
  const interruption = onInterrupt(output, 'stopping with savepoints', {
    waitsFor: () => running.waits,
    beforeExit: () => running.abandon(),
  })
  const stopShowing = showing(text(options, 'report') ?? 'auto', () => {
    const { status, waits } = running
    return { facts: { ...status, waitsFor: waits }, line: (perSecond) => tasksLine(status, perSecond, waits) }
  })
  try {
    void interruption.requested.then(() => running.stop())
    await running.ended
    stopShowing()
    const report = await reportOfTasks(hostOf(engine), `pipeline/${name}`)
    output.result({ pipeline: name, ...report }, () => {
      const tasks = `${count(report.tasks, 'partition')} in ${count(threads, 'thread')}`
      output.line(`${name}: ${report.status}, ${count(report.records, 'record')} in all, ${tasks}`)
    })
    if (report.deadLetters > 0) output.note(`${count(report.deadLetters, 'dead letter')}: reprise ls pipeline/${name}`)
    if (report.status !== 'completed') return { code: exit.interrupted }
    return { code: report.deadLetters > 0 ? exit.partly : exit.ok }
  } finally {
    stopShowing()
    interruption.off()
  }
}

/** @example 12,345 records, 2,000/s, 4 of 8 partitions run, 2 are done */
function tasksLine(
  { records, running, done, partitions }: TasksStatus,
  perSecond: number,
  waits: readonly string[],
): string {
  const parts = [`${records.toLocaleString('en-US')} records`, `${perSecond.toLocaleString('en-US')}/s`]
  parts.push(`${running} of ${count(partitions, 'partition')} run`)
  if (done > 0) parts.push(`${done} done`)
  return [...parts, ...waits.map((what) => `waits for ${what}`)].join(', ')
}

function show(run: PipelineRun, reporter: string, waits: () => readonly string[]): () => void {
  return showing(reporter, () => {
    const status = run.status()
    const waitsFor = waits()
    const line = (perSecond: number) => [lineOf(status, perSecond), ...waitsFor.map((what) => `waits for ${what}`)]
    return { facts: { ...status, waitsFor }, line: (perSecond) => line(perSecond).join(', ') }
  })
}

interface Shown {
  readonly facts: { readonly records: number }
  line(perSecond: number): string
}

/** The returned function ends it; a second call does nothing. */
function showing(reporter: string, look: () => Shown): () => void {
  if (!['auto', 'bar', 'lines', 'json', 'none'].includes(reporter)) {
    throw new UsageError(`there is no reporter ${reporter}`, 'auto, bar, lines, json or none')
  }
  const isBar = reporter === 'bar' || (reporter === 'auto' && process.stderr.isTTY === true)
  if (reporter === 'none') return () => undefined
  let before = { records: 0, at: performance.now() }
  let isOver = false
  const draw = () => {
    const { facts, line } = look()
    const now = { records: facts.records, at: performance.now() }
    const spanMs = now.at - before.at
    const perSecond = spanMs > 0 ? Math.round(((now.records - before.records) * 1000) / spanMs) : 0
    before = now
    if (reporter === 'json') process.stderr.write(`${toJson({ perSecond, ...facts })}\n`)
    else if (isBar) process.stderr.write(`\r\u001b[2K${line(perSecond)}`)
    else process.stderr.write(`${line(perSecond)}\n`)
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
