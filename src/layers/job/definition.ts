// job(): the user's definition, as a plain value that the engine can run and work on.

import { isReprise } from '../../core/errors.ts'
import { checkOptions, namesOf } from '../../core/options.ts'
import type { Attribute, Head } from '../../core/store/ports.ts'
import type { Host } from '../../engine/host/host.ts'
import type { Fold } from '../../engine/model/definition.ts'
import { checkName, type Process, runs, type Workable, works } from '../../engine/model/definition.ts'
import { type Described, describes } from '../../engine/model/model.ts'
import { applyClaimed } from './letters.ts'
import { jobModel } from './model.ts'
import { type JobOptions, type ResolvedJob, resolveJob } from './options.ts'
import { attachReporter, type ReporterName } from './report/index.ts'
import { timelinesOf } from './rounds.ts'
import { JobRun, type RunStart } from './run.ts'
import { stopOnSignals } from './signals.ts'
import type { SourceInput, SourceLike } from './source.ts'
import { type JobState, jobFold } from './state.ts'

export interface RunOptions {
  /** Shows progress: 'auto' draws a bar on a terminal and prints lines to a pipe. Default: none. */
  readonly report?: ReporterName
  /** Ctrl-C and SIGTERM finish the items in flight; a second signal ends the process at once. Default: false. */
  readonly signals?: boolean
  /** Searchable attributes of the job's timelines. */
  readonly attributes?: Readonly<Record<string, Attribute>>
  /** When it fires, the run stops as with stop(). */
  readonly signal?: AbortSignal
}

/** The delay before a consumer that could not begin tries again. */
const beginAgainMs = 1000

const knownRun = namesOf<RunOptions>()('report signals attributes signal')

/** `Input` is the input that `rp.run` passes to the source. */
export interface JobDefinition<T, Input = unknown> extends Process<Input, JobRun<T>, RunOptions>, Workable, Described {
  readonly kind: 'job'
  readonly name: string
  readonly prefix: string
  readonly fold: Fold<JobState>
  readonly job: ResolvedJob<T>
  readonly timelines: readonly string[]
}

/**
 * @example
 * const papers = job('papers', { source: ['a', 'b'], key: (paper) => paper, each: (paper) => save(paper) })
 * const report = await rp.run(papers).result()
 */
export function job<T, Result = unknown, Given = SourceLike<T>>(
  name: string,
  options: JobOptions<T, Result> & { readonly source: Given },
): JobDefinition<T, SourceInput<Given>> {
  checkName('job', name)
  const resolved = resolveJob(name, options)
  return defineJob(name, resolved, jobFold({ checkpoint: options.checkpoint, retain: options.retain }))
}

export function defineJob<T>(
  name: string,
  resolved: ResolvedJob<T>,
  fold: Fold<JobState>,
  kind: 'job' | 'consumer' = 'job',
): JobDefinition<T> {
  const model = jobModel(kind, name, fold)
  const prefix = model.scope
  // A second call in the same process returns the same run.
  const live = new WeakMap<Host, JobRun<T>>()
  const start = (engine: Host, options: RunStart) => {
    engine.declare(model)
    const run = new JobRun(engine, name, resolved, fold, { ...options, kind })
    live.set(engine, run)
    const forget = () => void (live.get(engine) === run && live.delete(engine))
    run.result().then(forget, forget)
    return run
  }
  return {
    [describes]: model,
    kind: 'job',
    name,
    takesInput: resolved.source.takesInput !== false,
    prefix,
    fold,
    job: resolved,
    timelines: timelinesOf(name, resolved.shards),
    async [runs](engine: Host, input, options) {
      checkOptions(`run of ${name}`, options, knownRun)
      const run = live.get(engine) ?? start(engine, { input, attributes: options.attributes ?? {} })
      if (options.report) attachReporter(run, options.report)
      if (options.signals) stopOnSignals(run)
      options.signal?.addEventListener('abort', () => void run.stop({ reason: 'aborted' }).catch(() => undefined), {
        once: true,
      })
      if (options.signal?.aborted) void run.stop({ reason: 'aborted' }).catch(() => undefined)
      return run
    },
    [works](engine: Host) {
      engine.declare(model)
      const handler = async (head: Head) => {
        const underWay = live.get(engine)
        if (underWay) {
          await engine.change(head, { release: true })
          await underWay.result()
          return
        }
        // Mail alone starts no round: the job has finished, or a person stopped it.
        if (head.wakeup === null) await applyClaimed(engine, head, fold)
        else await start(engine, { claimed: [head] }).result()
      }
      engine.serve(prefix, handler, { concurrency: 1 })
      // A job has work only once it is started; a consumer has work from the first entry on.
      if (kind === 'consumer') beginUnlessBegun(engine)
    },
  }

  function beginUnlessBegun(engine: Host): void {
    const { clock, events } = engine
    const begin = async (): Promise<void> => {
      // A process that died before the first entry left a timeline that nothing wakes.
      if (live.get(engine) || ((await engine.head(prefix))?.seq ?? 0) > 0) return
      engine.check()
      if (!live.get(engine)) await start(engine, {}).result()
    }
    begin().catch((error) => {
      if (isReprise(error, 'CLOSED', 'ABORTED')) return
      events.emit('problem', { where: `consumer ${name}`, error })
      // Once begun, the consumer is due and claimed like any timeline; until then nothing else would start it.
      const off = engine.onClose(async () => stop())
      const stop = clock.after(beginAgainMs, () => {
        off()
        beginUnlessBegun(engine)
      })
    })
  }
}
