// reprise/exec: a program in any language, with verified checkpoints of the files it writes.

export type { Capture, Restored } from './captures.ts'
export type { CaptureWhen, EndReason, Trigger } from './entries.ts'
export type { ExecEvent, ExecResult, ExecStatus, RunEnd } from './events.ts'
export { type ExecCaptureOptions, type ExecDefinition, type ExecRun, type ExecStopOptions, exec } from './exec.ts'
export type { ExecRunOptions } from './execution.ts'
export type { ExecOptions } from './options.ts'
