// Supervises one process of the program: surveys its folder repeatedly, captures when the files are complete, reads its
// words, forwards signals, and captures once more after its end. One capture at a time, in order of events.

import { isReprise } from '../../core/errors.ts'
import { growingPause } from '../../core/retry/pause.ts'
import type { Survey } from '../../engine/base/file-tree/survey.ts'
import type { Kernel } from '../../engine/storage/kernel.ts'
import { Alarm, sleep } from '../../lib/waiting.ts'
import type { Capture, Captures } from './captures.ts'
import { Completion, justNow } from './completion.ts'
import type { EndReason, Trigger } from './entries.ts'
import type { ExecEvent } from './events.ts'
import type { ExecSpec } from './options.ts'
import { writtenNow } from './processes.ts'
import type { Exit, Program } from './program.ts'
import type { Word } from './program-messages.ts'

export interface Watched {
  readonly exit: Exit
  readonly why: EndReason
  readonly lostMs: number
  readonly captures: number
  /** The folder has a complete set of files that the store could not take. */
  readonly isUncaptured: boolean
}

/** How a program is stopped. */
export interface ProgramStop {
  readonly reason?: string | null
  /** Default: the value in the definition. */
  readonly graceMs?: number
}

interface SupervisorParts {
  readonly kernel: Kernel
  readonly spec: ExecSpec
  readonly captures: Captures
  readonly run: number
  readonly report: (event: ExecEvent) => void
  /** After a commit with an unknown outcome: throws FENCED if this process no longer owns the timeline. */
  readonly recover: (error: unknown) => Promise<void>
  /** Throws FENCED if another process owns the timeline. */
  readonly checkOwned: () => Promise<void>
}

const pollMsMin = 50
const pollMsMax = 5_000
const ownedEveryMs = 5_000
const failureMsMax = 60_000
/** Time for the rest of its group to end after the first process exited by itself. */
const sweepMs = 2_000
const openNoteMs = 10_000
const restlessMs = 30_000
const specialShown = 5

export class Supervisor {
  readonly #parts: SupervisorParts
  readonly #program: Program
  readonly #completion: Completion
  readonly #words: Word[] = []
  readonly #alarm: Alarm
  #captures = 0
  #last: Capture | null = null
  #stopping: { readonly until: number } | null = null
  #isKilled = false
  #fenced: unknown = null
  #failures = 0
  #notBefore = 0
  #checkedAt: number
  #openSince: number | null = null
  #hasNotedOpen = false
  #hasNotedRestless = false
  #pollMs = pollMsMin
  #isUncaptured = false
  /** Files that cannot be captured, already reported. */
  readonly #special = new Set<string>()

  constructor(parts: SupervisorParts, program: Program, before: Survey | null) {
    this.#parts = parts
    this.#program = program
    this.#alarm = new Alarm(parts.kernel.clock, { isAwaited: true })
    const now = parts.kernel.clock.elapsed()
    this.#checkedAt = now
    this.#completion = new Completion(parts.spec, now)
    if (before) this.#noteSpecial(before)
    if (before) this.#completion.see(now, before)
    if (before) this.#completion.captured(now, before)
  }

  receive(word: Word): void {
    if (word.kind !== 'progress') this.#words.push(word)
    else {
      const found = /^(\d+(?:\.\d+)?)(?:\s*\/\s*(\d+(?:\.\d+)?))?\s*(.*)$/.exec(word.text)
      if (found) {
        const total = found[2] === undefined ? null : Number(found[2])
        this.#parts.report({ kind: 'progress', done: Number(found[1]), total, text: found[3] ?? '' })
      }
      word.answer(found ? 'ok' : 'refused: progress requires a number, as in progress 40/100')
    }
    this.#alarm.ring()
  }

  /** Forwards the signal. The program has the grace time, less the expected duration of a capture. */
  stop(signal: NodeJS.Signals, { reason = null, graceMs = this.#parts.spec.graceMs }: ProgramStop = {}): void {
    const { clock } = this.#parts.kernel
    this.#program.signal(signal)
    if (this.#stopping) return
    this.#parts.report({ kind: 'stopping', signal, graceMs, reason })
    const reserveMs = Math.min(graceMs / 2, 500 + 2 * (this.#last?.tookMs ?? 0))
    this.#stopping = { until: clock.elapsed() + graceMs - reserveMs }
    this.#alarm.ring()
  }

  pass(signal: NodeJS.Signals): void {
    this.#program.signal(signal)
  }

  /** Kills the whole group at once. */
  kill(): void {
    this.#isKilled = true
    this.#program.signal('SIGKILL')
  }

  /**
   * Resolves when the whole group has ended and the complete files are captured. Throws FENCED when another process took
   * over.
   */
  async watch(): Promise<Watched> {
    const { clock } = this.#parts.kernel
    let exit: Exit | null = null
    this.#program.exited.then((how) => {
      exit = how
      this.#alarm.ring()
    })
    while (!exit) {
      await this.#look()
      if (exit) break
      if (this.#fenced !== null && !this.#stopping) this.stop('SIGTERM')
      if (this.#stopping && clock.elapsed() >= this.#stopping.until) this.kill()
      await this.#pause()
    }
    const endedAt = clock.elapsed()
    if (!this.#stopping) this.#program.signal('SIGTERM')
    await this.#program.sweep(this.#stopping ? Math.max(0, this.#stopping.until - endedAt) : sweepMs)
    if (this.#fenced === null) await this.#captureAtEnd(exit, endedAt)
    for (const word of this.#words.splice(0)) word.answer('refused: the program has ended')
    if (this.#fenced !== null) throw this.#fenced
    const lostMs = this.#lostMs(exit, endedAt)
    return { exit, why: this.#why(), lostMs, captures: this.#captures, isUncaptured: this.#isUncaptured }
  }

  #why(): EndReason {
    if (this.#isKilled) return 'killed'
    return this.#stopping ? 'stopped' : 'exit'
  }

  #lostMs({ exitCode }: Exit, endedAt: number): number {
    if (exitCode === 0 && !this.#stopping) return 0
    return Math.max(0, Math.round(endedAt - this.#completion.capturedAt))
  }

  async #pause(): Promise<void> {
    if (this.#words.length > 0) return
    await this.#alarm.sleep(this.#completion.lookWithin(this.#parts.kernel.clock.elapsed(), this.#pollMs))
  }

  /** One survey of the folder, and the resulting actions. */
  async #look(): Promise<void> {
    const { clock } = this.#parts.kernel
    const started = clock.elapsed()
    try {
      if (started - this.#checkedAt >= ownedEveryMs) {
        this.#checkedAt = started
        await this.#parts.checkOwned()
      }
      const survey = await this.#parts.captures.survey()
      if (survey) this.#completion.see(clock.elapsed(), survey)
      if (survey) this.#noteSpecial(survey)
      // A large folder is surveyed less often: surveys take at most a tenth of the time.
      this.#pollMs = Math.min(pollMsMax, Math.max(pollMsMin, (clock.elapsed() - started) * 10))
      const word = this.#words.shift()
      if (word) return await this.#captureByWord(word)
      if (started < this.#notBefore) return
      const decision = this.#completion.decide(clock.elapsed())
      if (decision.take && !(await this.#isHeldOpen(decision.trigger))) await this.#capture(decision)
      else if (!decision.take) this.#noteRestless(decision.why)
    } catch (error) {
      await this.#failed(error)
    }
  }

  /** Each file is reported once: it would be missing after a restore elsewhere. */
  #noteSpecial({ special }: Survey): void {
    const unknown = special.filter((path) => !this.#special.has(path))
    if (unknown.length === 0) return
    for (const path of unknown) this.#special.add(path)
    const shown = unknown.slice(0, specialShown).map((path) => JSON.stringify(path))
    const more = unknown.length > specialShown ? ` and ${unknown.length - specialShown} more` : ''
    const what = 'pipes, sockets, devices, and names or links that are not UTF-8 cannot be captured'
    this.#parts.report({ kind: 'note', text: `${what}: ${shown.join(', ')}${more}` })
  }

  /** A folder that never settles cannot be captured: the note suggests a remedy. */
  #noteRestless(why: string): void {
    const { spec, kernel, report } = this.#parts
    if (this.#hasNotedRestless || spec.when === 'marker' || spec.when === 'word' || !this.#completion.isChanged) return
    if (kernel.clock.elapsed() - this.#completion.capturedAt < restlessMs) return
    this.#hasNotedRestless = true
    const cure = 'ignore files that keep changing (--ignore), or let the program report completion (--when word)'
    report({ kind: 'note', text: `nothing was captured for ${restlessMs / 1000} s (${why}): ${cure}` })
  }

  /** With renames or a marker, other open files do not matter. */
  async #isHeldOpen(trigger: Trigger): Promise<boolean> {
    if (trigger === 'rename' || trigger === 'marker') return false
    const { spec, kernel, captures } = this.#parts
    const open = (await writtenNow(this.#program.pid, await captures.where())) ?? []
    const held = open.filter((path) => this.#completion.has(path))
    if (held.length === 0) {
      this.#openSince = null
      return false
    }
    this.#openSince ??= kernel.clock.elapsed()
    if (!this.#hasNotedOpen && kernel.clock.elapsed() - this.#openSince >= openNoteMs) {
      this.#hasNotedOpen = true
      const what = `the program holds ${held[0]} in ${spec.state} open for writing: nothing is captured until it is closed`
      this.#parts.report({ kind: 'note', text: `${what}, unless it is ignored (--ignore)` })
    }
    return true
  }

  async #capture(what: {
    readonly trigger: Trigger
    readonly survey?: Survey
    readonly label?: string
    readonly pin?: boolean
  }): Promise<boolean> {
    const { captures, run, report } = this.#parts
    const { since } = this.#completion
    const { trigger, survey: expected, label, pin } = what
    const taken = await captures.take({ run, trigger, label, pin, ...(expected && { expected }) })
    this.#failures = 0
    this.#notBefore = 0
    if (!taken) return false
    // A word marks the files as complete now; otherwise they have been complete since the last write.
    this.#completion.captured(trigger === 'word' ? this.#parts.kernel.clock.elapsed() : since, taken.survey)
    this.#captures += 1
    this.#last = taken.capture
    report({ kind: 'captured', ...taken.capture })
    await captures.retain()
    return true
  }

  async #captureByWord(word: Word): Promise<void> {
    const label = word.text === '' ? {} : { label: word.text }
    try {
      const isOpen = !this.#program.isOver && (await this.#isHeldOpen('word'))
      if (!isOpen && (await this.#capture({ trigger: 'word', pin: word.kind === 'savepoint', ...label }))) {
        word.answer(`captured ${this.#last!.seq}`)
        return
      }
      const why = isOpen ? 'a file is open for writing' : 'a file changed while it was read'
      this.#parts.report({
        kind: 'not-captured',
        why: `${why}, after the program had reported that its files are complete`,
      })
      word.answer(`refused: ${why}`)
    } catch (error) {
      word.answer(`refused: ${(error as Error).message.split('\n')[0]}`)
      throw error
    }
  }

  /** No store error stops the program, except that another process has taken over. */
  async #failed(error: unknown): Promise<void> {
    const { kernel, report, recover } = this.#parts
    this.#failures += 1
    const pauseMs = growingPause(this.#failures, 1000, failureMsMax)
    this.#notBefore = kernel.clock.elapsed() + pauseMs
    try {
      await recover(error)
    } catch (problem) {
      if (isReprise(problem, 'FENCED', 'OWNED', 'NOT_FOUND')) {
        this.#fenced = problem
        return
      }
    }
    const why = `${(error as Error).message.split('\n')[0]}; retry in ${Math.round(pauseMs / 1000)} s`
    report({ kind: 'not-captured', why })
  }

  async #captureAtEnd(exit: Exit, endedAt: number): Promise<void> {
    const { kernel, captures, report } = this.#parts
    const { clock } = kernel
    try {
      for (const word of this.#words.splice(0)) await this.#captureByWord(word)
      // The program has ended; the folder is surveyed until that shows.
      for (let looks = 0; looks < 100; looks++) {
        const survey = await captures.survey()
        if (!survey) return
        this.#completion.see(clock.elapsed(), survey)
        this.#noteSpecial(survey)
        if (!this.#completion.isChanged) return
        const isClean = exit.exitCode === 0 && !this.#isKilled
        const decision = this.#completion.decideAtEnd(clock.elapsed(), { isClean, at: endedAt })
        this.#isUncaptured = decision.take
        if (decision.take && (await this.#capture(decision))) {
          this.#isUncaptured = false
          return
        }
        if (!decision.take && decision.why !== justNow) {
          report({ kind: 'not-captured', why: decision.why })
          return
        }
        await sleep(clock, pollMsMin)
      }
    } catch (error) {
      await this.#failed(error)
    }
  }
}
