// Dead letters of informers and controllers: objects whose handler failed as often as its policy allows. Requests to redrive
// or discard them travel as mail, so that they reach both a running process and one that starts later.

import type { Shapes } from '../../core/data-shape.ts'
import { RepriseError } from '../../core/errors.ts'
import { checkList } from '../../core/options.ts'
import { type Host, hostOf } from '../../engine/host/host.ts'
import { applyHere, readShaped } from '../../engine/host/shaped-mail.ts'
import type { Engine } from '../../engine/model/definition.ts'
import type { Target } from '../../engine/model/model.ts'
import type { NewEntry, OpenTimeline } from '../../engine/writing/timeline.ts'
import { type FollowerLetter, type FollowerState, followerFold } from './follower-state.ts'

const kinds = { redrive: 'follower.redrive', discard: 'follower.discard' } as const

export async function readLetters({ engine, head }: Target): Promise<FollowerLetter[]> {
  const { state } = await hostOf(engine).recover(head, followerFold)
  return [...state.value.letters.values()]
}

/** The dead letters with these keys. Default: all of them. NOT_FOUND if none of the keys is a dead letter. */
export function chosen(letters: readonly FollowerLetter[], keys: readonly string[] | undefined, timeline: string) {
  if (keys !== undefined) checkList('the names of dead letters', keys)
  const held = letters.map(({ key }) => key)
  const missing = (keys ?? []).filter((key) => !held.includes(key))
  const found = keys ? keys.filter((key) => held.includes(key)) : held
  if (missing.length > 0 && found.length === 0) {
    throw new RepriseError('NOT_FOUND', `no dead letter ${missing.join(', ')} in ${timeline}`, { timeline, missing })
  }
  return { found, missing }
}

/** `keys` null: all dead letters. */
export async function askFor(
  rp: Engine,
  timeline: string,
  what: keyof typeof kinds,
  keys: readonly string[] | null,
  key?: string,
): Promise<void> {
  const engine = hostOf(rp)
  await engine.send(timeline, kinds[what], { keys }, key === undefined ? {} : { id: `${kinds[what]}:${key}` })
  // No process may be doing the work: then the request is applied here.
  await applyHere(engine, timeline, followerFold, (open) => applyMail(engine, open))
}

const mailShapes: Shapes = { [kinds.redrive]: { keys: 'list?' }, [kinds.discard]: { keys: 'list?' } }

/** Moves requests into history, in the commit that removes them from the inbox. */
export async function applyMail(engine: Host, open: OpenTimeline<FollowerState>): Promise<void> {
  for (;;) {
    const messages = await open.inbox()
    if (messages.length === 0) return
    for (const message of messages) {
      const data = readShaped(engine, message, mailShapes) as { readonly keys: readonly string[] | null } | null
      const requested = data === null ? [] : data.keys
      const keys = (requested ?? [...open.state.letters.keys()]).filter((key) => open.state.letters.has(key))
      const isRedrive = message.kind === kinds.redrive
      const entries: NewEntry[] =
        keys.length > 0 ? [{ type: isRedrive ? 'redriven' : 'discarded', data: { keys } }] : []
      if (!isRedrive) entries.push(...endsOf(keys, open.state))
      const dead = open.state.letters.size - keys.length
      await open.write(entries, { consume: [message.id], attributes: { dead } })
      if (keys.length > 0 && dead === 0) engine.failures.succeeded(open.id)
    }
  }
}

/**
 * Discards a letter about a deletion by recording the deletion as handled: otherwise the next owner would handle it again.
 */
function endsOf(keys: readonly string[], { letters }: FollowerState): NewEntry[] {
  return keys.flatMap((n) => {
    const { revision, uid: u } = letters.get(n)!
    return revision === 0 ? [{ type: 'handled', data: { n, r: null, u } }] : []
  })
}
