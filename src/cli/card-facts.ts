// The recovery card as lines for people: each line shows one figure of the card.

import type { RecoveryReport } from '../engine/base/recovery-report.ts'
import type { RecoveryCard } from '../engine/tools/drill/card.ts'
import { type LossBudget, lossText } from '../engine/tools/drill/loss-budget.ts'
import { bytes, count, ms, relative } from './format.ts'

export interface CardFact {
  readonly name: string
  readonly text: string
  readonly tone?: 'good' | 'bad'
}

/** True if a recovery would lose data, or does not succeed. */
export function isLossy({ missing, recovery }: Pick<RecoveryCard, 'missing' | 'recovery'>): boolean {
  return missing !== null || (recovery?.entriesLost ?? 0) > 0
}

export function cardFacts(card: RecoveryCard, now: number): CardFact[] {
  const { captured, history, floor, coordinate, checkpointing, invalid } = card
  const drilled = captured?.drilledAt ? `${captured.drill ?? ''} ${relative(captured.drilledAt, now)}`.trim() : 'never'
  return [
    ...axisNames.map(([name, axis]) => ({ name, text: `${card.axes[axis].is}: ${card.axes[axis].because}` })),
    { name: 'coordinate', text: `@${coordinate.seq}, epoch ${coordinate.epoch}` },
    { name: 'digest', text: coordinate.digest },
    { name: 'owner', text: ownerText(card.owner) },
    { name: 'captured', text: capturedText(captured, now) },
    { name: 'drilled', text: drilled },
    { name: 'to replay', text: replayText(history) },
    { name: 'history', text: `${history.floor + 1} to ${history.head}` },
    { name: 'may go', text: `${floor.seq > history.floor ? `up to ${floor.seq}` : 'nothing'}: ${floor.because}` },
    { name: 'checkpoints', text: `${card.checkpoints}; ${checkpointing.because.join('; ')}` },
    ...(card.loss === null ? [] : [lossFact(card.loss)]),
    ...stallOf(checkpointing.costs.stallMs),
    { name: 'effects', text: effectsText(card) },
    ...(invalid === null ? [] : [{ name: 'state', text: `not valid: ${invalid}`, tone: 'bad' as const }]),
    recoveryFact(card),
  ]
}

const axisNames = [
  ['authority', 'authority'],
  ['content', 'captured'],
  ['scope', 'scope'],
  ['economics', 'economics'],
  ['replay', 'replay'],
] as const

function ownerText(owner: RecoveryCard['owner']): string {
  if (!owner) return 'nobody'
  const progress = owner.msSinceProgress === null ? '' : `, progress ${ms(owner.msSinceProgress)} ago`
  return `${owner.worker}, ${owner.isAlive ? 'alive' : 'gone'}${progress}`
}

function capturedText(captured: RecoveryCard['captured'], now: number): string {
  if (!captured) return 'nothing: recovery starts at the origin'
  const { id, seq, at, trigger, consistency, isVerified } = captured
  const verified = isVerified ? 'verified' : 'not verified'
  return `checkpoint ${id} at ${seq}, ${bytes(captured.bytes)}, ${relative(at, now)}, by ${trigger}, ${consistency}-consistent, ${verified}`
}

function replayText({ entriesAfterCheckpoint, again }: RecoveryCard['history']): string {
  const entries = count(entriesAfterCheckpoint, 'entry', 'entries')
  return again ? `${entries}; ${again.what}, up to ${ms(again.ms)} of it` : entries
}

function effectsText({ effects, missing }: RecoveryCard): string {
  if (!effects) return missing ? 'not known' : 'not known: name the definition with --module'
  const { safe, compensatable, irreversible, byDefinition, inDoubt } = effects
  const left = byDefinition > 0 ? `, ${byDefinition} only by their definition` : ''
  return `${safe} recorded, ${compensatable} can be compensated${left}, ${irreversible} cannot, ${inDoubt} in doubt`
}

function lossFact(loss: LossBudget): CardFact {
  return { name: 'loss budget', text: lossText(loss), ...(!loss.isKept && { tone: 'bad' as const }) }
}

/** Shown only if people would notice it. */
function stallOf(stallMs: number | null): CardFact[] {
  if (stallMs === null || stallMs < 50) return []
  return [{ name: 'longest stall', text: `${ms(stallMs)} in the last checkpoint` }]
}

function recoveryFact({ missing, recovery }: RecoveryCard): CardFact {
  const name = 'recovery now'
  if (missing) return { name, text: missing, tone: 'bad' }
  if (!recovery) return { name, text: 'not measured: name the definition with --module' }
  return { name, text: recoveryText(recovery), tone: isLossy({ missing, recovery }) ? 'bad' : 'good' }
}

function recoveryText(report: RecoveryReport): string {
  const { totalMs, entriesReplayed, bytesRead, healed, skipped, entriesLost } = report
  const parts = [
    `${ms(totalMs)} (measured)`,
    `${count(entriesReplayed, 'entry', 'entries')} replayed`,
    `${bytes(bytesRead)} read`,
    ...(healed > 0 ? [`${count(healed, 'chunk')} rebuilt`] : []),
    ...skipped.map(({ id, why }) => `checkpoint ${id} skipped: ${why}`),
    entriesLost > 0 ? `${count(entriesLost, 'entry', 'entries')} lost` : 'nothing lost',
  ]
  return parts.join(', ')
}
