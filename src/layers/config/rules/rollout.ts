// Decides which version each client should have, and how a rollout proceeds. Clients of a stage are chosen by a hash of their
// name: the same ones on every machine, and each stage includes the clients of the previous one. The next step of a rollout
// depends only on the client records and the time, so a process that takes over decides the same.

import { hashKey } from '../../../core/key-groups.ts'
import type { RolloutPlan } from './plan.ts'
import {
  type ClientRecord,
  type ConfigEntry,
  type ConfigState,
  type ConfigVersion,
  firstHistory,
  type History,
  inForceOf,
  isOfHistory,
  type Rollout,
} from './state.ts'

/** @example isChosen('routes', 'edge-1', 1) // true */
export function isChosen(config: string, client: string, share: number): boolean {
  return hashKey(`${config}/${client}`) < share * 0x1_0000_0000
}

/** The version this client should have; null: none yet. */
export function targetOf(
  config: string,
  client: string,
  { latest, base }: Pick<ConfigState, 'latest' | 'base'>,
  rollout: Rollout | null,
): ConfigVersion | null {
  if (!latest?.plan) return latest
  if (rollout?.version !== latest.version || rollout.status === 'withdrawn') return base
  return isChosen(config, client, rollout.share) ? latest : base
}

/** Whether a later version falls back to the latest one. */
export function isLatestGood({ latest }: Pick<ConfigState, 'latest'>, rollout: Rollout | null): boolean {
  if (!latest?.plan) return latest !== null
  return rollout?.version === latest.version && rollout.status === 'completed'
}

/** A client counts if it was seen within this time, connected or not. */
export function isCounted({ seenAt }: ClientRecord, now: number, forgetAfterMs: number): boolean {
  return now - seenAt <= forgetAfterMs
}

export interface Tally {
  /** All clients that count. */
  readonly fleet: number
  /** The clients considered. */
  readonly clients: number
  /** The considered clients that have the version or a later one. */
  readonly acked: number
  /** The considered clients that refused this version and have accepted none since. */
  readonly nacked: number
  /** The share of considered clients that have it; 0 if there are none. */
  readonly share: number
}

/** Counts the clients that have a version, among all clients or those of a stage. */
export function tallyOf(
  clients: ConfigState['clients'],
  version: number,
  now: number,
  forgetAfterMs: number,
  isAmong: (client: string) => boolean = () => true,
  history: History = firstHistory,
): Tally {
  let [fleet, count, acked, nacked] = [0, 0, 0, 0]
  for (const [client, record] of clients.entries()) {
    if (!isCounted(record, now, forgetAfterMs)) continue
    fleet += 1
    if (!isAmong(client)) continue
    count += 1
    const inForce = inForceOf(record, history)
    if (inForce !== null && inForce >= version) acked += 1
    else if (record.rejected?.version === version && isOfHistory(record.rejected.stream, history)) nacked += 1
  }
  return { fleet, clients: count, acked, nacked, share: count === 0 ? 0 : acked / count }
}

/** A person's request to a rollout. */
export type RolloutRequest = 'pause' | 'resume' | 'withdraw'

export function isOver(rollout: Rollout): boolean {
  return rollout.status !== 'running' && rollout.status !== 'paused'
}

/** The next entry of a rollout; null: nothing changes now. `tally`: of the clients of its stage. */
export function decideRollout(
  { latest, rollout }: Pick<ConfigState, 'latest' | 'rollout'>,
  tally: Tally,
  now: number,
  request: RolloutRequest | null = null,
  planted: ReadonlySet<string> = new Set(),
): ConfigEntry | null {
  if (rollout && !isOver(rollout) && rollout.version !== latest?.version) {
    const { version } = rollout
    return { type: 'superseded', data: { version, reason: latest && `version ${latest.version} was set` } }
  }
  if (!latest?.plan) return null
  const { version, plan } = latest
  if (rollout?.version !== version) {
    if (request === 'withdraw') return { type: 'began', data: { version, share: 0 } }
    return { type: 'began', data: { version, share: plan.stages[0]! } }
  }
  if (isOver(rollout)) return null
  return requested(rollout, tally, request) ?? observed(rollout, plan, tally, now, planted)
}

function requested(rollout: Rollout, { nacked }: Tally, request: RolloutRequest | null): ConfigEntry | null {
  const { version, status } = rollout
  if (request === 'withdraw') return { type: 'withdrawn', data: { version, reason: 'asked for' } }
  if (request === 'pause' && status === 'running') return { type: 'paused', data: { version, reason: 'asked for' } }
  if (request === 'resume' && status === 'paused') return { type: 'resumed', data: { version, tolerated: nacked } }
  return null
}

function observed(
  { version, status, stage, since, tolerated }: Rollout,
  plan: RolloutPlan,
  { fleet, clients, acked, nacked }: Tally,
  now: number,
  planted: ReadonlySet<string>,
): ConfigEntry | null {
  const rate = clients === 0 ? 0 : nacked / clients
  const refused = `${nacked} of ${clients} clients refused it`
  const isWatched = !planted.has('blind-to-nacks') && nacked > tolerated
  if (isWatched && rate > plan.withdrawAbove) return { type: 'withdrawn', data: { version, reason: refused } }
  if (status === 'paused') return null
  if (isWatched && rate > plan.pauseAbove) return { type: 'paused', data: { version, reason: refused } }
  // In a small fleet a stage may have no clients; an empty fleet accepts nothing.
  const needed = Math.min(plan.share * clients, (1 - plan.pauseAbove) * clients, clients - tolerated)
  const isAccepted = fleet > 0 && acked >= needed
  if (!isAccepted) {
    if (plan.stageTimeoutMs === null || now - since < plan.stageTimeoutMs) return null
    return { type: 'paused', data: { version, reason: `${acked} of ${clients} clients accepted it in time` } }
  }
  if (now - since < plan.holdMs) return null
  const share = plan.stages[stage + 1]
  if (share === undefined) return { type: 'completed', data: { version, reason: null } }
  return { type: 'advanced', data: { version, stage: stage + 1, share } }
}
