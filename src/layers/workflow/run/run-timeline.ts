// The timeline of a run, as the run uses it.

import type { OpenTimeline } from '../../../engine/writing/timeline.ts'
import type { RunState } from '../history/state.ts'

/** The parts of a timeline that an instance uses: a real timeline, or only a history for a dry replay. */
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
