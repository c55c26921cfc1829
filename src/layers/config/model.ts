// Models of pushed configuration, for tools: versions in config/<name>, replies of clients in config/<name>/clients, and
// rollouts in config/<name>/rollout.

import { timelineId } from '../../core/coordinate.ts'
import type { Fold } from '../../engine/model/definition.ts'
import type { Entry } from '../../engine/model/entry.ts'
import { type JournalRow, journalRow } from '../../engine/model/journal-row.ts'
import type { Instead, Model } from '../../engine/model/model.ts'
import { isOver } from './rules/rollout.ts'
import { applyConfig, type ConfigState, initialConfig, type TimedEntry } from './rules/state.ts'

type Policy = Pick<Fold<ConfigState>, 'checkpoint' | 'retain'>

/** Clients reply continually: entries that a checkpoint covers need not stay in history. */
const clientsPolicy: Policy = {
  checkpoint: { every: 5000, recoverWithin: '2s' },
  retain: { checkpoints: 2, history: 'needed', keys: { last: 1000 } },
}

function foldOf(policy: Policy): Fold<ConfigState> {
  return {
    version: 'config/1',
    initial: initialConfig,
    apply: (state, entry) => applyConfig(state, entry as unknown as TimedEntry),
    immutable: true,
    isOurs: true,
    checkpoint: policy.checkpoint,
    retain: policy.retain,
  }
}

/** Versions and stages are few, and all of them are kept. */
export const keptFold = foldOf({ checkpoint: { every: 500 } })
export const clientsFold = foldOf(clientsPolicy)

export function idsOf(name: string) {
  const versions = `config/${name}`
  return {
    versions: timelineId(versions),
    clients: timelineId(`${versions}/clients`),
    rollout: timelineId(`${versions}/rollout`),
  }
}

const forward: Instead = {
  instead: 'clients rely on versions that only increase: withdraw a rollout, or set the earlier value again',
  isForGood: true,
}
const alone: Instead = {
  instead: 'its clients use its name: declare a configuration with another name, and set its value',
}

export const configKind: Model = {
  kind: 'config',
  name: null,
  scope: 'config/',
  fold: keptFold as Fold<unknown>,
  policy: 'declared',
  entryRow,
  statusLine: (state) => ({ text: statusText(state as ConfigState) }),
  summarize: (state) => summaryOf(state as ConfigState),
  actions: { rollback: forward, fork: alone },
}

export function configModels(name: string): readonly Model[] {
  const { versions, clients, rollout } = idsOf(name)
  const kept = { ...configKind, name, fold: keptFold as Fold<unknown>, usual: { checkpoint: { every: 500 } } }
  return [
    { ...kept, scope: versions },
    // Always stored with the timeline: a tool without the definition must know that its history may be trimmed.
    { ...configKind, name, scope: clients, fold: clientsFold as Fold<unknown> },
    { ...kept, scope: rollout },
  ]
}

function summaryOf({ latest, base, clients, rollout }: ConfigState): Readonly<Record<string, unknown>> {
  return {
    ...(latest && { version: latest.version, value: latest.value }),
    ...(base && { lastGood: base.version }),
    ...(clients.size > 0 && { clients: clients.size }),
    ...(rollout && { rollout }),
  }
}

function statusText({ latest, clients, rollout }: ConfigState): string {
  if (rollout) {
    const { version, status, share, reason } = rollout
    const where = isOver(rollout) ? '' : ` at ${Math.round(share * 100)} %`
    return `version ${version} ${status}${where}${reason ? `: ${reason}` : ''}`
  }
  if (latest) return `version ${latest.version}${latest.plan ? ', in stages' : ''}`
  return clients.size > 0 ? `${clients.size.toLocaleString('en')} clients` : 'no version yet'
}

function joinedWith({ has, isOther }: { readonly has: number | null; readonly isOther?: true }): string {
  if (isOther) return 'with a position of another history'
  return has === null ? 'with nothing' : `with version ${has}`
}

function entryRow(entry: Entry): JournalRow | null {
  const row = (title: string, note?: string | null) =>
    journalRow(`~${entry.seq}`, 'step', 'is', { title, ...(note && { note }) })
  const { type, data } = entry as unknown as TimedEntry
  switch (type) {
    case 'set':
      return row(`version ${data.version} set`, data.plan && 'in stages')
    case 'joined':
      return row(`${data.client} joined`, joinedWith(data))
    case 'offered':
      return row(`version ${data.version} offered to ${data.client}`, data.nonce)
    case 'acked':
      return row(`${data.client} accepted version ${data.version}`, data.nonce)
    case 'nacked':
      return row(`${data.client} refused version ${data.version}`, data.reason)
    case 'left':
      return row(`${data.client} left`)
    case 'seen':
    case 'forgotten':
      return row(`${data.clients.length} clients ${type}`)
    case 'began':
    case 'advanced':
      return row(`version ${data.version} at ${Math.round(data.share * 100)} % of the clients`)
    case 'resumed':
      return row(`version ${data.version} resumed`, data.tolerated > 0 ? `${data.tolerated} refusals accepted` : null)
    case 'paused':
    case 'completed':
    case 'withdrawn':
    case 'superseded':
      return row(`version ${data.version} ${type}`, data.reason)
    default:
      return null
  }
}
