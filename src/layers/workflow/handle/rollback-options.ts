// How a run goes back, for its handle and for its model.

export interface RunRollbackOptions {
  /** Goes on with this input. */
  readonly input?: unknown
  /** Mail that was read after this sequence is undone, too: whoever asks delivers it again. */
  readonly seq?: number
  /** Asked again with the same key, it is done once. */
  readonly key?: string
  /** Of a fork: also undoes what its original did. Refused with ALREADY_UNDONE where somebody has. */
  readonly undo?: 'inherited'
  /** Goes back although others have acted on what is undone; history names them. Default: refused with CONSUMED. */
  readonly consumed?: 'force'
}

export interface RunCancelOptions {
  /** Asked again with the same key, it is done once. */
  readonly key?: string
  /** Of a fork: also undoes what its original did. Refused with ALREADY_UNDONE where somebody has. */
  readonly undo?: 'inherited'
}
