// The spans of a pipeline: one per run in this process, below it one per checkpoint, and one per attempt of an outside call
// (engine/base/call-with-policy.ts). Records have no spans: there are too many.

import { beginTrace, type KeptTrace, type RunTrace } from '../../../engine/base/tracing.ts'
import type { Kernel } from '../../../engine/storage/kernel.ts'
import type { CheckpointKind } from '../rules/coordinator.ts'
import type { CheckpointFacts, PipelineState } from './state.ts'

export interface PipelineTrace {
  /** Null: tracing is off. */
  readonly run: RunTrace | null
  /** The next checkpoints store it. */
  readonly kept: KeptTrace
}

export interface TracedPipeline {
  readonly timeline: string
  readonly name: string
  /** The traceparent of the caller that requested this run. */
  readonly callerTrace: string | undefined
  /** The state to resume from; null: a new pipeline. */
  readonly state: PipelineState | null
  /** True: the checkpoint was requested by its id, and the run starts a trace of its own. */
  readonly isFrom: boolean
}

/** Returns the traceparent for a run that is requested now. */
export function callerTraceOf(kernel: Kernel, timeline: string, name: string): string | undefined {
  return kernel.tracing?.started({ timeline, kind: 'pipeline', name })
}

export function tracePipeline(
  kernel: Kernel,
  { timeline, name, callerTrace, state, isFrom }: TracedPipeline,
): PipelineTrace {
  const why = isFrom ? 'savepoint' : 'resume'
  return beginTrace(kernel.tracing, { timeline, name, kind: 'pipeline', past: state, callerTrace, why })
}

export type CheckpointOutcome =
  | { readonly outcome: 'published'; readonly facts: CheckpointFacts }
  | { readonly outcome: 'called off' }
  | { readonly outcome: 'failed'; readonly error: unknown }

/** One span, from the barrier until the checkpoint is published and its sinks have committed, or it failed. */
export async function tracedCheckpoint(
  trace: RunTrace | null,
  id: number,
  kind: CheckpointKind,
  make: () => Promise<CheckpointOutcome>,
): Promise<void> {
  if (!trace) {
    await make()
    return
  }
  const span = trace.begin('checkpoint', { 'reprise.checkpoint': id, 'reprise.checkpoint.kind': kind }, false)
  try {
    const made = await span.within(make)
    const outcome = { 'reprise.outcome': made.outcome }
    if (made.outcome === 'published') span.end({ ...outcome, ...factsOf(made.facts) })
    else span.end(outcome, made.outcome === 'failed' ? (made.error ?? made.outcome) : undefined)
  } catch (error) {
    span.end({ 'reprise.outcome': 'failed' }, error ?? 'failed')
    throw error
  }
}

function factsOf({ bytes, addedBytes, longestStallMs, ms }: CheckpointFacts) {
  return {
    'reprise.checkpoint.bytes': bytes,
    'reprise.checkpoint.added_bytes': addedBytes,
    'reprise.checkpoint.stall_ms': longestStallMs,
    'reprise.checkpoint.ms': ms,
  }
}
