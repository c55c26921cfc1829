// State of informers and controllers: the handled revision of each object (informers only), dead letters, and reported
// events. Stored in informer/<name> and controller/<name>, each owned by one process at a time.
//
//   began    { n, u }           the handler is called for object n for the first time: its deletion will be handled, too
//   handled  { n, r, u }        the handler finished this revision of object n; r null: its deletion
//   gaveUp   { letter }         the object is a dead letter until it changes or is redriven
//   redriven { keys }           dead letters that are handled again
//   discarded { keys }          dead letters that count as handled
//   event    { name, … }        an event of an object, for people

import { Keyed } from '../../core/keyed-state/keyed.ts'
import type { Fold } from '../../engine/model/definition.ts'
import type { Entry } from '../../engine/model/entry.ts'
import type { ModelLetter } from '../../engine/model/model.ts'

export interface HandledObject {
  /** 0: the handler was called, and its outcome is unknown. */
  readonly revision: number
  readonly uid: string
}

export interface FollowerLetter extends ModelLetter {
  /** The revision at which the object was given up; 0: the object was already deleted. */
  readonly revision: number
  readonly uid: string
}

export interface ResourceEvent {
  readonly name: string
  readonly type: 'Normal' | 'Warning'
  readonly reason: string
  readonly message: string
  readonly at: number
}

export interface FollowerState {
  readonly handled: Keyed<HandledObject>
  readonly letters: Keyed<FollowerLetter>
  readonly events: Keyed<ResourceEvent>
}

const eventsMax = 1000

export const followerFold: Fold<FollowerState> = {
  version: 'follower/1',
  initial: () => ({ handled: new Keyed(), letters: new Keyed(), events: new Keyed() }),
  apply,
  isOurs: true,
  checkpoint: { every: 10_000, recoverWithin: '2s' },
  retain: { checkpoints: 2, history: 'needed' },
  summary: ({ letters }) => ({ attributes: { dead: letters.size } }),
}

function apply(state: FollowerState, { type, seq, time, data }: Entry): void {
  switch (type) {
    case 'handled': {
      const { n, r, u } = data as { readonly n: string; readonly r: number | null; readonly u: string }
      if (r === null) state.handled.delete(n)
      else state.handled.set(n, { revision: r, uid: u })
      state.letters.delete(n)
      return
    }
    case 'began': {
      const { n, u } = data as { readonly n: string; readonly u: string }
      state.handled.set(n, { revision: 0, uid: u })
      return
    }
    case 'gaveUp': {
      const { letter } = data as { readonly letter: FollowerLetter }
      state.letters.set(letter.key, letter)
      return
    }
    case 'redriven':
    case 'discarded':
      for (const key of (data as { readonly keys: readonly string[] }).keys) {
        const letter = state.letters.get(key)
        state.letters.delete(key)
        if (letter && type === 'discarded') state.handled.set(key, { revision: letter.revision, uid: letter.uid })
      }
      return
    case 'event': {
      const id = String(seq).padStart(16, '0')
      state.events.set(id, { ...(data as Omit<ResourceEvent, 'at'>), at: time })
      if (state.events.size > eventsMax)
        for (const oldest of state.events.keys({ limit: 1 })) state.events.delete(oldest)
      return
    }
  }
}
