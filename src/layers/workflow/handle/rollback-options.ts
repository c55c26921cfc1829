// Options for ending a run and for rolling it back, for its handle and for its model.

export interface RunRollbackOptions {
  /** The step that is undone with all later ones: its name, or its id. */
  readonly to: string
  /** The run continues with this input. */
  readonly input?: unknown
  /** Mail that was read after this sequence is undone too; the caller delivers it again. */
  readonly seq?: number
  /** A repeated call with the same key takes effect once. */
  readonly key?: string
  /** For a fork: also undo the inherited steps. Rejects with ALREADY_UNDONE if another run has undone one. */
  readonly undo?: 'inherited'
  /**
   * Roll back even if other timelines have acted on the undone entries; history names them. Default: reject with
   * CONSUMED.
   */
  readonly consumed?: 'force'
}

export interface RunRerunOptions {
  /** A repeated call with the same key takes effect once. */
  readonly key?: string
  /** For a fork: also undo the inherited steps that are repeated. Rejects with ALREADY_UNDONE if another run has undone one. */
  readonly undo?: 'inherited'
  /**
   * Re-run even if other timelines have acted on the repeated steps' results; history names them. Default: reject with
   * CONSUMED.
   */
  readonly consumed?: 'force'
}

export interface RunTerminateOptions {
  /** Recorded with the end of the run. */
  readonly reason?: string
  /** A repeated call with the same key takes effect once. */
  readonly key?: string
}

export interface RunUndoOptions {
  /** Recorded with the end of the run. */
  readonly reason?: string
  /** For a fork: also undo the inherited steps. Rejects with ALREADY_UNDONE if another run has undone one. */
  readonly undo?: 'inherited'
}

export interface RunCancelOptions extends RunTerminateOptions, RunUndoOptions {}
