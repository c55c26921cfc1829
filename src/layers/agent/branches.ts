// Compares branches of a session: their messages, costs and outcomes after the fork point. Merges the chosen branch
// back into the session it was forked from, entry by entry.

import type { TimelineId } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import { listEffects } from '../../core/history/effects.ts'
import { checkOptions, namesOf } from '../../core/options.ts'
import type { Head } from '../../core/store/ports.ts'
import { decideConsumed } from '../../engine/branch/consumers.ts'
import { digestAt, type Entry, entriesOf, lineageOf, readHistory } from '../../engine/history/history.ts'
import { type Host, hostOf } from '../../engine/host/host.ts'
import type { Engine } from '../../engine/model/definition.ts'
import { checkFolding } from '../../engine/model/definition.ts'
import { writeTo } from '../../engine/writing/write-to.ts'
import { differences } from '../../lib/differences.ts'
import type { AgentDefinition } from './definition.ts'
import type { Message, Usage } from './message.ts'
import type { SessionRollbackOptions } from './options.ts'
import type { AgentSpec } from './spec.ts'
import type { SessionState } from './state.ts'

export interface BranchView<Data> {
  readonly id: string
  readonly turns: number
  readonly status: string
  readonly usage: Usage
  /** Messages after the fork point. */
  readonly messages: readonly Message[]
  readonly data: Data
  /** Calls that changed the world and were not undone, by tool. */
  readonly effects: readonly { readonly tool: string; readonly outcome: string | null }[]
}

export interface SessionComparison<Data> {
  /** The last sequence that both histories share. */
  readonly commonSeq: number
  readonly a: BranchView<Data>
  readonly b: BranchView<Data>
  /** Paths in the data that differ, with both values. */
  readonly differences: readonly { readonly path: string; readonly a: unknown; readonly b: unknown }[]
}

/** @example await compareSessions(rp, support, 'ticket-42', 'ticket-42-gentle') */
export async function compareSessions<Data>(
  rp: Engine,
  definition: AgentDefinition<Data>,
  a: string,
  b: string,
): Promise<SessionComparison<Data>> {
  const engine = hostOf(rp)
  const [one, other] = await Promise.all([load(engine, definition, a), load(engine, definition, b)])
  const commonSeq = common(one.lineage, other.lineage)
  const before = await engine.recover(one.head, definition.fold, { to: commonSeq })
  const shared = before.state.value.messages.size
  return {
    commonSeq,
    a: view(a, one, shared),
    b: view(b, other, shared),
    differences: differences(one.state.data, other.state.data, {
      dataOf: (value) => engine.codec.dataOf(value),
    }).map(({ path, before: ofOne, after: ofOther }) => ({ path: path || '.', a: ofOne, b: ofOther })),
  }
}

interface Loaded<Data> {
  readonly head: Head
  readonly lineage: readonly Head[]
  readonly state: SessionState<Data>
  readonly effects: ReturnType<typeof listEffects>
}

async function load<Data>(engine: Host, definition: AgentSpec<Data>, id: string): Promise<Loaded<Data>> {
  checkFolding(definition)
  const head = await engine.existing((definition.prefix + id) as TimelineId)
  const lineage = await lineageOf(engine.kernel, head)
  const { state } = await engine.recover(head, definition.fold)
  return { head, lineage, state: state.value, effects: listEffects(state.ledger) }
}

/** The last sequence that two timelines share: the lowest point at which either left a common ancestor. */
function common(one: readonly Head[], other: readonly Head[]): number {
  let best = 0
  for (const [i, a] of one.entries()) {
    const j = other.findIndex((b) => b.timeline === a.timeline)
    if (j < 0) continue
    const endOfA = i === 0 ? a.seq : one[i - 1]!.base!.seq
    const endOfB = j === 0 ? a.seq : other[j - 1]!.base!.seq
    best = Math.max(best, Math.min(endOfA, endOfB))
  }
  return best
}

function view<Data>(id: string, { state, effects }: Loaded<Data>, shared: number): BranchView<Data> {
  const changing = effects.filter((effect) => {
    const kind = state.calls.get(effect.id)?.kind
    return kind !== undefined && kind !== 'model' && kind !== 'read-only'
  })
  return {
    id,
    turns: state.turn,
    status: state.waiting ? `waiting: ${state.waiting.reason}` : state.status,
    usage: state.usage,
    messages: [...state.messages.values()].slice(shared),
    data: state.data,
    effects: changing.map(({ name, outcome }) => ({ tool: name, outcome })),
  }
}

const mergeOptions = namesOf<Pick<SessionRollbackOptions, 'consumed'>>()('consumed')

/**
 * Merges a branch into the session it was forked from: the session is rolled back to the fork point (its later effects
 * are undone) and receives the branch's entries, effects included, as its own. The branch stays as it is. Rejects with
 * CONSUMED if other timelines have acted on the session's entries since; `consumed: 'force'` merges anyway.
 */
export async function mergeBranch<Data>(
  rp: Engine,
  definition: AgentDefinition<Data>,
  into: string,
  from: string,
  options: Pick<SessionRollbackOptions, 'consumed'> = {},
): Promise<{ readonly entries: number; readonly undone: number }> {
  checkOptions('mergeBranch', options, mergeOptions)
  const engine = hostOf(rp)
  const [target, branch] = await Promise.all([load(engine, definition, into), load(engine, definition, from)])
  const seq = common(target.lineage, branch.lineage)
  const base = branch.head.base
  if (!base || seq === 0) {
    throw new RepriseError('NOT_ON_BRANCH', `${from} and ${into} have no history in common`, { into, from })
  }
  const before = { seq, digest: await digestAt(engine.kernel, branch.lineage, seq) }
  const entries: Entry[] = []
  const history = readHistory(engine.kernel, branch.lineage, before, branch.head.seq)
  for (let step = await history.next(); !step.done; step = await history.next()) {
    entries.push(...entriesOf(engine.kernel, step.value))
  }
  // Rejects before anything is written.
  if (target.head.seq > seq) await decideConsumed(engine.kernel, target.head, seq, options.consumed)
  // From now on the target session owns the branch's calls: only the target undoes them.
  const merged = [{ type: 'merged', data: { into: target.head.timeline } }]
  await writeTo(engine, branch.head.timeline, definition.fold, ({ state }) => (state.merged ? [] : merged))
  const session = await engine.open(definition, into)
  try {
    const undone =
      target.head.seq > seq ? await session.rollback({ ...options, to: { seq }, reason: `${from} was chosen` }) : null
    await session.adoptEntries(entries)
    return { entries: entries.length, undone: undone?.plan.compensate.length ?? 0 }
  } finally {
    await session.close()
  }
}
