// Models of informers and controllers, for tools.

import { RepriseError } from '../../core/errors.ts'
import type { Fold } from '../../engine/model/definition.ts'
import type { Entry } from '../../engine/model/entry.ts'
import { type JournalRow, journalRow } from '../../engine/model/journal-row.ts'
import type { ActionReport, Instead, Model } from '../../engine/model/model.ts'
import { type FollowerLetter, type FollowerState, followerFold, type ResourceEvent } from './follower-state.ts'
import { askFor, chosen, readLetters } from './letters.ts'

const forward: Instead = {
  instead: 'it follows objects as they are now; going back would handle them again',
  isForGood: true,
}

function kindOf(kind: 'informer' | 'controller'): Model {
  return {
    kind,
    name: null,
    scope: `${kind}/`,
    fold: followerFold as Fold<unknown>,
    policy: 'fixed',
    entryRow,
    summarize: (state) => {
      const { handled, letters } = state as FollowerState
      return { ...(kind === 'informer' && { handled: handled.size }), deadLetters: letters.size }
    },
    statusLine: (state) => {
      const { letters } = state as FollowerState
      return { text: letters.size === 0 ? 'no object was given up' : `${letters.size} dead letters` }
    },
    refuses: (state) => ((state as FollowerState).letters.size === 0 ? { redrive: 'no object was given up' } : {}),
    letters: {
      read: readLetters,
      discard: ({ engine, head, key }, keys) => askFor(engine, head.timeline, 'discard', keys, key),
    },
    actions: {
      rollback: forward,
      fork: forward,
      async redrive({ engine, head, key }, { keys, items }): Promise<ActionReport> {
        if (Object.keys(items ?? {}).length > 0) {
          const what = `${head.timeline} works on objects as they are, not on a stored item: change the object instead`
          throw new RepriseError('INVALID_ARGUMENT', what, { timeline: head.timeline })
        }
        const { found: redriven, missing } = chosen(await readLetters({ engine, head }), keys, head.timeline)
        await askFor(engine, head.timeline, 'redrive', keys ?? null, key)
        return { text: `${redriven.length} will be retried`, facts: { redriven, missing } }
      },
    },
    transfer: { stays: 'it follows objects of its own store: move the resource, and start it there' },
  }
}

export const informerKind = kindOf('informer')
export const controllerKind = kindOf('controller')

export function followerModel(kind: Model, name: string): Model {
  return { ...kind, name, scope: `${kind.scope}${name}` }
}

function entryRow({ type, seq, data }: Entry): JournalRow | null {
  const row = (title: string, note = '') => journalRow(`~${seq}`, 'step', 'is', { title, note })
  switch (type) {
    case 'handled': {
      const { n, r } = data as { readonly n: string; readonly r: number | null }
      return row(`${n} handled`, r === null ? 'its end' : `revision ${r}`)
    }
    case 'gaveUp': {
      const { key, error, attempts } = (data as { readonly letter: FollowerLetter }).letter
      return row(`${key} given up`, `after ${attempts} attempts: ${error.message}`)
    }
    case 'redriven':
    case 'discarded':
      return row(`${(data as { readonly keys: readonly string[] }).keys.join(', ')} ${type}`)
    case 'event': {
      const { name, reason, message } = data as ResourceEvent
      return row(`${name}: ${reason}`, message)
    }
    default:
      return null
  }
}
