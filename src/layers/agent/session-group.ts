// Sessions that send each other messages. Each message is recorded at its sender, in the commit that sends it, and at
// its receiver, in the commit that removes it from the inbox. So the kernel (engine/tools/timeline-groups/groups.ts) can capture
// a group in one consistent cut, and restore it to a cut or to the recovery line of its members' checkpoints.

import type { TimelineId } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import type { RecoveryLine } from '../../core/history/recovery-line.ts'
import { idBelow } from '../../core/history/scope.ts'
import { checkList } from '../../core/options.ts'
import { type Host, hostOf } from '../../engine/host/host.ts'
import { readShaped } from '../../engine/host/shaped-mail.ts'
import type { Engine } from '../../engine/model/definition.ts'
import { checkFolding } from '../../engine/model/definition.ts'
import { describes } from '../../engine/model/model.ts'
import { newId } from '../../engine/storage/kernel.ts'
import { type GroupCut, Groups } from '../../engine/tools/timeline-groups/groups.ts'
import { groupLine } from '../../engine/tools/timeline-groups/plan.ts'
import type { GroupRestoreOptions } from '../../engine/tools/timeline-groups/restore.ts'
import type { OpenTimeline } from '../../engine/writing/timeline.ts'
import type { AgentSpec } from './spec.ts'
import { entry, type SessionState } from './state.ts'

export interface Group {
  readonly engine: Host
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

export async function sendMail(group: Group, to: string, content: unknown): Promise<void> {
  const { open, engine } = group
  const id = newId(engine.random)
  const mail: AgentMail = { from: open.id, seq: open.seq + 1, content }
  await open.write([entry('sent', { to, id, content })], { send: [engine.message(to, 'agent-message', mail, id)] })
}

/** All received messages, in order. */
export async function receiveMail(group: Group): Promise<Received[]> {
  const { engine, open, prefix } = group
  const received: Received[] = []
  for (;;) {
    const messages = (await open.inbox()).filter(({ kind }) => kind === 'agent-message' || kind === 'cut-marker')
    if (messages.length === 0) return received
    for (const message of messages) {
      if (message.kind === 'cut-marker') {
        // From an earlier version, whose sessions made cuts themselves: no member waits for an answer any longer.
        await open.write([], { consume: [message.id] })
        continue
      }
      const mail = readShaped(engine, message, { 'agent-message': { from: 'text' } }) as AgentMail | null
      if (mail === null) {
        await open.write([], { consume: [message.id] })
        continue
      }
      const { from, content } = mail
      await open.write([entry('received', { from, id: message.id, content })], { consume: [message.id] })
      received.push({ from: idBelow(prefix, from) ?? from, content })
    }
  }
}

export interface Cut {
  readonly name: string
  readonly isComplete: boolean
  /** Members that were not saved when the cut was abandoned. */
  readonly missing: readonly string[]
  /** Sequences by member, without the prefix. */
  readonly at: Readonly<Record<string, number>>
  /** The number of messages in flight. */
  readonly inFlight: number
}

/** @example await readCut(rp, team, 'before-release') */
export async function readCut<Data>(rp: Engine, definition: AgentSpec<Data>, name: string): Promise<Cut> {
  checkFolding(definition)
  const engine = hostOf(rp)
  return shown(definition.prefix, await new Groups(engine).cut(name))
}

/**
 * Restores all members to a complete cut: each is rolled back (its effects are undone), and messages in flight are
 * delivered again.
 */
export async function restoreCut<Data>(
  rp: Engine,
  definition: AgentSpec<Data>,
  name: string,
  options: GroupRestoreOptions = {},
): Promise<Cut> {
  checkFolding(definition)
  const engine = hostOf(rp)
  engine.declare(definition[describes])
  const cut = shown(definition.prefix, await new Groups(engine).cut(name))
  if (!cut.isComplete) throw new RepriseError('CONFLICT', `the cut ${name} is not complete`, { missing: cut.missing })
  await new Groups(engine).restore({ cut: name }, options)
  return cut
}

function shown(prefix: string, { name, status, missing, places, inFlight }: GroupCut): Cut {
  const own = (id: string) => idBelow(prefix, id) ?? id
  return {
    name,
    isComplete: status === 'completed',
    missing: missing.map(own),
    at: Object.fromEntries(places.map(({ timeline, seq }) => [own(timeline), seq])),
    inFlight,
  }
}

/** The recovery line of sessions that checkpoint independently, with the cascade that a failure would cause. */
export async function groupRecoveryLine<Data>(
  rp: Engine,
  definition: AgentSpec<Data>,
  members: readonly string[],
  failed: readonly string[] = members,
): Promise<RecoveryLine> {
  checkFolding(definition)
  const engine = hostOf(rp)
  engine.declare(definition[describes])
  checkList('the members of a group', members)
  checkList('the members that failed', failed)
  const idOf = (member: string) => (definition.prefix + member) as TimelineId
  return await groupLine(engine, members.map(idOf), failed.map(idOf))
}
