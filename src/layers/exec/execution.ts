// One execution of a program, from taking ownership of its timeline to releasing it: an earlier unrecorded end is recorded,
// the newest intact capture is restored, the program runs, and after a failure it is started again from there.

import { timelineId } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import { decideRetry } from '../../core/retry/retry.ts'
import type { Head } from '../../core/store/ports.ts'
import { PendingStart } from '../../engine/base/pending-start.ts'
import { identifyProcess, isProcessGone } from '../../engine/base/platform.ts'
import { entryAt } from '../../engine/history/history.ts'
import type { Host } from '../../engine/host/host.ts'
import type { OpenOptions } from '../../engine/model/definition.ts'
import { StateTimeline } from '../../engine/writing/state-timeline.ts'
import { realTime, sleep } from '../../lib/waiting.ts'
import { type Capture, Captures, type Restored } from './captures.ts'
import { type ExecEntries, entry, foldersAttribute, startedAttribute } from './entries.ts'
import type { ExecEvent, ExecResult, ExecStatus, RunEnd } from './events.ts'
import { type ExecSpec, settingsOf } from './options.ts'
import { exitCodeOf, Program } from './program.ts'
import { Words } from './program-messages.ts'
import { type ProgramStop, Supervisor } from './supervisor.ts'
import { forgetUncaptured, noteUncaptured, setAside, uncapturedIn } from './uncaptured.ts'

export interface ExecRunOptions extends Pick<OpenOptions, 'takeover' | 'wait'> {
  /** Starts with the folder as it is: nothing is restored. */
  readonly fresh?: boolean
  /** Restores into a folder that this program has not used before, even if that deletes files in it. */
  readonly replace?: boolean
  /** `stderr`: the program's stdout is redirected there too. */
  readonly output?: 'inherit' | 'stderr'
  readonly onEvent?: (event: ExecEvent) => void
}

const beginAttempts = 50
const orphanWaitMs = 10_000
/** Number of folders recorded as the program's own. */
const foldersMax = 16

export class Execution {
  readonly beginning = new PendingStart()
  readonly #host: Host
  readonly #spec: ExecSpec
  readonly #options: ExecRunOptions
  readonly #runs: RunEnd[] = []
  #supervisor: Supervisor | null = null
  #stop: { readonly signal: NodeJS.Signals; readonly how: ProgramStop } | null = null
  #pid: number | null = null
  #ended: ExecResult['status'] | null = null
  #wakeRetry: () => void = () => undefined
  #captures = 0
  #capture: number | null = null
  #restored: Restored | null = null

  constructor(host: Host, spec: ExecSpec, options: ExecRunOptions) {
    this.#host = host
    this.#spec = spec
    this.#options = options
  }

  /** Forwards the signal and starts the grace time; a second call kills the program. */
  stop(signal: NodeJS.Signals, how: ProgramStop = {}): void {
    if (this.#stop !== null) this.#supervisor?.kill()
    this.#stop ??= { signal, how }
    this.#supervisor?.stop(signal, how)
    this.#wakeRetry()
  }

  status(): ExecStatus {
    const under = this.#stop ? 'stopping' : this.#pid === null ? 'starting' : 'running'
    return { status: this.#ended ?? under, pid: this.#pid, captures: this.#captures, capture: this.#capture }
  }

  /** Forwards the signal as it is. */
  signal(signal: NodeJS.Signals): void {
    this.#supervisor?.pass(signal)
  }

  /** Acts as if the program had sent the word. Resolves with the reply to it. */
  async capture(label: string, isSavepoint: boolean): Promise<string> {
    const supervisor = this.#supervisor
    if (!supervisor) throw new RepriseError('CONFLICT', `${this.#id} is not running at this moment`, {})
    const kind = isSavepoint ? 'savepoint' : 'capture'
    return await new Promise((answer) => supervisor.receive({ kind, text: label, answer }))
  }

  async run(): Promise<ExecResult> {
    const { kernel } = this.#host
    const { wait, takeover } = this.#options
    const [before] = await kernel.store.head([timelineId(this.#id)])
    const open = { ...(wait !== undefined && { wait }), ...(takeover !== undefined && { takeover }) }
    const owned = new Owned(this.#host, await StateTimeline.take(kernel, timelineId(this.#id), open))
    try {
      if (before) await this.#settleLost(owned, before)
      return await this.#runOwned(owned)
    } catch (error) {
      this.#ended = 'failed'
      throw error
    } finally {
      await owned.taken.release()
    }
  }

  get #id(): string {
    return `exec/${this.#spec.name}`
  }

  #report(event: ExecEvent): void {
    if (event.kind === 'captured') this.#noteCapture(event)
    if (event.kind === 'started') this.beginning.begun()
    this.#options.onEvent?.(event)
  }

  #noteCapture({ seq }: Pick<Capture, 'seq'>): void {
    this.#captures += 1
    this.#capture = seq
  }

  async #runOwned(owned: Owned): Promise<ExecResult> {
    const { kernel } = this.#host
    const { stateAt, ignore, keep, retry } = this.#spec
    const captures = new Captures(kernel, () => owned.taken, stateAt, ignore, keep)
    let run = Number((await owned.head()).attributes.run ?? 0)
    let failed = 0
    for (let attempt = 1; ; attempt++) {
      run += 1
      await this.#prepare(owned, captures, run, attempt)
      const capturesBefore = this.#captures
      const { end, exitCode } = await this.#runOnce(owned, captures, run, attempt)
      const isStopped = this.#stop !== null
      if (end.exitCode === 0 || isStopped) {
        const status = end.exitCode === 0 && end.why === 'exit' ? 'completed' : isStopped ? 'stopped' : 'completed'
        return await this.#finish(owned, end, exitCode, status)
      }
      failed = this.#captures > capturesBefore ? 1 : failed + 1
      const odds = { chance: () => kernel.random.number(), now: kernel.clock.now() }
      const { again, delayMs } = decideRetry(retry, failed, new Error('the program failed'), odds)
      if (!again) return await this.#finish(owned, end, exitCode, 'failed')
      await this.#append(owned, end, 'running')
      this.#report({ kind: 'retrying', attempt: attempt + 1, inMs: delayMs })
      await new Promise<void>((resolve) => {
        this.#wakeRetry = resolve
        kernel.clock.after(delayMs, resolve, true)
      })
      if (this.#stop !== null) {
        await owned.taken.write({ status: 'stopped' })
        return this.#result(exitCode, 'stopped')
      }
    }
  }

  /**
   * The first start captures the existing files, so that there is always a state to restore; later starts restore the newest
   * capture.
   */
  async #prepare(owned: Owned, captures: Captures, run: number, attempt: number): Promise<void> {
    const { stateAt } = this.#spec
    const isFresh = this.#options.fresh === true && attempt === 1
    if (!isFresh) await this.#takeUp(captures)
    const isOurs = this.#options.replace === true || (await this.#folders(owned)).includes(stateAt)
    const restored = isFresh ? null : await captures.restore(isOurs)
    if (restored) {
      this.#restored ??= restored
      this.#capture = restored.seq
      this.#report({ kind: 'restored', ...restored })
      return
    }
    await captures.makeFolder()
    for (let looks = 1; ; looks++) {
      const taken = await captures.take({ run, trigger: 'begin' })
      if (taken) {
        await forgetUncaptured(stateAt)
        return this.#report({ kind: 'captured', ...taken.capture })
      }
      if (looks >= beginAttempts) {
        const what = `${this.#spec.stateAt} keeps changing before the program has started: another program writes there`
        throw new RepriseError('TREE_BLOCKED', what, { path: this.#spec.stateAt })
      }
    }
  }

  /** The folders it was started with. Older releases recorded only the last one. */
  async #folders(owned: Owned): Promise<readonly string[]> {
    const { attributes, timeline } = await owned.head()
    const [folders, started] = [attributes[foldersAttribute], attributes[startedAttribute]]
    if (typeof folders === 'string') return JSON.parse(folders) as string[]
    const last = typeof started === 'number' ? await entryAt(this.#host.kernel, timeline, started) : null
    return last?.type === 'started' ? [(last.data as ExecEntries['started']).stateAt] : []
  }

  /**
   * Files that an earlier run completed and could not capture are captured now, or moved aside if the program has continued
   * elsewhere.
   */
  async #takeUp(captures: Captures): Promise<void> {
    const { stateAt } = this.#spec
    const note = await uncapturedIn(stateAt, this.#id)
    if (!note) return
    if (note.capture === (await captures.newest())) {
      const taken = await captures.take({ run: note.run, trigger: 'end' })
      if (taken) {
        await forgetUncaptured(stateAt)
        this.#report({
          kind: 'note',
          text: `run ${note.run} left files that could not be captured: they are captured now`,
        })
        return this.#report({ kind: 'captured', ...taken.capture })
      }
    }
    const aside = await setAside(stateAt, this.#host.clock.now())
    await forgetUncaptured(aside)
    const text = `${stateAt} contained files of run ${note.run} that were never captured: they were moved to ${aside}, and the newest capture was restored`
    this.#report({ kind: 'note', text })
  }

  /** The folder has files that no capture has: the next start must know. */
  async #noteUncaptured(captures: Captures, run: number): Promise<void> {
    const { stateAt } = this.#spec
    try {
      await noteUncaptured(stateAt, {
        timeline: this.#id,
        run,
        capture: await captures.newest().catch(() => this.#capture),
      })
      const why = `the last files of run ${run} are in ${stateAt} only; the next start captures them first`
      this.#report({ kind: 'not-captured', why })
    } catch (error) {
      const why = `the last files of run ${run} are in ${stateAt} only, and this could not be recorded there (${(error as Error).message}): copy them before the next start`
      this.#report({ kind: 'not-captured', why })
    }
  }

  async #runOnce(owned: Owned, captures: Captures, run: number, attempt: number) {
    const { kernel } = this.#host
    const { command, directory, state, stateAt } = this.#spec
    const survey = await captures.survey()
    let supervisor: Supervisor | null = null
    const words = await Words.open((word) =>
      supervisor ? supervisor.receive(word) : word.answer('refused: it is not running yet'),
    )
    try {
      const output = this.#options.output ?? 'inherit'
      const program = await Program.start({ command, directory, env: this.#env(words, run, attempt), output })
      const parts = {
        kernel,
        spec: this.#spec,
        captures,
        run,
        report: (event: ExecEvent) => this.#report(event),
        recover: (error: unknown) => owned.recover(error),
        checkOwned: () => owned.check(),
      }
      supervisor = new Supervisor(parts, program, survey)
      this.#supervisor = supervisor
      const started: ExecEntries['started'] = {
        ...{ run, attempt, command, directory, state, stateAt },
        ...{ host: identifyProcess().host, process: program.identity },
        restored: this.#capture,
        settings: settingsOf(this.#spec),
      }
      const at = {
        run,
        [startedAttribute]: owned.taken.head.seq + 1,
        [foldersAttribute]: JSON.stringify(
          [...new Set([stateAt, ...(await this.#folders(owned))])].slice(0, foldersMax),
        ),
        started: new Date(kernel.clock.now()).toISOString(),
      }
      const attributes = { ...at, command: shownCommand(command), exit: null }
      try {
        await owned.taken.append(entry('started', started), { status: 'running', attributes })
      } catch (error) {
        // The process would not be on record.
        supervisor.kill()
        await program.sweep(0)
        throw error
      }
      if (this.#stop !== null) supervisor.stop(this.#stop.signal, this.#stop.how)
      this.#pid = program.pid
      this.#report({ kind: 'started', run, attempt, pid: program.pid })
      const { exit, why, lostMs, isUncaptured } = await supervisor.watch()
      if (isUncaptured) await this.#noteUncaptured(captures, run)
      const end: RunEnd = { run, exitCode: exit.exitCode, signal: exit.signal, why, lostMs, isAtMost: false }
      this.#report({ kind: 'ended', ...end })
      return { end, exitCode: exitCodeOf(exit) }
    } finally {
      this.#supervisor = null
      this.#pid = null
      await words.close()
    }
  }

  /** Environment of the program: its location, whether files were restored, and how to signal that files are complete. */
  #env(words: Words, run: number, attempt: number): NodeJS.ProcessEnv {
    return {
      ...process.env,
      ...this.#spec.env,
      REPRISE_EXEC: this.#id,
      REPRISE_EXEC_STATE: this.#spec.stateAt,
      REPRISE_EXEC_RUN: String(run),
      REPRISE_EXEC_ATTEMPT: String(attempt),
      REPRISE_EXEC_RESTORED: run > 1 || this.#restored ? String(this.#capture ?? '') : '',
      ...(words.pipe !== null && { REPRISE_EXEC_PIPE: words.pipe }),
      ...(words.socket !== null && { REPRISE_EXEC_SOCKET: words.socket }),
    }
  }

  async #finish(owned: Owned, end: RunEnd, exitCode: number, status: ExecResult['status']): Promise<ExecResult> {
    await this.#append(owned, end, status)
    return this.#result(exitCode, status)
  }

  #result(exitCode: number, status: ExecResult['status']): ExecResult {
    const { length: runs } = this.#runs
    this.#ended = status
    return {
      timeline: this.#id,
      exitCode: status === 'stopped' && runs === 0 ? 130 : exitCode,
      status,
      runs: this.#runs,
      captures: this.#captures,
      restored: this.#restored,
      capture: this.#capture,
    }
  }

  async #append(owned: Owned, end: RunEnd, status: string): Promise<void> {
    this.#runs.push(end)
    const lostMs = Number((await owned.head()).attributes.lostMs ?? 0) + end.lostMs
    const exit = end.exitCode ?? end.signal ?? 'unseen'
    await owned.taken.append(entry('ended', end), { status, attributes: { exit: String(exit), lostMs } })
  }

  /** The supervisor of the last run died with it or before it: the loss is recorded, and remaining processes are killed. */
  async #settleLost(owned: Owned, before: Head): Promise<void> {
    if (before.status !== 'running') return
    const { kernel } = this.#host
    const { attributes } = before
    const found =
      typeof attributes[startedAttribute] === 'number'
        ? await entryAt(kernel, before.timeline, attributes[startedAttribute])
        : null
    if (found?.type === 'started') await endOrphans(found.data as ExecEntries['started'], this.#report.bind(this))
    const worker = (await kernel.store.workers()).find(({ id }) => id === before.owner)
    const lastSign = worker ? worker.beatAt + worker.leaseMs : before.updatedAt
    const since = Math.max(timeOf(attributes.captured), timeOf(attributes.started))
    const lostMs = Math.max(0, Math.round(Math.min(lastSign, kernel.worker.now(before.timeline)) - since))
    const run = Number(attributes.run ?? 0)
    const end: RunEnd = { run, exitCode: null, signal: null, why: 'lost', lostMs, isAtMost: true }
    await this.#append(owned, end, 'stopped')
    this.#report({ kind: 'ended', ...end })
  }
}

/** The timeline owned by this process; opened again after a commit with an unknown outcome. */
class Owned {
  readonly #host: Host
  taken: StateTimeline

  constructor(host: Host, taken: StateTimeline) {
    this.#host = host
    this.taken = taken
  }

  async head(): Promise<Head> {
    const [head] = await this.#host.heads([this.taken.id])
    if (!head) throw new RepriseError('NOT_FOUND', `${this.taken.id} was deleted`, { timeline: this.taken.id })
    return head
  }

  /** FENCED: another process took over. */
  async check(): Promise<void> {
    const { epoch } = await this.head()
    if (epoch === this.taken.head.epoch) return
    const what = `${this.taken.id} was taken over by another process: its program is stopped without a capture`
    throw new RepriseError('FENCED', what, { timeline: this.taken.id, epoch })
  }

  async recover(error: unknown): Promise<void> {
    await this.check()
    if (this.taken.broken === null) return
    // This process still owns the timeline, and the outcome of the last commit is unknown: a new epoch resolves it.
    if (this.taken.broken.code !== 'OUTCOME_UNKNOWN' && this.taken.broken.code !== 'CONFLICT') throw error
    this.taken = await StateTimeline.take(this.#host.kernel, this.taken.id, { mustExist: true })
  }
}

/** Only if it is certainly the process that was started: same machine, same start time. */
async function endOrphans(started: ExecEntries['started'], report: (event: ExecEvent) => void): Promise<void> {
  const own = identifyProcess()
  const [space, pid, start] = started.process.split(':')
  if (started.host !== own.host || !own.process.startsWith(`${space}:`) || !start || !/^\d+$/.test(pid ?? '')) return
  const isGone = () => isProcessGone({ host: started.host, process: started.process }, own)
  if (isGone()) return
  report({ kind: 'note', text: `process ${pid} of the last run is still running: it is stopped first` })
  const until = performance.now() + orphanWaitMs
  while (!isGone() && performance.now() < until) {
    try {
      process.kill(-Number(pid), 'SIGKILL')
    } catch {
      // The process has just ended.
    }
    await sleep(realTime, 20)
  }
}

function timeOf(text: unknown): number {
  return typeof text === 'string' ? Date.parse(text) : 0
}

const commandShown = 200

function shownCommand(command: readonly string[]): string {
  const text = command.join(' ')
  return text.length > commandShown ? `${text.slice(0, commandShown)}…` : text
}
