// Several sessions that send each other messages, captured as one consistent cut. A member that begins a cut, or meets
// its first marker, records its own place and sends markers to all others in the same commit; what comes on a channel
// between that and the channel's marker was in flight, and is captured (Chandy and Lamport, over the inbox, which keeps
// the order of each sender). Restored together, every member goes back to its place and what was in flight comes again.

import type { MessageId, TimelineId } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import type { Exchange, ProcessHistory, RecoveryLine } from '../../core/recovery-line.ts'
import { recoveryLine } from '../../core/recovery-line.ts'
import { idBelow } from '../../core/scope.ts'
import { existing } from '../../engine/fork.ts'
import { entriesOf, floorOf, lineageOf, readHistory } from '../../engine/history.ts'
import { newId } from '../../engine/kernel.ts'
import { recover } from '../../engine/recover.ts'
import { messageContext, type Reprise } from '../../engine/reprise.ts'
import type { OpenTimeline } from '../../engine/timeline.ts'
import { entry } from './calls.ts'
import type { AgentDefinition } from './definition.ts'
import type { CutState, SessionState } from './state.ts'

export interface Group {
  readonly engine: Reprise
  readonly open: OpenTimeline<SessionState<unknown>>
  readonly prefix: string
}

export interface Received {
  readonly from: string
  readonly content: unknown
}

interface AgentMail {
  readonly from: string
  readonly seq: number
  readonly content: unknown
}

interface MarkerMail {
  readonly cut: string
  readonly from: string
  readonly members: readonly string[]
}

export async function sendMail(group: Group, to: string, content: unknown): Promise<void> {
  const { open, engine } = group
  const id = newId(engine.kernel.random)
  const mail: AgentMail = { from: open.id, seq: open.seq + 1, content }
  await open.write([entry('sent', { to, id, content })], { send: [outgoing(engine, to, id, 'agent-message', mail)] })
}

/** Everything that has come, in order. */
export async function receiveMail(group: Group): Promise<Received[]> {
  const { engine, open, prefix } = group
  const received: Received[] = []
  for (;;) {
    const messages = (await open.inbox()).filter(({ kind }) => kind === 'agent-message' || kind === 'cut-marker')
    if (messages.length === 0) return received
    for (const message of messages) {
      if (message.kind === 'cut-marker') {
        await meetMarker(group, engine.openMessage(message) as MarkerMail, message.id)
        continue
      }
      const { from, content } = engine.openMessage(message) as AgentMail
      const cut = Object.entries(open.state.cuts).find(
        ([, at]) => at.members.includes(from) && !at.closed.includes(from) && from !== open.id,
      )?.[0]
      const data = { from, id: message.id, content, ...(cut !== undefined && { cut }) }
      await open.write([entry('received', data)], { consume: [message.id] })
      received.push({ from: idBelow(prefix, from) ?? from, content })
    }
  }
}

async function meetMarker(group: Group, { cut, from, members }: MarkerMail, id: MessageId): Promise<void> {
  if (group.open.state.cuts[cut]) await group.open.write([entry('cut.closed', { cut, from })], { consume: [id] })
  else await joinCut(group, cut, members, from, [id])
}

/** Records this member's place, and tells the others. */
export async function joinCut(
  group: Group,
  cut: string,
  members: readonly string[],
  from: string | null,
  consume: readonly MessageId[] = [],
): Promise<void> {
  const { open, engine } = group
  if (!members.includes(open.id)) throw new RepriseError('INVALID_ARGUMENT', `${open.id} is not a member of the cut`)
  if (open.state.cuts[cut]) throw new RepriseError('EXISTS', `there is a cut ${cut} already`, { cut })
  const mail: MarkerMail = { cut, from: open.id, members }
  await open.write([entry('cut.recorded', { cut, members, from })], {
    consume,
    send: members
      .filter((member) => member !== open.id)
      .map((member) => outgoing(engine, member, `cut ${cut} ${open.id}`, 'cut-marker', mail)),
  })
  await open.checkpoint({ trigger: 'cut', label: cut })
}

function outgoing(engine: Reprise, to: string, id: string, kind: string, data: unknown) {
  const { codec, sealer } = engine.kernel
  return {
    id: id as MessageId,
    to: to as TimelineId,
    kind,
    data: sealer.sealChecked(codec.encode(data), messageContext(to, id)),
  }
}

export interface Cut {
  readonly name: string
  readonly isComplete: boolean
  /** Members that have not recorded their place, or still miss a marker. */
  readonly missing: readonly string[]
  /** By member, without the prefix. */
  readonly at: Readonly<Record<string, number>>
  readonly inFlight: readonly {
    readonly from: string
    readonly to: string
    readonly id: string
    readonly content: unknown
  }[]
}

/** @example await readCut(rp, team, ['writer', 'reviewer'], 'before-release') */
export async function readCut<Data>(
  engine: Reprise,
  definition: AgentDefinition<Data>,
  members: readonly string[],
  name: string,
): Promise<Cut> {
  const states = await Promise.all(
    members.map(async (member): Promise<[string, CutState | undefined]> => {
      const head = await existing(engine.kernel, (definition.prefix + member) as TimelineId)
      const { state } = await recover(engine.kernel, head, definition.fold)
      return [member, state.value.cuts[name]]
    }),
  )
  const isWhole = (at: CutState | undefined) => at !== undefined && at.closed.length === at.members.length - 1
  return {
    name,
    isComplete: states.every(([, at]) => isWhole(at)),
    missing: states.filter(([, at]) => !isWhole(at)).map(([member]) => member),
    at: Object.fromEntries(states.flatMap(([member, at]) => (at ? [[member, at.seq]] : []))),
    inFlight: states.flatMap(([member, at]) =>
      (at?.inFlight ?? []).map((one) => ({ ...one, to: definition.prefix + member })),
    ),
  }
}

/** All members back to a complete cut, together. Their sessions are opened, rolled back (effects undone) and closed. */
export async function restoreCut<Data>(
  engine: Reprise,
  definition: AgentDefinition<Data>,
  members: readonly string[],
  name: string,
): Promise<Cut> {
  const cut = await readCut(engine, definition, members, name)
  if (!cut.isComplete) throw new RepriseError('CONFLICT', `the cut ${name} is not complete`, { missing: cut.missing })
  for (const member of members) {
    const session = await engine.open(definition, member)
    await session.rollbackTo(cut.at[member]!, { because: `restored to the cut ${name}` })
    await session.dropMail((mail) => isAfterCut(definition.prefix, cut, mail as AgentMail))
    await session.close()
  }
  // Only now: a member that is restored later must not meet what another was given again.
  for (const { from, to, id, content } of cut.inFlight) {
    const mail: AgentMail = { from, seq: 0, content }
    await engine.send(to, 'agent-message', mail, { id: `${id} again after ${name}` })
  }
  return cut
}

function isAfterCut(prefix: string, cut: Cut, mail: AgentMail): boolean {
  const from = typeof mail.from === 'string' ? idBelow(prefix, mail.from) : null
  const at = from === null ? undefined : cut.at[from]
  return at !== undefined && mail.seq > at
}

/** The recovery line of sessions that checkpoint on their own, with the cascade a failure would cause (A3.5). */
export async function groupRecoveryLine<Data>(
  engine: Reprise,
  definition: AgentDefinition<Data>,
  members: readonly string[],
  failed: readonly string[] = members,
): Promise<RecoveryLine> {
  const processes: ProcessHistory[] = []
  const sent = new Map<string, { from: string; to: string; seq: number }>()
  const got = new Map<string, number>()
  for (const member of members) {
    const head = await existing(engine.kernel, (definition.prefix + member) as TimelineId)
    const catalog = await engine.checkpoints(head.timeline)
    const points = catalog.filter((record) => record.invalid === null && record.verifiedAt !== null)
    processes.push({ id: head.timeline, seq: head.seq, checkpoints: points.map((record) => record.seq) })
    const lineage = await lineageOf(engine.kernel, head)
    const history = readHistory(engine.kernel, lineage, floorOf(lineage), head.seq)
    for (let step = await history.next(); !step.done; step = await history.next()) {
      for (const each of entriesOf(engine.kernel, step.value)) {
        const data = each.data as { readonly id: string; readonly to: string }
        if (each.type === 'sent') sent.set(data.id, { from: head.timeline, to: data.to, seq: each.seq })
        if (each.type === 'received') got.set(data.id, each.seq)
      }
    }
  }
  const exchanges = [...sent].map(
    ([id, { from, to, seq }]): Exchange => ({ id, from, sentSeq: seq, to, receivedSeq: got.get(id) ?? null }),
  )
  return recoveryLine(
    processes,
    exchanges,
    failed.map((member) => definition.prefix + member),
  )
}
