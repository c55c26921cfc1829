// Kept outcomes of a re-run: when the code issues a command whose outcome was kept, the outcome becomes part of history
// again and is delivered like any other. One at a time and in their first order, so that races and branches decide as
// they did before the re-run.

import { firstSeq } from '../history/dependants.ts'
import type { CommandRun } from './command-host.ts'

/** The parts of a run that reuse needs. */
export type ReusingRun = Pick<CommandRun, 'state' | 'spawn' | 'recorder'>

export class Reuse {
  readonly #run: ReusingRun
  /** Ids of issued commands whose kept outcome was not recorded yet. */
  #issued: Set<string> | null = null
  #isWriting = false

  constructor(run: ReusingRun) {
    this.#run = run
  }

  /** Returns true if the outcome of that command was kept. */
  issued(id: string): boolean {
    const { rerun } = this.#run.state
    if (!rerun || !Object.hasOwn(rerun.kept, id)) return false
    this.#issued ??= new Set()
    this.#issued.add(id)
    return true
  }

  /** Called whenever the code has run as far as it could. */
  serve(): void {
    const kept = this.#run.state.rerun?.kept
    if (!this.#issued || this.#isWriting || !kept) return
    const [first] = [...this.#issued].sort((a, b) => firstSeq(kept[a]!) - firstSeq(kept[b]!))
    if (first === undefined) return
    this.#isWriting = true
    this.#run.spawn(async () => {
      await this.#run.recorder.record('reused', { id: first })
      this.#issued?.delete(first)
      this.#isWriting = false
    })
  }
}
