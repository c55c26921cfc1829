// How consistent a checkpoint is (D9), from weakest to strongest:
//   crash        the state after a whole commit, or files of a program that did not announce the moment
//   application  the application declared this state complete, or its check of validity accepted it
//   distributed  part of a cut over a group: no member received a message that another member had not sent

export type Consistency = 'crash' | 'application' | 'distributed'

/** The label of the savepoints of a cut. @example cutLabel('nightly') // 'cut nightly' */
export function cutLabel(cut: string): string {
  return `cut ${cut}`
}

/** The name in the label of a savepoint. Null: no such label. */
export function cutOf({
  label,
  isPinned,
}: {
  readonly label: string | null
  readonly isPinned: boolean
}): string | null {
  const [, cut = null] = /^cut (.*)$/s.exec(label ?? '') ?? []
  return isPinned ? cut : null
}

/** A milestone that the definition names in `checkpoint.on` announces itself. */
const milestone = 'event'

export interface ConsistencyFacts {
  readonly isOfCut: boolean
  /** The definition checks states before they are captured. */
  readonly isChecked: boolean
  /** The triggers by which the application declares its state complete, beside milestones. */
  readonly announced: readonly string[]
}

/** @example consistencyOf('event', { isOfCut: false, isChecked: false, announced: [] }) // 'application' */
export function consistencyOf(trigger: string, { isOfCut, isChecked, announced }: ConsistencyFacts): Consistency {
  if (isOfCut) return 'distributed'
  return isChecked || trigger === milestone || announced.includes(trigger) ? 'application' : 'crash'
}
