// The messages between the main thread and the worker threads of a pipeline, beside those of channels: state on its way to the
// tasks and back, the fate of checkpoints, figures and failures. All of it is plain data.

import type { ErrorCode } from '../../../core/errors.ts'
import { isReprise, RepriseError } from '../../../core/errors.ts'
import type { EncodedBlock, TableName } from '../run/named-table.ts'
import type { Scale } from '../run/wiring.ts'
import type { ChannelMessage } from './channel.ts'

/** What a worker thread must know to build its tasks. */
export interface ThreadSettings {
  /** The URL of the module that exports the pipeline: functions are not sent to threads. */
  readonly module: string
  /** The name of the definition. */
  readonly pipeline: string
  readonly timeline: string
  readonly thread: number
  readonly threads: number
  readonly scale: Scale
  /** The parts of the graph: it must be the same in every thread. */
  readonly outline: string
  readonly lastCheckpoint: number
}

/** One table of a capture. A small table arrives with its blocks; the blocks of a large one are pulled. */
export interface CapturedHere extends TableName {
  readonly isFull: boolean
  readonly size: number
  readonly builtOn: number
  readonly promised: { readonly keys: number; readonly deleted: number }
  readonly blocks: readonly EncodedBlock[] | null
}

/** Names one table of one capture. */
export interface CaptureName {
  readonly task: number
  readonly checkpoint: number
  /** The index among the captured tables of the task. */
  readonly table: number
}

/** The figures of one task since the start of the run. */
export interface TaskCounts {
  readonly task: number
  /** Records received. */
  readonly records: number
  /** The time in which it processed frames, with their decoding and encoding. */
  readonly busyMs: number
  /** The time in which it could not send: a task behind it had too many frames. */
  readonly blockedMs: number
  /** The time in which channels waited for a barrier. */
  readonly alignedMs: number
  /** The channels whose barrier has arrived, while others are awaited. */
  readonly waitingChannels: number
  readonly parts: readonly PartCounts[]
}

export interface PartCounts {
  readonly name: string
  readonly records: number
  readonly busyMs: number
  readonly keys: number
  readonly inFlight: number
  readonly watermark: number | null
}

export type ToThread =
  | { readonly kind: 'channel'; readonly message: ChannelMessage }
  /** A block of restored state. */
  | { readonly kind: 'load'; readonly to: TableName; readonly block: Uint8Array }
  /** All state was sent: records follow. */
  | { readonly kind: 'start' }
  | { readonly kind: 'pull'; readonly of: CaptureName }
  | { readonly kind: 'settle'; readonly of: CaptureName; readonly isPublished: boolean }
  | { readonly kind: 'abort'; readonly checkpoint: number }
  | { readonly kind: 'stop' }

export type FromThread =
  | { readonly kind: 'channel'; readonly message: ChannelMessage }
  | { readonly kind: 'ready' }
  | {
      readonly kind: 'captured'
      readonly task: number
      readonly checkpoint: number
      readonly tables: readonly CapturedHere[]
    }
  | { readonly kind: 'block'; readonly of: CaptureName; readonly block: EncodedBlock | null }
  | { readonly kind: 'figures'; readonly tasks: readonly TaskCounts[]; readonly lateRecords: number }
  | { readonly kind: 'failed'; readonly error: PlainError }

export interface PlainError {
  readonly code: ErrorCode | null
  readonly name: string
  readonly message: string
  readonly stack: string | undefined
  readonly hint: string | undefined
}

export function toPlainError(error: unknown): PlainError {
  const { name, message, stack } = error instanceof Error ? error : new Error(String(error))
  if (!isReprise(error)) return { code: null, name, message, stack, hint: undefined }
  const cause = error.cause instanceof Error ? `: ${error.cause.message}` : ''
  return { code: error.code, name, message: message.replace(` [${error.code}]`, cause), stack, hint: error.hint }
}

export function fromPlainError({ code, name, message, stack, hint }: PlainError): Error {
  if (code !== null) return new RepriseError(code, message, {}, undefined, hint)
  return Object.assign(new Error(message), { name, stack })
}

/** The global mark of a worker thread of a pipeline. */
export const isStageThread: unique symbol = Symbol.for('reprise.pipeline.thread')

/** A thread ended by itself. The run resumes from its checkpoint with a new thread. */
export class ThreadDied extends RepriseError {}
