// The records of a group: captured cuts, and restores in progress. Each is a timeline, so that after a crash another process can
// resume.
//
//   group/cut/NAME      begun { members, limitMs, at } · placed { places } · mail { messages } · saved { timeline, id } ·
//                       completed {} · abandoned { because, missing } · released {}
//   group/restore/ID    begun { target, members, consumed? } · planned { plan } · rolled { member } · mailed {} · ended {} ·
//                       abandoned { because }

import type { Coordinate } from '../../../core/coordinate.ts'
import type { CascadeStep } from '../../../core/history/recovery-line.ts'
import type { CapturedMail } from '../../branch/exchanges.ts'
import type { Fold } from '../../model/definition.ts'
import type { Model } from '../../model/model.ts'
import type { Consumer } from '../../model/rollback-report.ts'

export const cutScope = 'group/cut/'
export const restoreScope = 'group/restore/'

export type CutStatus = 'new' | 'capturing' | 'completed' | 'abandoned' | 'released'

export interface CutState {
  readonly status: CutStatus
  readonly members: readonly string[]
  readonly limitMs: number
  readonly beganAt: number
  readonly places: readonly Coordinate[]
  readonly mail: readonly CapturedMail[]
  /** Savepoints, by member. */
  readonly saved: Readonly<Record<string, string>>
  readonly because: string | null
  readonly missing: readonly string[]
}

const newCut: CutState = {
  status: 'new',
  members: [],
  limitMs: 0,
  beganAt: 0,
  places: [],
  mail: [],
  saved: {},
  because: null,
  missing: [],
}

// biome-ignore lint/suspicious/noExplicitAny: the fields of each entry are those that the head of this file lists.
type Data = any

export const cutFold: Fold<CutState> = {
  version: 'cut-2',
  // Earlier versions called a completed cut 'complete'.
  migrations: {
    'cut-1': (state: CutState) => ((state.status as string) === 'complete' ? { ...state, status: 'completed' } : state),
  },
  initial: () => newCut,
  apply(state, { type, data: given }): CutState {
    const data = given as Data
    switch (type) {
      case 'begun':
        return { ...newCut, status: 'capturing', members: data.members, limitMs: data.limitMs, beganAt: data.at }
      case 'placed':
        return { ...state, places: data.places, mail: [], saved: {} }
      case 'mail':
        return { ...state, mail: [...state.mail, ...data.messages] }
      case 'saved':
        return { ...state, saved: { ...state.saved, [data.timeline]: data.id } }
      case 'completed':
        return { ...state, status: 'completed' }
      case 'abandoned':
        return { ...state, status: 'abandoned', because: data.because, missing: data.missing }
      case 'released':
        return { ...state, status: 'released', mail: [], saved: {} }
      default:
        return state
    }
  },
}

/** The target of a restore: a captured cut, or the recovery line of the members' checkpoints after these have failed. */
export type GroupTarget =
  | { readonly cut: string }
  | { readonly members: readonly string[]; readonly failed?: readonly string[] }

export interface MemberPlan {
  readonly timeline: string
  /** The current sequence. */
  readonly from: number
  /** The sequence to continue from. Equal to `from`: the member is unchanged. */
  readonly to: number
  readonly digest: string
  /** The number of earlier rollbacks. */
  readonly archives: number
  /** Effects that the rollback concerns, by id: undone, cannot be undone, unknown. */
  readonly effects: {
    readonly compensate: readonly string[]
    readonly cannot: readonly string[]
    readonly inDoubt: readonly string[]
  }
  /** Consumers outside the group of the undone entries: the restore is refused unless it is forced. */
  readonly consumers: readonly Consumer[]
}

export interface GroupPlan {
  readonly members: readonly MemberPlan[]
  /** The members that fall back because of others, in order. Empty for a cut. */
  readonly cascade: readonly CascadeStep[]
  readonly fellToOrigin: readonly string[]
  readonly entriesLost: number
  /** Unread mail that its sender will not have sent. */
  readonly drop: readonly { readonly to: string; readonly id: string }[]
  /** Mail that was in flight and is delivered again. */
  readonly again: readonly (CapturedMail & { readonly isUnread: boolean })[]
}

export interface RolledMember {
  readonly timeline: string
  readonly to: number
  readonly archive: string | null
  /** True: the rollback happens where the member is executed, and was requested. */
  readonly isAsked: boolean
  /** False: there was nothing to undo. */
  readonly isMoved: boolean
}

export interface RestoreState {
  readonly status: 'new' | 'restoring' | 'restored' | 'abandoned'
  readonly target: GroupTarget | null
  readonly members: readonly string[]
  readonly plan: GroupPlan | null
  readonly rolled: Readonly<Record<string, RolledMember>>
  readonly isMailed: boolean
  readonly because: string | null
  /** The restore was requested although consumers have acted on the undone entries. */
  readonly consumed?: 'force'
}

const newRestore: RestoreState = {
  status: 'new',
  target: null,
  members: [],
  plan: null,
  rolled: {},
  isMailed: false,
  because: null,
}

export const restoreFold: Fold<RestoreState> = {
  version: 'restore-1',
  initial: () => newRestore,
  apply(state, { type, data: given }): RestoreState {
    const data = given as Data
    switch (type) {
      case 'begun':
        return {
          ...newRestore,
          ...{ status: 'restoring', target: data.target, members: data.members },
          ...(data.consumed !== undefined && { consumed: data.consumed }),
        }
      case 'planned':
        return { ...state, plan: data.plan }
      case 'rolled':
        return { ...state, rolled: { ...state.rolled, [data.member.timeline]: data.member } }
      case 'mailed':
        return { ...state, isMailed: true }
      case 'ended':
        return { ...state, status: 'restored' }
      case 'abandoned':
        return { ...state, status: 'abandoned', because: data.because }
      default:
        return state
    }
  },
}

const instead = 'it is the record of a group: see `reprise group`'
const actions = { rollback: { instead }, fork: { instead } }

export const cutKind: Model = {
  kind: 'cut',
  name: null,
  scope: cutScope,
  fold: cutFold as Fold<unknown>,
  policy: 'fixed',
  headOf: (state) => ({ status: (state as CutState).status }),
  summarize: (state) => {
    const { members, missing, because } = state as CutState
    return { members, ...(because !== null && { because, missing }) }
  },
  actions,
}

export const restoreKind: Model = {
  kind: 'restore',
  name: null,
  scope: restoreScope,
  fold: restoreFold as Fold<unknown>,
  policy: 'fixed',
  headOf: (state) => ({ status: (state as RestoreState).status }),
  unfinished: ['restoring'],
  summarize: (state) => {
    const { members, rolled, because, consumed, plan } = state as RestoreState
    const forced = consumed ? (plan?.members ?? []).flatMap(({ consumers = [] }) => consumers) : []
    return {
      ...{ members, wentBack: Object.keys(rolled) },
      ...(forced.length > 0 && { forced: forced.map(({ what }) => what) }),
      ...(because !== null && { because }),
    }
  },
  actions,
}
