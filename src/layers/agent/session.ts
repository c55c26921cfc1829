// A session: one agent's conversation, as one timeline. The outcomes of the model and the tools are recorded before
// they are used, so a session resumes after a crash, a disconnect or a rollback without paying twice.

import { type Coordinate, type TimelineId, timelineId } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import {
  checkGivenOptions,
  checkList,
  checkObject,
  checkOptions,
  checkText,
  checkValues,
  namesOf,
} from '../../core/options.ts'
import { checkFunction } from '../../core/synchronous.ts'
import type { RecoveryReport } from '../../engine/base/recovery-report.ts'
import { decideRollback } from '../../engine/branch/consumers.ts'
import type { CheckpointRequest, PublishedCheckpoint } from '../../engine/checkpoint/checkpointer.ts'
import type { Effects } from '../../engine/history/effects.ts'
import type { Entry } from '../../engine/history/history.ts'
import type { Host } from '../../engine/host/host.ts'
import type { OpenOptions } from '../../engine/model/definition.ts'
import type { Consumer } from '../../engine/model/rollback-report.ts'
import { type CaptureOptions, type GroupCut, Groups } from '../../engine/tools/timeline-groups/groups.ts'
import { type CallOutcome, callTool, throwIfAborted, unlessAborted } from './calls.ts'
import { type ToolVerdict, writeDecision } from './decision.ts'
import { waits } from './due.ts'
import { type LanguageModel, type Message, type Settings, settingValues, type Usage } from './message.ts'
import {
  aSequence,
  aTurn,
  planOptions,
  resultOf,
  rollbackOptions,
  type SessionRollback,
  type SessionRollbackOptions,
  type TurnOptions,
  type TurnResult,
  turnOptions,
} from './options.ts'
import type { SessionRollbackPlan } from './rollback.ts'
import { runTurn, takeDecisions } from './run.ts'
import { type Group, type Received, receiveMail, sendMail } from './session-group.ts'
import { SessionTimeline } from './session-timeline.ts'
import type { AgentSpec } from './spec.ts'
import { entry, place, type SessionState, spentBy } from './state.ts'
import type { TurnHost } from './turn.ts'
import { captureFiles, checkWorkspace, restoreFiles, type WorkspaceReport } from './workspace.ts'
import type { WorkspaceOptions } from './workspace-ignore.ts'

const useOptions = namesOf<{ readonly signal?: AbortSignal }>()('signal')
const forkOptions = namesOf<{ readonly turn?: number }>()('turn')

export class Session<Data> {
  readonly #line: SessionTimeline<Data>
  #manualCalls = { turn: -1, count: 0 }
  /** A turn whose caller aborted it, until its last step has ended. */
  #abandoned: Promise<unknown> = Promise.resolve()

  static async open<Data>(
    engine: Host,
    definition: AgentSpec<Data>,
    timeline: TimelineId,
    options: OpenOptions,
  ): Promise<Session<Data>> {
    return new Session(await SessionTimeline.open(engine, definition, timeline, options))
  }

  private constructor(line: SessionTimeline<Data>) {
    this.#line = line
  }

  get definition(): AgentSpec<Data> {
    return this.#line.definition
  }

  get timeline(): TimelineId {
    return this.#line.timeline
  }

  /** @internal */
  get engine(): Host {
    return this.#line.engine
  }

  /** The id that the session was opened with, without the agent's prefix. */
  get id(): string {
    return this.timeline.slice(this.definition.prefix.length)
  }

  get state(): Readonly<SessionState<Data>> {
    return this.#line.state
  }

  get data(): Data {
    return this.#line.state.data
  }

  get messages(): Message[] {
    return [...this.#line.state.messages.values()]
  }

  /** The total usage, including rolled back turns. `state.usage` covers the current messages only. */
  get usage(): Usage {
    return spentBy(this.#line.anyOpen.state)
  }

  get coordinate(): Coordinate {
    return this.#line.open.coordinate
  }

  get recovery(): RecoveryReport {
    return this.#line.open.recovery
  }

  /** A turn was interrupted: `resume` continues it. */
  get isUnfinished(): boolean {
    return this.#line.state.status === 'running' || this.#line.owesATurn
  }

  /** The session's calls to the outside. */
  get effects(): Effects {
    return this.#line.open.effects
  }

  /** Runs one turn: calls the model and its requested tools until the turn is done or a person is needed. */
  async turn(input: unknown, options: TurnOptions<Data> = {}): Promise<TurnResult> {
    checkOptions('turn', options, turnOptions)
    return await this.#giveUpOn(options.signal, () => this.#turn(input, options))
  }

  async #turn(input: unknown, options: TurnOptions<Data>): Promise<TurnResult> {
    const known = options.key === undefined ? null : this.#turnOf(options.key)
    if (known !== null) return known === this.state.turn ? await this.#resume(options) : this.#result(known)
    if (this.state.status !== 'idle') {
      throw new RepriseError('CONFLICT', `${this.timeline} is ${this.state.status}: resume or decide first`, {
        status: this.state.status,
        waiting: this.state.waiting,
      })
    }
    await this.#line.start(input, options.key ?? null)
    return await this.#run(options)
  }

  /** Resumes after a crash, a disconnect or an approval. Recorded calls are not made again. */
  async resume(options: TurnOptions<Data> = {}): Promise<TurnResult> {
    checkOptions('resume', options, turnOptions)
    return await this.#giveUpOn(options.signal, () => this.#resume(options))
  }

  async #resume(options: TurnOptions<Data>): Promise<TurnResult> {
    await takeDecisions(this.#line)
    await this.#line.askAgain()
    return this.state.status === 'running' ? await this.#run(options) : this.#result(this.state.turn)
  }

  /**
   * Calls a tool from your own code, as an effect of the current turn. After a restart, the same calls in the same
   * order return the recorded results; a different call is settled by the agent's policy for similar calls.
   */
  async use(tool: string, args: unknown, options: { readonly signal?: AbortSignal } = {}): Promise<CallOutcome> {
    checkText('the tool of use()', tool)
    checkOptions('use', options, useOptions)
    throwIfAborted(options.signal)
    const { turn } = this.state
    if (this.#manualCalls.turn !== turn) this.#manualCalls = { turn, count: 0 }
    const id = `${place(turn)}.m${String(this.#manualCalls.count++).padStart(4, '0')}`
    return await callTool(this.#host(options.signal), id, turn, tool, args, options.signal)
  }

  async edit(change: (data: Data) => Data): Promise<void> {
    checkFunction(change, 'edit()')
    await this.#line.open.write([entry('edited', { data: change(this.data), of: this.definition.dataVersion })])
  }

  async note(note: string): Promise<void> {
    await this.#line.open.write([entry('noted', { note })])
  }

  async setPlan(plan: unknown): Promise<void> {
    await this.#line.open.write([entry('planned', { plan })])
  }

  async configure(settings: Settings): Promise<void> {
    checkValues('configure', settings, settingValues)
    await this.#line.open.write([entry('configured', { settings })])
  }

  /** Stops the session before its next step until a person decides. */
  async interrupt(reason: string): Promise<void> {
    await this.#line.open.write([entry('interrupted', { kind: 'interrupt', reason })], waits)
  }

  async approve(by: string, options: { readonly args?: unknown } = {}): Promise<void> {
    await this.decide('approve', by, options)
  }

  async refuse(by: string, reason = 'refused'): Promise<void> {
    await this.decide('refuse', by, { reason })
  }

  /** Records a person's decision on the current wait; `resume` then continues. */
  async decide(
    verdict: ToolVerdict,
    by: string,
    options: { readonly reason?: string; readonly args?: unknown; readonly result?: unknown } = {},
  ): Promise<void> {
    await writeDecision(this.#line.anyOpen, { verdict, by, ...options }, [])
  }

  /** Lists the calls that a rollback would undo, and those it could not. Changes nothing. */
  planRollback(options: Pick<SessionRollbackOptions, 'to' | 'undo'>): SessionRollbackPlan {
    checkGivenOptions('planRollback', options, planOptions)
    const { to = null, undo } = options
    checkValues('planRollback', { to }, { to: [aTurn, aSequence] })
    return this.#line.plan(typeof to === 'number' ? { turn: to } : to!, undo)
  }

  /**
   * Rolls back to the end of a turn, or to a sequence inside one, which is then unfinished: undoes later calls in reverse, and
   * continues as a branch.
   */
  async rollback(options: SessionRollbackOptions): Promise<SessionRollback> {
    return await this.rollbackDecided(options, undefined)
  }

  /** @internal The caller has already checked for consumers of the undone entries. */
  async rollbackDecided(
    options: SessionRollbackOptions,
    decided: readonly Consumer[] | undefined,
  ): Promise<SessionRollback> {
    checkGivenOptions('rollback', options, rollbackOptions)
    const { to, settings = {}, reason = 'asked for', again = false, workspace, undo } = options
    const plan = this.planRollback({ to, ...(undo && { undo }) })
    await this.#abandoned
    if (plan.inDoubt.length > 0) {
      const [first] = plan.inDoubt
      throw new RepriseError(
        'EFFECT_IN_DOUBT',
        `${first!.tool} (${first!.id}) may have been executed: settle it first`,
        {
          calls: plan.inDoubt.map((call) => call.id),
        },
      )
    }
    const consumed = await decideRollback(this.engine.kernel, this.timeline, plan.seq, decided ?? options.consumed)
    if (undo) await this.#line.checkUndo(plan)
    if (workspace) await checkWorkspace(this.engine.kernel, this.#line.anyOpen.state, workspace)
    const archive = await this.#line.rollback(plan, {
      settings,
      because: reason,
      guardrail: null,
      isAgain: again,
      consumed,
      ...(undo && { undo }),
    })
    if (workspace) await this.restoreWorkspace(workspace)
    return { plan, archive }
  }

  /** Creates a new session from this one's state after a turn (default: now). The two are independent from then on. */
  async fork(id: string, options: { readonly turn?: number } = {}): Promise<string> {
    checkOptions('fork', options, forkOptions)
    const seq = options.turn === undefined ? this.#line.open.seq : this.planRollback({ to: options.turn }).seq
    const made = await this.engine.forkTimeline(
      { timeline: this.timeline, seq },
      this.definition.prefix + timelineId(id),
    )
    return made.timeline.slice(this.definition.prefix.length)
  }

  /** Sends a message to another session of the same group, in the commit that records it. */
  async send(to: string, content: unknown): Promise<void> {
    await sendMail(this.#member(), this.definition.prefix + to, content)
  }

  /** Moves messages from other sessions into history, in order. */
  async receive(): Promise<Received[]> {
    return await receiveMail(this.#member())
  }

  /** @internal Writes the entries of a branch as this session's own. */
  async adoptEntries(entries: readonly Entry[]): Promise<void> {
    const mine = entries.map(({ type, data, version, key, time }) => ({ type, data, version, key, time }))
    if (mine.length > 0) await this.#line.open.write(mine)
  }

  /** Captures a group of sessions in one consistent cut: see docs/guides/groups.md. */
  async captureCut(cut: string, members: readonly string[], options: CaptureOptions = {}): Promise<GroupCut> {
    checkList('the members of captureCut()', members)
    const ids = members.map((member) => this.definition.prefix + member)
    return await new Groups(this.engine).capture(cut, ids, options)
  }

  async captureWorkspace(options: WorkspaceOptions): Promise<WorkspaceReport> {
    checkObject('the options of captureWorkspace()', options)
    return await captureFiles(this.engine.kernel, this.#line.anyOpen, options)
  }

  async restoreWorkspace(options: WorkspaceOptions): Promise<WorkspaceReport> {
    checkObject('the options of restoreWorkspace()', options)
    return await restoreFiles(this.engine.kernel, this.#line.anyOpen.state, options)
  }

  checkpoint(request: CheckpointRequest = {}): Promise<PublishedCheckpoint> {
    return this.#line.open.checkpoint(request)
  }

  get checkpointing() {
    return this.#line.open.checkpointing
  }

  close(): Promise<void> {
    return this.#line.open.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  #member(): Group {
    return {
      engine: this.engine,
      open: this.#line.anyOpen,
      prefix: this.definition.prefix,
    }
  }

  #host(signal: AbortSignal | undefined, model?: LanguageModel<Data>): TurnHost<Data> {
    const { options } = this.definition
    const line = this.#line
    const settings = { ...options.settings, ...this.state.settings }
    return {
      engine: this.engine,
      get open() {
        return line.anyOpen
      },
      tools: options.tools ?? {},
      guards: this.definition.guards,
      allowed: settings.tools,
      similarCalls: settings.similarCalls ?? options.similarCalls ?? 'conflict',
      model: model ?? options.model,
      modelInDoubt: options.modelInDoubt ?? 'retry',
      context: options.context,
      settings,
      signal,
      fork: () => this.#forkForSimilarCall(),
    }
  }

  async #forkForSimilarCall(): Promise<string> {
    for (let n = 1; ; n++) {
      const id = `${this.id}-similar-${n}`
      if (await this.engine.head(this.definition.prefix + id)) continue
      await this.fork(id)
      const branch = await Session.open(this.engine, this.definition, timelineId(this.definition.prefix + id), {})
      await branch.configure({ similarCalls: 'new' })
      await branch.close()
      return id
    }
  }

  async #run(options: TurnOptions<Data>): Promise<TurnResult> {
    const { failures } = this.engine
    try {
      const result = await runTurn(this.#line, () => this.#host(options.signal, options.model), options)
      failures.succeeded(this.timeline)
      return result
    } catch (error) {
      if (!options.signal?.aborted) await failures.failed(this.timeline, error)
      throw error
    }
  }

  /**
   * The caller returns as soon as its signal fires. The current step continues to its end, so that its outcome is
   * recorded; the next call waits for that.
   */
  async #giveUpOn<T>(signal: AbortSignal | undefined, work: () => Promise<T>): Promise<T> {
    throwIfAborted(signal)
    await unlessAborted(signal, this.#abandoned)
    const running = work()
    const result = await unlessAborted(signal, running).catch((error: unknown) => {
      if (signal?.aborted) this.#abandoned = running.catch(() => undefined)
      throw error
    })
    return result
  }

  #turnOf(key: string): number | null {
    if (!this.#line.open.hasKey(`turn:${key}`)) return null
    for (const record of this.state.turns.values({ reverse: true })) if (record.key === key) return record.turn
    return null
  }

  #result(turn: number): TurnResult {
    return resultOf(this.#line.anyOpen.state, turn)
  }
}
