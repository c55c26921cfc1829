// A session: one agent at work, as one timeline. Turns run here; whatever the model and the tools did is on record
// before anyone relies on it, so a session goes on after a crash, a disconnect or a rollback without paying twice.

import { type Coordinate, type TimelineId, timelineId } from '../../core/coordinate.ts'
import { type Effect, listEffects } from '../../core/effects.ts'
import { RepriseError } from '../../core/errors.ts'
import type { CheckpointRequest, PublishedCheckpoint } from '../../engine/checkpointer.ts'
import type { OpenOptions } from '../../engine/definition.ts'
import type { Entry } from '../../engine/history.ts'
import type { RecoveryReport } from '../../engine/report.ts'
import type { Reprise } from '../../engine/reprise.ts'
import type { OpenTimeline } from '../../engine/timeline.ts'
import { type CallOutcome, callTool, entry, needModel } from './calls.ts'
import { type Decision, type Verdict, writeDecision } from './decision.ts'
import type { AgentDefinition } from './definition.ts'
import { type Group, joinCut, type Received, receiveMail, sendMail } from './group.ts'
import type { Message, Model, Settings, Usage } from './message.ts'
import { type RollbackOptions, resultOf, type SessionRollback, type TurnOptions, type TurnResult } from './options.ts'
import { compensateAll, finishBranch, planRollback, type SessionRollbackPlan } from './rollback.ts'
import { place, type RollbackAsked, type SessionState } from './state.ts'
import { messagesOfTurn, nextStep, type TurnHost, takeStep } from './turn.ts'
import { captureFiles, restoreFiles, type WorkspaceOptions, type WorkspaceReport } from './workspace.ts'

export class Session<Data> {
  readonly definition: AgentDefinition<Data>
  readonly timeline: TimelineId
  readonly engine: Reprise
  #open: OpenTimeline<SessionState<Data>>
  #branch: string | undefined
  #manualCalls = { turn: -1, count: 0 }
  #asked: RollbackAsked | null = null

  static async open<Data>(
    engine: Reprise,
    definition: AgentDefinition<Data>,
    timeline: TimelineId,
    options: OpenOptions,
  ): Promise<Session<Data>> {
    const open = await engine.openTimeline(timeline, definition.fold, options)
    const session = new Session(engine, definition, timeline, open)
    try {
      await session.#settle()
    } catch (error) {
      await open.close()
      throw error
    }
    return session
  }

  private constructor(
    engine: Reprise,
    definition: AgentDefinition<Data>,
    timeline: TimelineId,
    open: OpenTimeline<SessionState<Data>>,
  ) {
    this.engine = engine
    this.definition = definition
    this.timeline = timeline
    this.#open = open
  }

  /** Without the agent's prefix: what it was opened with. */
  get id(): string {
    return this.timeline.slice(this.definition.prefix.length)
  }

  get state(): Readonly<SessionState<Data>> {
    return this.#open.state
  }

  get data(): Data {
    return this.#open.state.data
  }

  get messages(): Message[] {
    return [...this.#open.state.messages.values()]
  }

  get usage(): Usage {
    return this.#open.state.usage
  }

  get coordinate(): Coordinate {
    return this.#open.coordinate
  }

  get recovery(): RecoveryReport {
    return this.#open.recovery
  }

  /** A turn was cut off: `resume` goes on with it. */
  get isUnfinished(): boolean {
    return this.#open.state.status === 'running' || this.#asked !== null
  }

  get effects(): readonly Effect[] {
    return listEffects(this.#open.ledger)
  }

  /** Runs one turn: asks the model, makes its calls, until it is done or a person is needed. */
  async turn(input: unknown, options: TurnOptions<Data> = {}): Promise<TurnResult> {
    const known = options.key === undefined ? null : this.#turnOf(options.key)
    if (known !== null) return known === this.state.turn ? await this.resume(options) : this.#result(known)
    if (this.state.status !== 'idle') {
      throw new RepriseError('CONFLICT', `${this.timeline} is ${this.state.status}: resume or decide first`, {
        status: this.state.status,
        waiting: this.state.waiting,
      })
    }
    await this.#start(input, options.key ?? null)
    return await this.#run(options)
  }

  /** Goes on with what a crash, a disconnect or an approval left. Nothing that is on record is done again. */
  async resume(options: TurnOptions<Data> = {}): Promise<TurnResult> {
    await this.#takeDecisions()
    if (this.#asked) await this.#again(this.#asked)
    return this.state.status === 'running' ? await this.#run(options) : this.#result(this.state.turn)
  }

  /**
   * A tool call from your own code, as an effect of the current turn. After a restart the same calls in the same order get
   * the recorded results; one that differs is settled by the agent's policy for similar calls.
   */
  async use(tool: string, args: unknown, options: { readonly signal?: AbortSignal } = {}): Promise<CallOutcome> {
    const { turn } = this.state
    if (this.#manualCalls.turn !== turn) this.#manualCalls = { turn, count: 0 }
    const id = `${place(turn)}.m${String(this.#manualCalls.count++).padStart(4, '0')}`
    return await callTool(this.#host(options.signal), id, turn, tool, args, options.signal)
  }

  async edit(change: (data: Data) => Data): Promise<void> {
    await this.#open.write([entry('edited', { data: change(this.data) })])
  }

  async note(note: string): Promise<void> {
    await this.#open.write([entry('noted', { note })])
  }

  async setPlan(plan: unknown): Promise<void> {
    await this.#open.write([entry('planned', { plan })])
  }

  async configure(settings: Settings): Promise<void> {
    await this.#open.write([entry('configured', { settings })])
  }

  /** Stops the session before its next step until somebody decides. */
  async interrupt(reason: string): Promise<void> {
    await this.#open.write([entry('interrupted', { kind: 'interrupt', reason })], { status: 'waiting' })
  }

  async approve(by: string, options: { readonly args?: unknown } = {}): Promise<void> {
    await this.decide('approve', by, options)
  }

  async refuse(by: string, reason = 'refused'): Promise<void> {
    await this.decide('refuse', by, { reason })
  }

  /** A person's word on what the session waits for; `resume` then goes on. */
  async decide(
    verdict: Verdict,
    by: string,
    options: { readonly reason?: string; readonly args?: unknown; readonly result?: unknown } = {},
  ): Promise<void> {
    await writeDecision(this.#open as OpenTimeline<SessionState<unknown>>, { verdict, by, ...options }, [])
  }

  /** What a rollback would undo, and what it could not. Changes nothing. */
  planRollback(toTurn: number): SessionRollbackPlan {
    return planRollback(this.state as SessionState<unknown>, this.#open.ledger, { turn: toTurn })
  }

  /** Back to the end of a turn: undoes what came after it, in reverse, and goes on as a branch. */
  async rollback(toTurn: number, options: RollbackOptions = {}): Promise<SessionRollback> {
    return await this.#rollback(this.planRollback(toTurn), options)
  }

  /** Back to a sequence, which may lie inside a turn: that turn is then unfinished. */
  async rollbackTo(seq: number, options: RollbackOptions = {}): Promise<SessionRollback> {
    const plan = planRollback(this.state as SessionState<unknown>, this.#open.ledger, { seq })
    return await this.#rollback(plan, options)
  }

  async #rollback(plan: SessionRollbackPlan, options: RollbackOptions): Promise<SessionRollback> {
    if (plan.inDoubt.length > 0) {
      const [first] = plan.inDoubt
      throw new RepriseError('EFFECT_IN_DOUBT', `${first!.tool} (${first!.id}) may have happened: decide that first`, {
        calls: plan.inDoubt.map((call) => call.id),
      })
    }
    await this.#ask(plan, options.settings ?? {}, options.because ?? 'asked for', null, options.again ?? false)
    const archive = await this.#finishRollback()
    if (this.#asked) await this.#again(this.#asked)
    return { plan, archive }
  }

  /** A new session that starts where this one was after a turn (or is now), and never touches this one again. */
  async fork(id: string, options: { readonly turn?: number } = {}): Promise<string> {
    const seq = options.turn === undefined ? this.#open.seq : this.planRollback(options.turn).seq
    const made = await this.engine.fork({ timeline: this.timeline, seq }, this.definition.prefix + timelineId(id))
    return made.timeline.slice(this.definition.prefix.length)
  }

  /** To another session of the same group, in the same commit as the record of it. */
  async send(to: string, content: unknown): Promise<void> {
    await sendMail(this.#member(), this.definition.prefix + to, content)
  }

  /** Takes what other sessions sent into history, in order. Markers of a cut are answered on the way. */
  async receive(): Promise<Received[]> {
    return await receiveMail(this.#member())
  }

  /** Consumes mail of other sessions that should not be there any more. */
  async dropMail(isUnwanted: (mail: unknown) => boolean): Promise<number> {
    const messages = (await this.#open.inbox(1000)).filter(
      (message) => message.kind === 'agent-message' && isUnwanted(this.engine.openMessage(message)),
    )
    if (messages.length > 0) await this.#open.write([], { consume: messages.map((message) => message.id) })
    return messages.length
  }

  /** Entries of a branch, as this session's own. */
  async adoptEntries(entries: readonly Entry[]): Promise<void> {
    const mine = entries.map(({ type, data, version, key, time }) => ({ type, data, version, key, time }))
    if (mine.length > 0) await this.#open.write(mine)
  }

  /** Begins a consistent cut of a group: see group.ts. */
  async beginCut(cut: string, members: readonly string[]): Promise<void> {
    const ids = members.map((member) => this.definition.prefix + member)
    await joinCut(this.#member(), cut, ids, null)
  }

  async captureWorkspace(options: WorkspaceOptions): Promise<WorkspaceReport> {
    return await captureFiles(this.engine.kernel, this.#open as OpenTimeline<SessionState<unknown>>, options)
  }

  async restoreWorkspace(options: WorkspaceOptions): Promise<WorkspaceReport> {
    return await restoreFiles(this.state as SessionState<unknown>, options)
  }

  checkpoint(request: CheckpointRequest = {}): Promise<PublishedCheckpoint> {
    return this.#open.checkpoint(request)
  }

  get checkpointing() {
    return this.#open.checkpointing
  }

  close(): Promise<void> {
    return this.#open.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  #member(): Group {
    return {
      engine: this.engine,
      open: this.#open as OpenTimeline<SessionState<unknown>>,
      prefix: this.definition.prefix,
    }
  }

  #host(signal: AbortSignal | undefined, model?: Model<Data>): TurnHost<Data> {
    const { options } = this.definition
    const session = this
    return {
      kernel: this.engine.kernel,
      // Looked up each time: a rollback in between opens a new one.
      get open() {
        return session.#open as OpenTimeline<SessionState<unknown>>
      },
      branch: this.#branch,
      tools: options.tools ?? {},
      similarCalls: this.state.settings.similarCalls ?? options.similarCalls ?? 'conflict',
      model: model ?? options.model,
      settings: { ...options.settings, ...this.state.settings },
      signal,
      fork: () => this.#forkForSimilarCall(),
    }
  }

  async #forkForSimilarCall(): Promise<string> {
    for (let n = 1; ; n++) {
      const id = `${this.id}-similar-${n}`
      if (await this.engine.head(this.definition.prefix + id)) continue
      await this.fork(id)
      const branch = await this.engine.open(this.definition, id)
      await branch.configure({ similarCalls: 'new' })
      await branch.close()
      return id
    }
  }

  async #start(input: unknown, key: string | null): Promise<void> {
    const turn = this.state.turn + 1
    await this.#open.write(
      [{ ...entry('turn.started', { turn, input, key }), ...(key !== null && { key: `turn:${key}` }) }],
      { status: 'running' },
    )
  }

  async #run(options: TurnOptions<Data>): Promise<TurnResult> {
    const model = options.model ?? this.definition.options.model
    if (!model) throw needModel()
    const { stepsMax = 32 } = this.definition.options
    for (;;) {
      await this.#takeDecisions()
      if (this.state.status !== 'running') return this.#result(this.state.turn)
      const step = nextStep(this.state as SessionState<unknown>)
      if (step.kind === 'end') break
      if (step.kind === 'model' && this.#modelCalls() >= stepsMax && !this.state.calls.has(step.id)) {
        await this.#handOver(`the turn took ${stepsMax} model calls`)
        return this.#result(this.state.turn)
      }
      const waiting = await takeStep(this.#host(options.signal, options.model), model, step)
      if (waiting) return this.#result(this.state.turn)
      if (await this.#isStopped()) return this.#result(this.state.turn)
    }
    if (options.workspace) await this.captureWorkspace(options.workspace)
    const { turn } = this.state
    await this.#open.write([entry('turn.ended', { turn, outcome: 'done' })], { status: 'idle' })
    return this.#result(turn)
  }

  #modelCalls(): number {
    let count = 0
    for (const call of this.state.calls.values({ prefix: `${place(this.state.turn)}.` }))
      if (call.kind === 'model') count++
    return count
  }

  /** Looks at the guardrails. A broken one has rolled the turn back and begun it anew, or handed over: then true. */
  async #isStopped(): Promise<boolean> {
    const { turn } = this.state
    const view = {
      state: this.state,
      messages: messagesOfTurn(this.state as SessionState<unknown>, turn),
      calls: [...this.state.calls.values({ prefix: `${place(turn)}.` })],
    }
    for (const guardrail of this.definition.options.guardrails ?? []) {
      const reason = guardrail.check(view)
      if (!reason) continue
      const count = this.state.rollbacks[guardrail.name] ?? 0
      const plan = this.planRollback(turn - 1)
      if (count >= (guardrail.rollbacksMax ?? 2) || plan.inDoubt.length > 0) {
        await this.#handOver(`${guardrail.name}: ${reason}`)
        return true
      }
      await this.#ask(plan, guardrail.change?.(count + 1, reason) ?? {}, reason, guardrail.name, true)
      await this.#finishRollback()
      if (this.#asked) await this.#again(this.#asked)
      return false
    }
    return false
  }

  async #handOver(reason: string): Promise<void> {
    await this.#open.write([entry('interrupted', { kind: 'handover', reason })], { status: 'waiting' })
  }

  async #ask(
    plan: SessionRollbackPlan,
    settings: Settings,
    because: string,
    guardrail: string | null,
    isAgain: boolean,
  ): Promise<void> {
    const next = this.state.turns.get(place(plan.toTurn + 1))
    const input =
      next && messagesOfTurn(this.state as SessionState<unknown>, next.turn).find((each) => each.turn === next.turn)
    const again = isAgain && next && input ? { input: input.content, key: next.key } : null
    const { toTurn, seq } = plan
    const asked: RollbackAsked = { toTurn, seq, settings, because, again, ...(guardrail !== null && { guardrail }) }
    await this.#open.write([entry('rollback.asked', asked)])
  }

  /** From the decision to the branch; begun here, or by an owner that crashed. */
  async #finishRollback(): Promise<string> {
    const asked = this.state.rollingBack!
    const plan = planRollback(this.state as SessionState<unknown>, this.#open.ledger, { seq: asked.seq })
    await compensateAll(this.#open as OpenTimeline<SessionState<unknown>>, plan, this.definition.options.tools ?? {})
    const { archive } = await this.engine.rollback({ timeline: this.timeline, seq: asked.seq })
    this.#open = await this.engine.openTimeline(this.timeline, this.definition.fold)
    await this.#settle()
    return archive
  }

  /** After opening: finishes a rollback that was decided or half done, and learns which branch this is. */
  async #settle(): Promise<void> {
    const head = await this.engine.head(this.timeline)
    this.#branch = head?.base?.timeline
    const archive = head?.base?.timeline.startsWith(`${this.timeline}~`) ? head.base.timeline : null
    if (archive !== null && this.state.archive !== archive) {
      const asked = await finishBranch(this.engine, this.definition, this.#open, archive, head!.base!.seq)
      this.#asked = asked?.again ? asked : null
    } else if (this.state.rollingBack) await this.#finishRollback()
  }

  async #again(asked: RollbackAsked): Promise<void> {
    this.#asked = null
    if (asked.again && this.state.turn === asked.toTurn) await this.#start(asked.again.input, asked.again.key)
  }

  /** Decisions that came by mail, from another process. */
  async #takeDecisions(): Promise<void> {
    if (this.state.status !== 'waiting') return
    for (const message of await this.#open.inbox()) {
      if (message.kind !== 'decision') continue
      const decision = this.engine.openMessage(message) as Decision
      await writeDecision(this.#open as OpenTimeline<SessionState<unknown>>, decision, [message.id])
      return
    }
  }

  #turnOf(key: string): number | null {
    if (!this.#open.hasKey(`turn:${key}`)) return null
    for (const record of this.state.turns.values({ reverse: true })) if (record.key === key) return record.turn
    return null
  }

  #result(turn: number): TurnResult {
    return resultOf(this.state as SessionState<unknown>, turn)
  }
}
