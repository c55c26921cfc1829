// Runs the current turn to its end, step by step: reads decisions between steps and checks the guardrails after each. A
// violated guardrail rolls the session back to the last good turn, a bounded number of times, and then hands over to a
// person.

import { refuseThenable } from '../../core/synchronous.ts'
import { needModel, throwIfAborted } from './calls.ts'
import { nextDecision, writeDecision } from './decision.ts'
import { idle, waits } from './due.ts'
import type { Guardrail, GuardrailView } from './guardrail.ts'
import { resultOf, type TurnOptions, type TurnResult } from './options.ts'
import type { SessionTimeline } from './session-timeline.ts'
import { entry, messagesOfTurn, place } from './state.ts'
import { nextStep, type TurnHost, takeStep } from './turn.ts'
import { captureFiles } from './workspace.ts'

export async function runTurn<Data>(
  line: SessionTimeline<Data>,
  makeHost: () => TurnHost<Data>,
  options: TurnOptions<Data>,
): Promise<TurnResult> {
  const { stepsMax = 32, model: ownModel } = line.definition.options
  const model = options.model ?? ownModel
  if (!model) throw needModel()
  const soFar = () => resultOf(line.anyOpen.state, line.state.turn)
  for (;;) {
    await takeDecisions(line)
    if (line.state.status !== 'running') return soFar()
    throwIfAborted(options.signal)
    const step = nextStep(line.anyOpen.state)
    if (step.kind === 'end') break
    if (step.kind === 'model' && modelCalls(line) === 0 && (await isOverBefore(line))) return soFar()
    if (step.kind === 'model' && modelCalls(line) >= stepsMax && !line.state.calls.has(step.id)) {
      await handOver(line, `the turn took ${stepsMax} model calls`)
      return soFar()
    }
    const waiting = await takeStep(makeHost(), model, step)
    if (waiting || (await isStopped(line))) return soFar()
  }
  if (options.workspace) await captureFiles(line.engine.kernel, line.anyOpen, options.workspace)
  const { turn } = line.state
  await line.open.write([entry('turn.ended', { turn, outcome: 'done' })], idle)
  return soFar()
}

/** Reads decisions that another process sent by mail. */
export async function takeDecisions<Data>(line: SessionTimeline<Data>): Promise<void> {
  if (line.state.status !== 'waiting') return
  const { decision, consume } = await nextDecision(line.engine, line.timeline, await line.open.inbox())
  if (decision) await writeDecision(line.anyOpen, decision, consume)
  else if (consume.length > 0) await line.open.write([], { consume })
}

function modelCalls<Data>(line: SessionTimeline<Data>): number {
  let count = 0
  for (const call of line.state.calls.values({ prefix: `${place(line.state.turn)}.` })) {
    if (call.kind === 'model' && call.tool === 'model') count += 1
  }
  return count
}

/** Checks before the turn spends anything whether a budget is already used up. A person may have overruled it. */
async function isOverBefore<Data>(line: SessionTimeline<Data>): Promise<boolean> {
  if (line.state.overruled === line.state.turn) return false
  for (const guardrail of line.definition.options.guardrails ?? []) {
    const reason = guardrail.outlastsRollback && checked(guardrail, viewOf(line))
    if (!reason) continue
    await handOver(line, `${guardrail.name}: ${reason}`)
    return true
  }
  return false
}

function checked<Data>(guardrail: Guardrail<Data>, view: GuardrailView<Data>): ReturnType<Guardrail<Data>['check']> {
  const reason = guardrail.check(view)
  refuseThenable(reason, `check of the guardrail ${guardrail.name}`, 'decide from the view alone')
  return reason
}

function viewOf<Data>(line: SessionTimeline<Data>): GuardrailView<Data> {
  const { turn } = line.state
  return {
    state: line.state,
    messages: messagesOfTurn(line.anyOpen.state, turn),
    calls: [...line.state.calls.values({ prefix: `${place(turn)}.` })],
  }
}

/** Returns true if the session was handed over; a rolled back turn has begun again. */
async function isStopped<Data>(line: SessionTimeline<Data>): Promise<boolean> {
  const { turn } = line.state
  const view = viewOf(line)
  for (const guardrail of line.definition.options.guardrails ?? []) {
    const reason = checked(guardrail, view)
    if (!reason) continue
    const count = line.state.rollbacks[guardrail.name] ?? 0
    const plan = line.plan({ turn: turn - 1 })
    if (count >= (guardrail.rollbacksMax ?? 2) || plan.inDoubt.length > 0) {
      await handOver(line, `${guardrail.name}: ${reason}`)
      return true
    }
    const settings = guardrail.change?.(count + 1, reason) ?? {}
    await line.rollback(plan, { settings, because: reason, guardrail: guardrail.name, isAgain: true })
    return false
  }
  return false
}

async function handOver<Data>(line: SessionTimeline<Data>, reason: string): Promise<void> {
  await line.open.write([entry('interrupted', { kind: 'handover', reason })], waits)
}
