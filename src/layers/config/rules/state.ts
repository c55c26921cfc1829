// State of pushed configuration: the versions, the offers to each client and its replies, and the progress of a rollout. One
// fold for three timelines, each with entries of its own part, so that any tool can read them.
//
//   config/<name>           set
//   config/<name>/clients   joined, offered, acked, nacked, seen, left, forgotten
//   config/<name>/rollout   began, advanced, paused, resumed, completed, withdrawn, superseded

import { Keyed } from '../../../core/keyed-state/keyed.ts'
import type { RolloutPlan } from './plan.ts'

export interface ConfigVersion {
  /** Counts from 1 without gaps. */
  readonly version: number
  readonly value: unknown
  readonly at: number
  /** Plan of a staged rollout; null: for every client at once. */
  readonly plan: RolloutPlan | null
}

/** Summary of a version whose value is only in history. */
export interface VersionNote {
  readonly version: number
  readonly at: number
  readonly key: string
  /** Digest of the value: the same key with another digest is a different request. */
  readonly digest: string
  readonly isStaged: boolean
}

export interface Rejection {
  readonly version: number
  readonly reason: string
  readonly at: number
  /** The version is not offered again on this stream. */
  readonly stream: string
}

export interface ClientRecord {
  readonly stream: string
  /** The client has not left; its process may still be gone. */
  readonly isOpen: boolean
  readonly seenAt: number
  /** Number of offers made on this stream; part of each nonce. */
  readonly offers: number
  /** The offer that waits for a reply. */
  readonly offered: { readonly nonce: string; readonly version: number } | null
  readonly answered: { readonly nonce: string; readonly isAck: boolean } | null
  /** The last version the client accepted, or reported when it joined. */
  readonly inForce: number | null
  /** The last refusal since its last ACK. */
  readonly rejected: Rejection | null
}

/** The history that streams belong to (core/identity.ts, historyMark). */
export interface History {
  readonly mark: string
  /** True if the store was never restored and the configuration was created once. */
  readonly isFirst: boolean
}

export const firstHistory: History = { mark: '', isFirst: true }

/** Streams of earlier releases have no mark. */
export function isOfHistory(stream: string, { mark, isFirst }: History): boolean {
  return stream.includes('.') ? stream.endsWith(`.${mark}`) : isFirst
}

/** The version a client has in this history: a version reported in another history does not count. */
export function inForceOf({ stream, inForce }: ClientRecord, history: History): number | null {
  return isOfHistory(stream, history) ? inForce : null
}

export type RolloutStatus = 'running' | 'paused' | 'completed' | 'withdrawn' | 'superseded'

export interface Rollout {
  readonly version: number
  readonly status: RolloutStatus
  /** Index into the stages of the plan. */
  readonly stage: number
  /** The share of clients that get the version. */
  readonly share: number
  /** When the stage began, or resumed after a pause. */
  readonly since: number
  readonly reason: string | null
  /** Number of NACKs that a person has tolerated. */
  readonly tolerated: number
}

/** The outcome of a rollout. */
export interface RolloutEnd {
  readonly version: number
  readonly status: 'completed' | 'withdrawn' | 'superseded'
  readonly reason: string | null
  readonly at: number
}

export interface ConfigState {
  readonly latest: ConfigVersion | null
  /** The version in force before `latest`: the last good one during a staged rollout, and after a withdrawal. */
  readonly base: ConfigVersion | null
  readonly recent: readonly VersionNote[]
  readonly clients: Keyed<ClientRecord>
  /** The most recent rollout. */
  readonly rollout: Rollout | null
  /** The most recent ended rollouts. */
  readonly ended: readonly RolloutEnd[]
}

export type ConfigEntry =
  | {
      readonly type: 'set'
      readonly data: {
        readonly version: number
        readonly value: unknown
        readonly plan: RolloutPlan | null
        /** True if the previous latest version becomes the base; otherwise the base stays. */
        readonly isGood: boolean
        readonly key: string
        readonly digest: string
      }
    }
  | {
      readonly type: 'joined'
      readonly data: {
        readonly client: string
        readonly stream: string
        readonly has: number | null
        /** The client reported a version or a stream of another history. */
        readonly isOther?: true
      }
    }
  | {
      readonly type: 'offered'
      readonly data: { readonly client: string; readonly nonce: string; readonly version: number }
    }
  | {
      readonly type: 'acked'
      readonly data: { readonly client: string; readonly nonce: string; readonly version: number }
    }
  | {
      readonly type: 'nacked'
      readonly data: {
        readonly client: string
        readonly nonce: string
        readonly version: number
        readonly reason: string
      }
    }
  | { readonly type: 'seen' | 'forgotten'; readonly data: { readonly clients: readonly string[] } }
  | { readonly type: 'left'; readonly data: { readonly client: string; readonly stream: string } }
  | { readonly type: 'began'; readonly data: { readonly version: number; readonly share: number } }
  | {
      readonly type: 'advanced'
      readonly data: { readonly version: number; readonly stage: number; readonly share: number }
    }
  | { readonly type: 'paused'; readonly data: { readonly version: number; readonly reason: string } }
  | { readonly type: 'resumed'; readonly data: { readonly version: number; readonly tolerated: number } }
  | {
      readonly type: 'completed' | 'withdrawn' | 'superseded'
      readonly data: { readonly version: number; readonly reason: string | null }
    }

/** An entry with the time of its write. */
export type TimedEntry = ConfigEntry & { readonly time: number }

/** Older versions and rollouts are in history only. */
export const recentMax = 100

export function initialConfig(): ConfigState {
  return { latest: null, base: null, recent: [], clients: new Keyed<ClientRecord>(), rollout: null, ended: [] }
}

/** Modifies `clients` in place, but not its records. Entries of other types change nothing. */
export function applyConfig(state: ConfigState, entry: TimedEntry): ConfigState {
  const { type, time } = entry
  switch (type) {
    case 'set': {
      const { version, value, plan, isGood, key, digest } = entry.data
      const note = { version, at: time, key, digest, isStaged: plan !== null }
      return {
        ...state,
        base: isGood ? state.latest : state.base,
        latest: { version, value, at: time, plan },
        recent: [...state.recent, note].slice(-recentMax),
      }
    }
    case 'began': {
      const { version, share } = entry.data
      const rollout: Rollout = { version, status: 'running', stage: 0, share, since: time, reason: null, tolerated: 0 }
      return { ...state, rollout }
    }
    case 'advanced':
    case 'paused':
    case 'resumed':
      return { ...state, rollout: state.rollout && applyRollout(state.rollout, entry) }
    case 'completed':
    case 'withdrawn':
    case 'superseded': {
      const end: RolloutEnd = { ...entry.data, status: type, at: time }
      const ended = [...state.ended, end].slice(-recentMax)
      return { ...state, rollout: state.rollout && applyRollout(state.rollout, entry), ended }
    }
    case 'seen':
    case 'forgotten':
      for (const client of entry.data.clients) {
        const record = state.clients.get(client)
        if (type === 'forgotten') state.clients.delete(client)
        else if (record) state.clients.set(client, { ...record, seenAt: time })
      }
      return state
    case 'joined':
    case 'offered':
    case 'acked':
    case 'nacked':
    case 'left': {
      const next = applyClient(state.clients.get(entry.data.client), entry)
      if (next) state.clients.set(entry.data.client, next)
      return state
    }
    default:
      return state
  }
}

function applyRollout(rollout: Rollout, entry: TimedEntry): Rollout {
  switch (entry.type) {
    case 'advanced':
      return { ...rollout, stage: entry.data.stage, share: entry.data.share, since: entry.time }
    case 'paused':
      return { ...rollout, status: 'paused', reason: entry.data.reason }
    case 'resumed':
      return { ...rollout, status: 'running', reason: null, since: entry.time, tolerated: entry.data.tolerated }
    case 'completed':
      return { ...rollout, status: 'completed', share: 1, reason: entry.data.reason }
    case 'withdrawn':
      return { ...rollout, status: 'withdrawn', share: 0, reason: entry.data.reason }
    case 'superseded':
      return { ...rollout, status: 'superseded', reason: entry.data.reason }
    default:
      return rollout
  }
}

function applyClient(before: ClientRecord | undefined, entry: TimedEntry): ClientRecord | undefined {
  const { type, time } = entry
  if (type === 'joined') {
    const { stream, has } = entry.data
    const rejected = before?.rejected ?? null
    const blank = { offers: 0, offered: null, answered: null }
    return { ...blank, stream, isOpen: true, seenAt: time, inForce: has, rejected }
  }
  if (!before) return undefined
  switch (type) {
    case 'offered': {
      const { nonce, version } = entry.data
      return { ...before, offers: before.offers + 1, offered: { nonce, version } }
    }
    case 'acked': {
      const { nonce, version } = entry.data
      const answered = { nonce, isAck: true }
      return { ...before, offered: null, answered, inForce: version, rejected: null, seenAt: time }
    }
    case 'nacked': {
      const { nonce, version, reason } = entry.data
      const rejected = { version, reason, at: time, stream: before.stream }
      // A NACK leaves the previous version in force.
      return { ...before, offered: null, answered: { nonce, isAck: false }, rejected, seenAt: time }
    }
    case 'left':
      return before.stream === entry.data.stream ? { ...before, isOpen: false, seenAt: time } : before
    default:
      return before
  }
}
