// Dead letters of informers and controllers: objects whose handler failed as often as its policy allows. Wishes to send them back
// or to discard them travel as mail, so that they reach a process that is at work as well as one that starts later.

import { timelineId } from '../../core/coordinate.ts'
import type { Shapes } from '../../core/data-shape.ts'
import { isReprise, RepriseError } from '../../core/errors.ts'
import { recover } from '../../engine/history/recover.ts'
import { type Host, hostOf } from '../../engine/host/host.ts'
import { readShaped } from '../../engine/host/shaped-mail.ts'
import type { Engine } from '../../engine/model/definition.ts'
import type { Target } from '../../engine/model/model.ts'
import type { NewEntry, OpenTimeline } from '../../engine/writing/timeline.ts'
import { type FollowerLetter, type FollowerState, followerFold } from './follower-state.ts'

const kinds = { redrive: 'follower.redrive', discard: 'follower.discard' } as const

export async function readLetters({ engine, head }: Target): Promise<FollowerLetter[]> {
  const { state } = await recover(hostOf(engine).kernel, head, followerFold)
  return [...state.value.letters.values()]
}

/** Those that were given up, of these keys; all of them without keys. NOT_FOUND if none of the keys is one. */
export function chosen(letters: readonly FollowerLetter[], keys: readonly string[] | undefined, timeline: string) {
  const held = letters.map(({ key }) => key)
  const missing = (keys ?? []).filter((key) => !held.includes(key))
  const found = keys ? keys.filter((key) => held.includes(key)) : held
  if (missing.length > 0 && found.length === 0) {
    throw new RepriseError('NOT_FOUND', `no dead letter ${missing.join(', ')} in ${timeline}`, { timeline, missing })
  }
  return { found, missing }
}

/** All of them without keys. */
export async function askFor(
  rp: Engine,
  timeline: string,
  what: keyof typeof kinds,
  keys: readonly string[] | null,
  key?: string,
): Promise<void> {
  const engine = hostOf(rp)
  await engine.send(timeline, kinds[what], { keys }, key === undefined ? {} : { id: `${kinds[what]}:${key}` })
  // Nobody may be at work: then it is done here.
  try {
    const open = await engine.openTimeline(timelineId(timeline), followerFold, { mustExist: true })
    try {
      await applyMail(engine, open)
    } finally {
      await open.close()
    }
  } catch (error) {
    // Who has it reads its mail, too: if both did, one of them has it in history.
    if (!isReprise(error, 'OWNED', 'FENCED', 'CONFLICT')) throw error
  }
}

const mailShapes: Shapes = { [kinds.redrive]: { keys: 'list?' }, [kinds.discard]: { keys: 'list?' } }

/** Moves wishes into history, in the commit that takes them out of the inbox. */
export async function applyMail(engine: Host, open: OpenTimeline<FollowerState>): Promise<void> {
  for (;;) {
    const messages = await open.inbox()
    if (messages.length === 0) return
    for (const message of messages) {
      const data = readShaped(engine, message, mailShapes) as { readonly keys: readonly string[] | null } | null
      const asked = data === null ? [] : data.keys
      const keys = (asked ?? [...open.state.letters.keys()]).filter((key) => open.state.letters.has(key))
      const isRedrive = message.kind === kinds.redrive
      const entries: NewEntry[] =
        keys.length > 0 ? [{ type: isRedrive ? 'redriven' : 'discarded', data: { keys } }] : []
      if (!isRedrive) entries.push(...endsOf(keys, open.state))
      const dead = open.state.letters.size - keys.length
      await open.write(entries, { consume: [message.id], attributes: { dead } })
    }
  }
}

/** Of what was given up when it was gone, its end counts as handled: otherwise whoever starts next is told of it again. */
function endsOf(keys: readonly string[], { letters }: FollowerState): NewEntry[] {
  return keys.flatMap((n) => {
    const { revision, uid: u } = letters.get(n)!
    return revision === 0 ? [{ type: 'handled', data: { n, r: null, u } }] : []
  })
}
