// The versions of the clients, for people and programs: totals of the fleet, and each client.

import type { OpenConfig } from './open-config.ts'
import { isCounted } from './rules/rollout.ts'
import {
  type ClientRecord,
  type ConfigVersion,
  type History,
  inForceOf,
  isOfHistory,
  type Rollout,
} from './rules/state.ts'

export interface ClientView {
  readonly client: string
  /** The last version the client accepted or reported; null: none, or it has not rejoined since the store was restored. */
  readonly inForce: number | null
  /** The version the client should have; null: none yet. */
  readonly target: number | null
  /** The offered version without a reply yet. */
  readonly offered: number | null
  /** The version refused since its last ACK, and the reason. */
  readonly refused: { readonly version: number; readonly reason: string; readonly at: number } | null
  /** The client has not left; its connection may still be gone. */
  readonly isOpen: boolean
  readonly seenAt: number
}

export interface ConfigStatus {
  readonly latest: number | null
  /** The version clients return to if the latest is withdrawn; null: none. */
  readonly lastGood: number | null
  readonly rollout: Rollout | null
  /** Clients that count. */
  readonly clients: number
  readonly inForce: readonly { readonly version: number | null; readonly clients: number }[]
  /** Some of the clients that refused a version and have accepted none since. */
  readonly refused: readonly ClientView[]
}

const refusedShown = 100

export function statusOf(config: OpenConfig): ConfigStatus {
  const { versions, rollout, clients, now, forgetAfterMs, history } = config
  const counts = new Map<number | null, number>()
  const refused: ClientView[] = []
  let total = 0
  for (const [client, record] of clients.entries()) {
    if (!isCounted(record, now, forgetAfterMs)) continue
    total += 1
    const has = inForceOf(record, history)
    counts.set(has, (counts.get(has) ?? 0) + 1)
    if (!record.rejected || refused.length >= refusedShown) continue
    refused.push(viewOf(client, record, config.targetOf(client), history))
  }
  const inForce = [...counts].map(([version, count]) => ({ version, clients: count }))
  return {
    latest: versions.latest?.version ?? null,
    lastGood: versions.base?.version ?? null,
    rollout,
    clients: total,
    inForce: inForce.sort((a, b) => (b.version ?? 0) - (a.version ?? 0)),
    refused,
  }
}

export function viewOf(
  client: string,
  record: ClientRecord,
  target: ConfigVersion | null,
  history: History,
): ClientView {
  const { stream, offered, rejected, isOpen, seenAt } = record
  const isOfNow = isOfHistory(stream, history)
  return {
    client,
    inForce: inForceOf(record, history),
    target: target?.version ?? null,
    offered: (isOfNow && offered?.version) || null,
    refused: rejected && { version: rejected.version, reason: rejected.reason, at: rejected.at },
    isOpen: isOpen && isOfNow,
    seenAt,
  }
}
