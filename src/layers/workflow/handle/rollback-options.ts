// Options for rolling a run back, for its handle and for its model.

export interface RunRollbackOptions {
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

export interface RunCancelOptions {
  /** A repeated call with the same key takes effect once. */
  readonly key?: string
  /** For a fork: also undo the inherited steps. Rejects with ALREADY_UNDONE if another run has undone one. */
  readonly undo?: 'inherited'
}
