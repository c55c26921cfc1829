// Rolls a session back: first a plan that lists the calls that will be undone and those that cannot be, then the
// rollback. The decision is durable before anything is undone; compensations run in reverse, each recorded; then the
// session continues as a branch. After a crash, the next owner finishes the rollback. The branch records the calls that
// could not be undone, so that it does not repeat them. A fork undoes its own calls; inherited calls are undone only by
// choice.

import type { TimelineId } from '../../core/coordinate.ts'
import { isReprise, RepriseError } from '../../core/errors.ts'
import { compensationPlan, type Effect, type EffectLedger, listEffects } from '../../core/history/effects.ts'
import type { Inherited } from '../../core/history/inheritance.ts'
import { decideRetry, patientRetry, resolveRetry } from '../../core/retry/retry.ts'
import type { CompensateOptions } from '../../engine/history/effects.ts'
import type { Host } from '../../engine/host/host.ts'
import type { NewEntry } from '../../engine/model/entry.ts'
import type { Kernel } from '../../engine/storage/kernel.ts'
import type { OpenTimeline } from '../../engine/writing/timeline.ts'
import { sleep } from '../../lib/waiting.ts'
import { messageOf } from './calls.ts'
import { idle, waits } from './due.ts'
import { addUsage, lessUsage, noUsage } from './message.ts'
import type { AgentSpec } from './spec.ts'
import {
  type CallRecord,
  entry,
  place,
  type RollbackAsked,
  type SessionState,
  type StandingCall,
  spentInTurn,
} from './state.ts'
import type { Tools } from './tool.ts'

/** A call in a plan. */
export interface PlannedCall {
  readonly id: string
  readonly turn: number
  readonly tool: string
  readonly args: unknown
  readonly result: unknown
  readonly key: string
}

export interface SessionRollbackPlan {
  readonly toTurn: number
  readonly seq: number
  /** To undo, in this order. */
  readonly compensate: readonly PlannedCall[]
  /** Happened and stays: irreversible, or without a declared compensation. */
  readonly cannot: readonly PlannedCall[]
  /** Unknown whether they happened: decide these first. */
  readonly inDoubt: readonly PlannedCall[]
  /** For a fork: made by its original, and not touched. */
  readonly inherited: readonly (PlannedCall & { readonly inheritedFrom: string })[]
  readonly turnsLost: number
}

/** To the end of a turn, or to any earlier sequence. */
export function planRollback(
  state: SessionState<unknown>,
  ledger: EffectLedger,
  to: { readonly turn: number } | { readonly seq: number },
  inherited: readonly Inherited[] = [],
  undo?: 'inherited',
): SessionRollbackPlan {
  const seq = 'seq' in to ? to.seq : seqOfTurn(state, to.turn)
  const toTurn = 'turn' in to ? to.turn : turnAt(state, to.seq)
  const plan = compensationPlan(ledger, seq, inherited)
  const shown = <E extends Effect>(effects: readonly E[]) =>
    effects.flatMap((effect) => {
      const call = state.calls.get(effect.id)
      return call && matters(call) ? [plannedCall(call, effect)] : []
    })
  const isUndone = ({ reversal }: Effect) => undo !== undefined && reversal === 'compensate'
  return {
    toTurn,
    seq,
    compensate: [...shown(plan.compensate), ...shown(plan.inherited.filter(isUndone))],
    cannot: shown(plan.cannot),
    inDoubt: shown(plan.inDoubt),
    inherited: shown(plan.inherited.filter((effect) => !isUndone(effect))),
    turnsLost: state.turn - toTurn,
  }
}

/** Model calls and read-only tools need no undo. */
function matters(call: CallRecord): boolean {
  return call.kind !== 'model' && call.kind !== 'read-only'
}

function plannedCall<E extends Effect>(call: CallRecord, effect: E): PlannedCall & Pick<E, 'inheritedFrom' & keyof E> {
  const { id, turn, tool, args, result } = call
  const owner = 'inheritedFrom' in effect ? { inheritedFrom: effect.inheritedFrom } : {}
  return { id, turn, tool, args, result, key: effect.key, ...owner } as PlannedCall & Pick<E, 'inheritedFrom' & keyof E>
}

/** The last turn that had begun by then. */
function turnAt(state: SessionState<unknown>, seq: number): number {
  for (const record of state.turns.values({ reverse: true })) if (record.startedSeq <= seq) return record.turn
  return 0
}

/** The sequence at which a turn ended; turn 0 is before the first. */
function seqOfTurn(state: SessionState<unknown>, turn: number): number {
  if (turn === 0) {
    const first = state.turns.get(place(1))
    return first ? first.startedSeq - 1 : 0
  }
  const record = state.turns.get(place(turn))
  if (record?.endedSeq == null) {
    throw new RepriseError('OUT_OF_RANGE', `turn ${turn} has not ended: choose one from 0 to ${state.turn - 1}`, {
      turn,
    })
  }
  return record.endedSeq
}

/**
 * Undoes the calls of the plan in reverse. A compensation that keeps failing stops the rollback; the next owner resumes
 * it.
 */
export async function compensateAll(
  { clock, random, worker }: Kernel,
  open: OpenTimeline<SessionState<unknown>>,
  plan: SessionRollbackPlan,
  tools: Tools,
  options: CompensateOptions,
): Promise<void> {
  for (const call of plan.compensate) {
    const { compensate: undo, compensateRetry } = tools[call.tool] ?? {}
    if (!undo) {
      throw new RepriseError('INVALID_ARGUMENT', `${call.tool} declared a compensation, and this definition has none`, {
        tool: call.tool,
        call: call.id,
      })
    }
    const policy = resolveRetry(compensateRetry, patientRetry)
    for (let failures = 0; ; ) {
      // A failure of the store is not a failed compensation.
      let isOurs = true
      try {
        await open.effects.compensate(
          call.id,
          async (_effect, key) => {
            isOurs = false
            const undone = await undo(call.args, call.result, { key })
            isOurs = true
            return undone
          },
          options,
        )
        break
      } catch (error) {
        // Another session has undone the call first.
        if (isReprise(error, 'ALREADY_UNDONE')) {
          await open.effects.settle(call.id, 'compensated', String(error.data.by ?? error.data.inheritedFrom))
          break
        }
        if (isOurs) throw error
        const given = { chance: () => random.number(), now: worker.now() }
        const { again, delayMs, counts } = decideRetry(policy, failures + 1, error, given)
        if (counts) failures += 1
        if (again && !open.broken) {
          await sleep(clock, delayMs)
          continue
        }
        const reason = `${call.tool} (${call.id}) could not be undone: ${messageOf(error)}`
        if (!open.broken) await open.write([entry('interrupted', { kind: 'handover', reason, call: call.id })], waits)
        throw new RepriseError('RUN_FAILED', reason, { call: call.id, tool: call.tool }, error)
      }
    }
  }
}

/** The branch exists but does not have its `rolled-back` entry yet: builds the entry from the archive and writes it. */
export async function finishBranch<Data>(
  engine: Host,
  definition: AgentSpec<Data>,
  open: OpenTimeline<SessionState<Data>>,
  archive: string,
  seq: number,
): Promise<SessionState<Data>['rollingBack']> {
  const head = await engine.existing(archive as TimelineId)
  const { state } = await engine.recover(head, definition.fold)
  const past = state.value
  const request = past.rollingBack
  const counted = request?.guardrail
  const rollbacks =
    counted === undefined ? past.rollbacks : { ...past.rollbacks, [counted]: (past.rollbacks[counted] ?? 0) + 1 }
  const standing = standingAfter(past, state.ledger, seq)
  const settings = request?.settings ?? {}
  const spent = spending(past, open.state, request)
  const rolledBack = entry('rolled-back', { archive, rollbacks, standing, settings, ...spent })
  await open.write([...lateAnswers(past, open), rolledBack], idle)
  return request
}

/**
 * A call that began before the target and returned after it stays done: without its result it could not be undone
 * later.
 */
function lateAnswers(past: SessionState<unknown>, { state, ledger }: OpenTimeline<SessionState<unknown>>): NewEntry[] {
  return listEffects(ledger).flatMap(({ id, outcome }) => {
    const [before, now] = [past.calls.get(id), state.calls.get(id)]
    if (outcome !== 'done' || before?.state !== 'done' || !matters(before) || now?.state === 'done') return []
    const { result, ...call } = before
    return [...(now ? [] : [entry('called', { ...call, state: 'intended' })]), entry('returned', { id, result })]
  })
}

/** A rollback does not return spent money: usage after the target is still charged, also to a repeated turn. */
function spending(past: SessionState<unknown>, now: SessionState<unknown>, request: RollbackAsked | null) {
  const lost = addUsage(past.lost ?? noUsage, lessUsage(past.usage, now.usage))
  if (!request?.again) return { lost }
  const turn = request.toTurn + 1
  return { lost, carried: { turn, usage: spentInTurn(past, turn) } }
}

/** Calls that were done after the target and not undone, whether an undo was planned or not. */
function standingAfter(state: SessionState<unknown>, ledger: EffectLedger, seq: number): StandingCall[] {
  const { compensate, cannot } = compensationPlan(ledger, seq)
  return [...compensate, ...cannot]
    .sort((a, b) => a.endedSeq! - b.endedSeq!)
    .flatMap((effect) => {
      const call = state.calls.get(effect.id)
      if (!call || !matters(call)) return []
      const { tool, digest, args, result } = call
      return [{ tool, digest, args, result, key: effect.key }]
    })
}
