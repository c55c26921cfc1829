// The timeline of a run, as the run uses it.

import type { OpenTimeline } from '../../../engine/writing/timeline.ts'
import type { RunState } from '../history/state.ts'

/** What an instance needs of its timeline: a real one, or history alone when it is only read. */
export type RunTimeline = Pick<
  OpenTimeline<RunState>,
  | 'id'
  | 'life'
  | 'coordinate'
  | 'inherited'
  | 'isFork'
  | 'state'
  | 'seq'
  | 'broken'
  | 'recovery'
  | 'watch'
  | 'ask'
  | 'write'
  | 'mail'
  | 'checkpoint'
  | 'shut'
  | 'break'
>
