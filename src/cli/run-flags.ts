// Flags of `run`, `work` and `resume` that control how a pipeline starts: the options of rp.run() and rp.work().

import { toMs } from '../core/duration.ts'
import type { PipelineOptions, PipelineWorkOptions } from '../layers/pipeline/index.ts'
import { duration, flag, type Options, text } from './command.ts'
import { parseJson, UsageError } from './exit.ts'

const beginning = ['from', 'changes', 'takeover', 'wait'] as const

/** The given flags as options of rp.run(). @example pipelineFlags({ takeover: true }) // { takeover: true } */
export function pipelineFlags(options: Options): Pick<PipelineOptions, (typeof beginning)[number]> {
  const [from, changes, wait] = [text(options, 'from'), text(options, 'changes'), duration(options, 'wait')]
  if (wait !== undefined) toMs(wait, '--wait')
  return {
    ...(from !== undefined && { from: placeOf(from) }),
    ...(changes !== undefined && {
      changes: parseJson(changes, '--changes') as NonNullable<PipelineOptions['changes']>,
    }),
    ...(flag(options, 'takeover') && { takeover: true }),
    ...(wait !== undefined && { wait }),
  }
}

/** The same for rp.work(): tasks are taken when they are free, and have checkpoints of their own. */
export function workFlags(options: Options): PipelineWorkOptions {
  const { from, changes, takeover, wait } = pipelineFlags(options)
  if (typeof from === 'string')
    throw new UsageError('--from must be a time here: partitions have checkpoints of their own')
  if (takeover || wait !== undefined) {
    throw new UsageError(
      '--takeover and --wait are for a pipeline that one process runs; shared work is taken when it is free',
    )
  }
  return { ...(from !== undefined && { from }), ...(changes !== undefined && { changes }) }
}

/** Refuses flags of pipelines for other definitions. `allowed`: flags that these have as well. */
export function refusePipelineFlags(options: Options, what: string, allowed: readonly string[] = []): void {
  const given = beginning.find((name) => options[name] !== undefined && !allowed.includes(name))
  if (given !== undefined) throw new UsageError(`${what} has no option --${given}: it applies to pipelines only`)
}

/** The id of a checkpoint, or a time. */
function placeOf(given: string): NonNullable<PipelineOptions['from']> {
  if (/^[0-9a-f]{16}$/.test(given)) return given
  const time = /^\d{12,14}$/.test(given) ? Number(given) : Date.parse(given)
  return Number.isNaN(time) ? given : { time }
}
