// The open timeline of a session, which a rollback replaces by a branch. The decision for a rollback is durable first, then its
// compensations run, then the branch is created and records the undone part. After a crash, the next process that opens the
// session continues from that point.

import type { TimelineId } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import { compensationPlan } from '../../core/history/effects.ts'
import type { Inherited } from '../../core/history/inheritance.ts'
import { isArchiveOf } from '../../core/history/scope.ts'
import { checkInherited } from '../../engine/branch/rollback.ts'
import type { Host } from '../../engine/host/host.ts'
import type { OpenOptions } from '../../engine/model/definition.ts'
import type { Consumer } from '../../engine/model/rollback-report.ts'
import type { OpenTimeline } from '../../engine/writing/timeline.ts'
import type { Settings } from './message.ts'
import { compensateAll, finishBranch, planRollback, type SessionRollbackPlan } from './rollback.ts'
import type { AgentSpec } from './spec.ts'
import { entry, messagesOfTurn, place, type RollbackAsked, type SessionState } from './state.ts'

/** The reason for a rollback, and how the session continues after it. */
export interface RollbackReason {
  readonly because: string
  readonly settings: Settings
  readonly guardrail: string | null
  /** Whether the turn after the target is repeated. */
  readonly isAgain: boolean
  /** Also undo the inherited calls of this fork. */
  readonly undo?: 'inherited'
  /** The timelines that have acted on the undone entries. Default: those found when the branch is created. */
  readonly consumed?: readonly Consumer[]
}

export class SessionTimeline<Data> {
  readonly engine: Host
  readonly definition: AgentSpec<Data>
  readonly timeline: TimelineId
  #open: OpenTimeline<SessionState<Data>>
  #request: RollbackAsked | null = null

  static async open<Data>(
    engine: Host,
    definition: AgentSpec<Data>,
    timeline: TimelineId,
    options: OpenOptions,
  ): Promise<SessionTimeline<Data>> {
    const open = await engine.openTimeline(timeline, definition.fold, options)
    const line = new SessionTimeline(engine, definition, timeline, open)
    try {
      await line.#settle()
    } catch (error) {
      await line.open.close()
      throw error
    }
    return line
  }

  private constructor(
    engine: Host,
    definition: AgentSpec<Data>,
    timeline: TimelineId,
    open: OpenTimeline<SessionState<Data>>,
  ) {
    this.engine = engine
    this.definition = definition
    this.timeline = timeline
    this.#open = open
  }

  /** Do not keep a reference: a rollback opens a new timeline. */
  get open(): OpenTimeline<SessionState<Data>> {
    return this.#open
  }

  /** The same, for code that does not use the user's data. */
  get anyOpen(): OpenTimeline<SessionState<unknown>> {
    return this.#open as OpenTimeline<SessionState<unknown>>
  }

  get state(): SessionState<Data> {
    return this.#open.state
  }

  /** A rollback is finished, and the turn to repeat has not begun yet. */
  get owesATurn(): boolean {
    return this.#request !== null
  }

  plan(to: { readonly turn: number } | { readonly seq: number }, undo?: 'inherited'): SessionRollbackPlan {
    const { merged } = this.state
    if (undo && merged) {
      const what = `${merged.into} took over the calls of ${this.timeline}: roll that one back`
      throw new RepriseError('INHERITED', what, { timeline: this.timeline, inheritedFrom: merged.into })
    }
    return planRollback(this.anyOpen.state, this.#open.ledger, to, this.inherited, undo)
  }

  /** Rejects as a whole if another session has already undone an inherited call of the plan. */
  async checkUndo({ seq }: SessionRollbackPlan): Promise<void> {
    const { inherited } = compensationPlan(this.#open.ledger, seq, this.inherited)
    await checkInherited(this.engine.kernel, inherited, this.timeline)
  }

  /**
   * Calls that this session does not own: those of its original, and those taken over by the session it was merged
   * into.
   */
  get inherited(): readonly Inherited[] {
    const { merged } = this.state
    return merged ? [{ timeline: merged.into, upTo: merged.seq }, ...this.#open.inherited] : this.#open.inherited
  }

  async start(input: unknown, key: string | null): Promise<void> {
    const turn = this.state.turn + 1
    await this.#open.write(
      [{ ...entry('turn.started', { turn, input, key }), ...(key !== null && { key: `turn:${key}` }) }],
      { status: 'running' },
    )
  }

  /** Returns the archive that holds the entries that were rolled back. */
  async rollback(plan: SessionRollbackPlan, reason: RollbackReason): Promise<string> {
    await this.#ask(plan, reason)
    const archive = await this.#finish()
    await this.askAgain()
    return archive
  }

  async askAgain(): Promise<void> {
    const request = this.#request
    this.#request = null
    if (request?.again && this.state.turn === request.toTurn) await this.start(request.again.input, request.again.key)
  }

  async #ask(
    plan: SessionRollbackPlan,
    { settings, because, guardrail, isAgain, undo, consumed }: RollbackReason,
  ): Promise<void> {
    const next = this.state.turns.get(place(plan.toTurn + 1))
    const [input] = next ? messagesOfTurn(this.anyOpen.state, next.turn) : []
    const again = isAgain && next && input ? { input: input.content, key: next.key } : null
    const { toTurn, seq } = plan
    const request: RollbackAsked = {
      ...{ toTurn, seq, settings, because, again },
      ...(guardrail !== null && { guardrail }),
      ...(undo && { undo }),
      ...(consumed && { consumed }),
    }
    await this.#open.write([entry('rollback.asked', request)])
  }

  /** Continues from the decision to the branch; the decision may be from an owner that crashed. */
  async #finish(): Promise<string> {
    const request = this.state.rollingBack!
    const { seq, undo } = request
    const tools = this.definition.options.tools ?? {}
    await compensateAll(this.engine.kernel, this.anyOpen, this.plan({ seq }, undo), tools, undo ? { undo } : {})
    // The consumers were checked when the rollback was requested. A guardrail forces the rollback.
    const { archive } = await this.engine.rollbackTimeline(
      { timeline: this.timeline, seq: request.seq },
      { consumed: request.consumed ?? 'force' },
    )
    this.#open = await this.engine.openTimeline(this.timeline, this.definition.fold)
    await this.#settle()
    return archive
  }

  /** Called after opening: finishes a decided or partial rollback, and loads which branch this is. */
  async #settle(): Promise<void> {
    const head = await this.engine.head(this.timeline)
    const base = head?.base?.timeline
    const archive = base && isArchiveOf(this.timeline, base) ? base : null
    if (archive !== null && this.state.archive !== archive) {
      const request = await finishBranch(this.engine, this.definition, this.#open, archive, head!.base!.seq)
      this.#request = request?.again ? request : null
    } else if (this.state.rollingBack) await this.#finish()
  }
}
