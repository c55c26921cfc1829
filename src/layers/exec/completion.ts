// Decides when the files in a folder form a complete set: a pure decision from surveys. It returns the survey; the capture
// compares the folder with it before and after reading, and takes nothing that changed.

import { isSameStamp, isSameSurvey, type Survey, settleMsOf } from '../../engine/base/file-tree/survey.ts'
import type { CaptureWhen, Trigger } from './entries.ts'

export interface CompleteRule {
  readonly when: CaptureWhen
  readonly quietMs: number
  readonly everyMs: number | null
  /** The path of the marker file in the folder. */
  readonly marker: string | null
}

export type Decision =
  | { readonly take: true; readonly trigger: Trigger; readonly survey: Survey }
  /** `why` is for people. */
  | { readonly take: false; readonly why: string }

/** The end of the program. */
export interface End {
  /** True if the program exited by itself, with code 0. */
  readonly isClean: boolean
  readonly at: number
}

export const justNow = 'a file was just written'
const unchanged = { take: false, why: 'nothing has changed since the last capture' } as const

export class Completion {
  readonly #rule: CompleteRule
  #seen: Survey | null = null
  /** The time since which the folder is unchanged. */
  #since = 0
  #captured: Survey | null = null
  #capturedAt: number

  /** Times are in milliseconds of a monotonic clock. */
  constructor(rule: CompleteRule, startedAt: number) {
    this.#rule = rule
    this.#capturedAt = startedAt
  }

  get capturedAt(): number {
    return this.#capturedAt
  }

  see(at: number, survey: Survey): void {
    if (this.#seen && isSameSurvey(this.#seen, survey)) return
    this.#seen = survey
    this.#since = at
  }

  /** Records a capture, and the time since which it had been complete. */
  captured(at: number, survey: Survey): void {
    this.#captured = survey
    this.#capturedAt = at
  }

  /** True if files have changed or disappeared since the last capture. */
  get isChanged(): boolean {
    return this.#seen !== null && (this.#captured === null || !isSameSurvey(this.#seen, this.#captured))
  }

  /** The time since which nothing has changed. */
  get since(): number {
    return this.#since
  }

  /** True if the last survey has this path, so that a capture would contain it. */
  has(path: string): boolean {
    return this.#seen?.files.has(path) ?? false
  }

  /** Time until the next survey is useful: at most `pollMs`, and less if the folder is about to settle. */
  lookWithin(at: number, pollMs: number): number {
    if (!this.#seen || !this.isChanged) return pollMs
    const settledMs = this.#since + settleMsOf(this.#seen) - at
    return settledMs > 0 ? Math.min(pollMs, settledMs) : pollMs
  }

  decide(at: number): Decision {
    const seen = this.#seen
    if (!seen || !this.isChanged) return unchanged
    const stillMs = at - this.#since
    if (stillMs < settleMsOf(seen)) return wait(justNow)
    const byRule = this.#byRule(seen, stillMs)
    if (byRule.take || this.#rule.everyMs === null) return byRule
    if (at - this.#capturedAt < this.#rule.everyMs) return byRule
    return { take: true, trigger: 'every', survey: seen }
  }

  /** The program has ended. A file being written at the end may be truncated. */
  decideAtEnd(at: number, { isClean, at: endedAt }: End): Decision {
    const seen = this.#seen
    if (!seen || !this.isChanged) return unchanged
    const { when, quietMs } = this.#rule
    if (at - this.#since < settleMsOf(seen)) return wait(justNow)
    if (when === 'rename' || when === 'marker') return this.#byRule(seen, Number.POSITIVE_INFINITY)
    if (when === 'word') return wait('the program did not report that its files are complete')
    if (isClean || endedAt - this.#since >= quietMs) return { take: true, trigger: 'end', survey: seen }
    return wait('files were still changing when the program ended, and may be incomplete')
  }

  #byRule(seen: Survey, stillMs: number): Decision {
    switch (this.#rule.when) {
      case 'quiet':
        return stillMs >= this.#rule.quietMs
          ? { take: true, trigger: 'quiet', survey: seen }
          : wait('files are still changing')
      case 'rename':
        return this.#isRenamed(seen) ? { take: true, trigger: 'rename', survey: seen } : wait('no file was renamed')
      case 'marker':
        return this.#isMarked(seen)
      case 'word':
        return wait('the program has not reported that its files are complete')
    }
  }

  /** A path has a different file than in the last capture: programs that write aside rename a file once it is complete. */
  #isRenamed(seen: Survey): boolean {
    for (const [path, { inode, bornNs, target }] of seen.files) {
      const before = this.#captured?.files.get(path)
      if (!before || before.inode !== inode || before.bornNs !== bornNs || before.target !== target) return true
    }
    return false
  }

  /** The marker is newer than in the last capture, and no file is newer than it: the next set has not been begun. */
  #isMarked(seen: Survey): Decision {
    const { marker } = this.#rule
    const mark = seen.files.get(marker ?? '')
    if (!mark) return wait(`there is no ${marker}`)
    if (isSameStamp(mark, this.#captured?.files.get(marker ?? '')))
      return wait(`${marker} has not changed since the last capture`)
    for (const [path, stamp] of seen.files) {
      if (stamp.changedNs > mark.changedNs) return wait(`${path} is newer than ${marker}`)
    }
    return { take: true, trigger: 'marker', survey: seen }
  }
}

function wait(why: string): Decision {
  return { take: false, why }
}
