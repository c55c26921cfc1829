// The five axes of a timeline (D9): the authority on its state, the captured content, the scope of a capture, the cost
// of a recovery against its budget, and the safety of a replay. An axis is one word of the fixed list in its type and a
// sentence; both are computed from the recovery card.

import type { Consistency } from '../../../core/checkpoint/consistency.ts'
import { formatMs, toMs } from '../../../core/duration.ts'

export interface Axis<Word extends string> {
  readonly is: Word
  readonly because: string
}

export interface Axes {
  readonly authority: Axis<'history' | 'state' | 'external' | 'unknown'>
  readonly captured: Axis<'nothing' | 'state' | 'state and history'>
  readonly scope: Axis<'timeline' | 'lineage' | 'group'>
  readonly economics: Axis<'within budget' | 'over budget' | 'no budget' | 'not measured'>
  readonly replay: Axis<'safe' | 'repeats' | 'in doubt' | 'unknown'>
}

/** Null: the definition is not known here. */
export type DeclaredAuthority = 'history' | 'state' | 'external' | null

/** The figures of a recovery card from which the axes are computed. */
interface Measured {
  readonly captured: {
    readonly seq: number
    readonly label: string | null
    readonly consistency: Consistency
  } | null
  readonly history: { readonly floor: number; readonly again: { readonly what: string } | null }
  readonly lineage: readonly string[]
  readonly missing: string | null
  readonly recovery: { readonly totalMs: number } | null
  readonly settings: readonly { readonly name: string; readonly value: unknown }[]
  readonly checkpointing: {
    readonly costs: { readonly checkpointMs: number | null; readonly checkpointBytes: number | null }
  }
  readonly effects: { readonly safe: number; readonly inDoubt: number } | null
}

export function axesOf(card: Measured, authority: DeclaredAuthority): Axes {
  return {
    authority: authorityOf(authority),
    captured: capturedOf(card, authority),
    scope: scopeOf(card),
    economics: economicsOf(card, authority),
    replay: replayOf(card),
  }
}

const authorities = {
  history: 'the entries are authoritative, and state is derived from them',
  state: 'the newest checkpoint is authoritative, and no entry is replayed after it',
  external: 'another system holds the state, and the entries record the progress',
}

function authorityOf(declared: DeclaredAuthority): Axes['authority'] {
  if (declared === null) return { is: 'unknown', because: 'the definition is not known here' }
  return { is: declared, because: authorities[declared] }
}

const levels: Readonly<Record<Consistency, string>> = {
  crash: 'consistent after a crash',
  application: 'consistent for the application',
  distributed: 'consistent with its group',
}

function capturedOf({ captured, history }: Measured, authority: DeclaredAuthority): Axes['captured'] {
  if (!captured) return { is: 'nothing', because: `history begins at entry ${history.floor + 1}` }
  const because = `checkpoint at ${captured.seq}, ${levels[captured.consistency]}`
  return { is: authority === 'state' ? 'state' : 'state and history', because }
}

function scopeOf({ captured, lineage }: Measured): Axes['scope'] {
  if (captured?.consistency === 'distributed') return { is: 'group', because: captured.label ?? 'a cut' }
  if (lineage.length === 0) return { is: 'timeline', because: 'a recovery reads nothing of other timelines' }
  // The card lists their ids, for readers that reach them.
  const others = lineage.length === 1 ? 'another timeline' : `${lineage.length} other timelines`
  return { is: 'lineage', because: `a recovery also reads the history of ${others}` }
}

function economicsOf(
  { recovery, settings, checkpointing, missing }: Measured,
  authority: DeclaredAuthority,
): Axes['economics'] {
  const policy = settings.find(({ name }) => name === 'checkpoint')?.value as { recoverWithin?: string | number } | null
  const { checkpointMs, checkpointBytes } = checkpointing.costs
  const cost =
    checkpointMs === null ? '' : `; a checkpoint takes ${formatMs(checkpointMs)} and ${checkpointBytes ?? 0} bytes`
  if (!recovery) {
    const why = authority === null ? 'the definition is not known here' : `it cannot be recovered: ${missing}`
    return { is: 'not measured', because: `${why}${cost}` }
  }
  const took = `a recovery takes ${formatMs(recovery.totalMs)} now`
  if (policy?.recoverWithin === undefined) return { is: 'no budget', because: `${took}${cost}` }
  const isOver = recovery.totalMs > toMs(policy.recoverWithin, 'recoverWithin')
  return {
    is: isOver ? 'over budget' : 'within budget',
    because: `${took}, the budget is ${policy.recoverWithin}${cost}`,
  }
}

function replayOf({ effects, history }: Measured): Axes['replay'] {
  if (!effects) return { is: 'unknown', because: 'its effects cannot be read here' }
  if (effects.inDoubt > 0)
    return {
      is: 'in doubt',
      because: `the outcome of ${effects.inDoubt} effect${effects.inDoubt === 1 ? '' : 's'} is not recorded`,
    }
  if (history.again) return { is: 'repeats', because: history.again.what }
  const isOne = effects.safe === 1
  return {
    is: 'safe',
    because: `${effects.safe} recorded ${isOne ? 'effect is' : 'effects are'} not executed again`,
  }
}
