// Forks with the defaults for people: at the head, or from the start with another input.

import type { Head } from '../core/store/ports.ts'
import type { Reprise } from '../engine/api/reprise.ts'
import { hostOf } from '../engine/host/host.ts'
import type { ForkOptions } from '../engine/model/fork-edit.ts'
import type { Forked } from '../engine/tools/fork-as-model.ts'

/** @example await forkAt(engine, head, undefined, 'again', { input: { amount: 5 } }) */
export async function forkAt(
  engine: Reprise,
  { timeline, seq: last }: Head,
  seq: number | undefined,
  to: string,
  options: ForkOptions,
): Promise<Forked> {
  const isInputAlone = options.input !== undefined && Object.keys(options.set ?? {}).length === 0
  const start = isInputAlone ? hostOf(engine).models.find(timeline)?.edits?.inputSeq : undefined
  return await engine.fork({ timeline, seq: seq ?? start ?? last }, to, options)
}
