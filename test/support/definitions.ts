// Definitions that several engine tests share.

import { keyed, timeline } from '../../src/index.ts'

export interface Added {
  readonly type: 'added'
  readonly by: number
}

export const counter = timeline('counter', {
  initial: () => ({ total: 0 }),
  apply: (state, entry: Added) => ({ total: state.total + entry.by }),
})

/** Checkpoints often and keeps little: history below the floor goes. */
export const frugal = timeline('frugal', {
  initial: () => ({ total: 0 }),
  apply: (state, entry: Added) => ({ total: state.total + entry.by }),
  checkpoint: { every: 5 },
  retain: { checkpoints: 2, history: 'needed' },
})

export type Change =
  | { readonly type: 'set'; readonly key: string; readonly value: number }
  | { readonly type: 'cut'; readonly key: string }

export const shelf = timeline('shelf', {
  initial: () => ({ changes: 0, items: keyed<number>() }),
  apply(state, entry: Change) {
    state.changes += 1
    if (entry.type === 'set') state.items.set(entry.key, entry.value)
    else state.items.delete(entry.key)
  },
})

export const added = (by: number): Added => ({ type: 'added', by })
