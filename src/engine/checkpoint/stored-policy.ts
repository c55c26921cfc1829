// The declared facts about stored data, kept with the timeline: the kind of its model, its retention, and when its
// state is captured. Tools follow the stored declaration; a process with different code changes it when it takes the
// timeline, and the change records the time, the worker and the previous value. A timeline of another kind is refused.
// It is one attribute, `$declared`, so every store has it, forks and exports include it, and no schema knows of it. It
// is omitted if the policy is the default policy of a kind, which saves space in a million small timelines.

import type { CheckpointPolicy } from '../../core/checkpoint/checkpoint-policy.ts'
import type { RetentionPolicy } from '../../core/checkpoint/retention.ts'
import { RepriseError } from '../../core/errors.ts'
import { archivedFrom } from '../../core/history/scope.ts'
import type { Attribute, Head } from '../../core/store/ports.ts'
import type { Model } from '../model/model.ts'
import type { Kernel } from '../storage/kernel.ts'
import { onTake } from './observed-failures.ts'

export const policyAttribute = '$declared'

export interface StoredPolicy {
  readonly kind: string
  readonly retain?: RetentionPolicy
  readonly checkpoint?: CheckpointPolicy
  /** When code last changed it, the worker that ran that code, and the previous value. */
  readonly changed?: { readonly at: number; readonly by: string; readonly from: Omit<StoredPolicy, 'changed'> | null }
}

/** Prefix of the engine's own attributes. */
export function isOwnAttribute(key: string): boolean {
  return key.startsWith('$')
}

/** The stored declaration; null if there is none. Unreadable text counts as none, and is replaced. */
export function storedPolicyOf(attributes: Head['attributes']): StoredPolicy | null {
  const text = attributes[policyAttribute]
  if (typeof text !== 'string') return null
  try {
    const value = JSON.parse(text) as StoredPolicy
    return typeof value === 'object' && value !== null && typeof value.kind === 'string' ? value : null
  } catch {
    return null
  }
}

/** The declaration that a model stores. Null: it has the default policy, and its kind follows from the id. */
function wantedOf(model: Model, timeline: string): Omit<StoredPolicy, 'changed'> | null {
  if (model.name === null || model.policy === 'fixed') return null
  const { retain, checkpoint } = model.fold ?? {}
  const isUsual = model.usual && same(model.usual.retain, retain) && same(model.usual.checkpoint, checkpoint)
  if (isUsual && !model.mayBeOther?.(timeline)) return null
  return { kind: model.kind, ...(retain && { retain }), ...(checkpoint && { checkpoint }) }
}

/**
 * The attributes to write when this process takes the timeline, so that the stored declaration matches its code. Throws
 * CONFLICT if the stored kind is another.
 */
export function policyToStore(
  kernel: Kernel,
  timeline: string,
  head: Head | null,
  /** The head was read after a claim. */
  isClaimed = false,
): Record<string, Attribute> | null {
  const model = kernel.models.find(timeline)
  if (!model || model.name === null) return null
  const declared = declaredBy(kernel, model, timeline, head)
  const observed = onTake(model.fold?.checkpoint, head, kernel.worker.now(), isClaimed)
  return observed ? { ...declared, ...observed } : declared
}

export function otherKind(timeline: string, stored: string, declared: string): RepriseError {
  const what = `${timeline} is a ${stored}, and this code declares it as a ${declared}: rename one of them`
  return new RepriseError('CONFLICT', what, { timeline, stored, declared })
}

function declaredBy(
  kernel: Kernel,
  model: Model,
  timeline: string,
  head: Head | null,
): Record<string, Attribute> | null {
  const stored = head && storedPolicyOf(head.attributes)
  if (stored && stored.kind !== model.kind) throw otherKind(timeline, stored.kind, model.kind)
  const wanted = wantedOf(model, timeline)
  const before = stored && plain(stored)
  if (same(before ?? null, wanted)) return null
  if (!before && head === null) return wanted && { [policyAttribute]: JSON.stringify(wanted) }
  // Nothing is stored if earlier code had the default policy, or an older version ran: that is not a change.
  const { retain, checkpoint } = model.usual ?? {}
  const next = wanted ?? { kind: model.kind, ...(retain && { retain }), ...(checkpoint && { checkpoint }) }
  const changed = before ? { at: kernel.worker.now(), by: kernel.worker.id ?? '', from: before } : undefined
  if (changed) kernel.events.emit('declared', { timeline, from: before, to: next })
  return { [policyAttribute]: JSON.stringify({ ...next, ...(changed && { changed }) }) }
}

export interface KnownPolicy {
  readonly policy: RetentionPolicy
  readonly foldVersion: string
  /** Its source: stored with the timeline, declared by code of this process, or common to its kind. */
  readonly from: 'stored' | 'declared' | 'kind'
}

/** The policy of a timeline, or a text that explains why it is unknown here. */
export async function policyOf(kernel: Kernel, head: Head): Promise<KnownPolicy | string> {
  const model = kernel.models.find(head.timeline)
  const stored = isByProcess(kernel) ? null : await storedFor(kernel, head)
  if (!stored && !model) return 'its definition is not known here, and no policy is stored with it'
  const foldVersion = model?.fold?.version ?? (await newestFoldVersion(kernel, head))
  if (stored) return { policy: stored.retain ?? {}, foldVersion, from: 'stored' }
  if (model!.policy === 'fixed') return { policy: model!.fold?.retain ?? {}, foldVersion, from: 'kind' }
  if (model!.name !== null && model!.fold) return { policy: model!.fold.retain ?? {}, foldVersion, from: 'declared' }
  return `no policy is stored with it: its ${model!.kind} declares the default policy, or last ran with an older version; name the module that declares it`
}

interface DeclaredPolicies {
  readonly retain?: RetentionPolicy | undefined
  readonly checkpoint?: CheckpointPolicy | undefined
}

export interface Setting {
  readonly name: 'retain' | 'checkpoint'
  readonly value: unknown
  /** As shown on the recovery card. */
  readonly from: 'stored' | 'declared' | 'kind' | 'usual'
}

/** The settings of a timeline, each with its source. Empty: unknown here. */
export async function settingsOf(kernel: Kernel, head: Head): Promise<Setting[]> {
  const model = kernel.models.find(head.timeline)
  const stored = await storedFor(kernel, head)
  const listed = (of: DeclaredPolicies | null, from: Setting['from']): Setting[] => [
    { name: 'retain', value: of?.retain ?? null, from },
    { name: 'checkpoint', value: of?.checkpoint ?? null, from },
  ]
  if (stored) return listed(stored, 'stored')
  if (!model) return []
  if (model.policy === 'fixed') return listed(model.fold, 'kind')
  if (model.name !== null && model.fold) return listed(model.fold, 'declared')
  return model.usual ? listed(model.usual, 'usual') : []
}

/** Planted bug: uses the policy of this process instead of the stored one. */
function isByProcess(kernel: Kernel): boolean {
  return kernel.planted.has('policy-of-process') || kernel.planted.has('loose-scope')
}

/** An archive has no attributes: the declaration of its original timeline applies. */
async function storedFor(kernel: Kernel, head: Head): Promise<StoredPolicy | null> {
  const own = storedPolicyOf(head.attributes)
  if (own || head.status !== 'archived') return own
  for (let id = archivedFrom(head.timeline); id !== null; id = archivedFrom(id)) {
    const [live] = await kernel.store.head([id as Head['timeline']])
    const found = live && storedPolicyOf(live.attributes)
    if (found) return found
  }
  return null
}

/** Without the code, the newest checkpoint has the version of the fold. */
async function newestFoldVersion(kernel: Kernel, head: Head): Promise<string> {
  return (await kernel.store.checkpoints(head.timeline))[0]?.foldVersion ?? '1'
}

function plain({ changed: _, ...rest }: StoredPolicy): Omit<StoredPolicy, 'changed'> {
  return rest
}

/** Compares stored forms: keys in any order, without undefined values. */
function same(a: unknown, b: unknown): boolean {
  return canonical(a) === canonical(b)
}

function canonical(value: unknown): string {
  return JSON.stringify(value ?? null, (_, each) =>
    each && typeof each === 'object' && !Array.isArray(each)
      ? Object.fromEntries(Object.entries(each).sort(([x], [y]) => (x < y ? -1 : 1)))
      : each,
  )
}
