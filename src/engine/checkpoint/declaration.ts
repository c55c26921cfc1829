// What was declared about stored data, kept with the timeline: the kind of its model, what is kept of it, and when its
// state is captured. Tools go by what is stored; a process whose code says otherwise changes it when it takes the
// timeline, and the change says when, by whom and what was before. A timeline of another kind is refused.
//
// It is one attribute, `$declared`, so every store has it, forks and exports carry it, and no schema knows of it. It is
// left out where the policy is the usual one of a kind, which saves the bytes of a million small timelines.

import type { CheckpointPolicy } from '../../core/checkpoint/checkpoint-policy.ts'
import type { RetentionPolicy } from '../../core/checkpoint/retention.ts'
import { RepriseError } from '../../core/errors.ts'
import { archivedFrom } from '../../core/history/scope.ts'
import type { Attribute, Head } from '../../core/store/ports.ts'
import type { Model } from '../model/model.ts'
import type { Kernel } from '../storage/kernel.ts'
import { onTake } from './observed-failures.ts'

export const declaredAttribute = '$declared'

export interface Declaration {
  readonly kind: string
  readonly retain?: RetentionPolicy
  readonly checkpoint?: CheckpointPolicy
  /** When code last changed it, who ran that code, and what it was before. */
  readonly changed?: { readonly at: number; readonly by: string; readonly from: Omit<Declaration, 'changed'> | null }
}

/** Attributes of the engine itself start with this. */
export function isOwnAttribute(key: string): boolean {
  return key.startsWith('$')
}

/** What is stored with a timeline; null if nothing is. Text that cannot be read is as good as nothing, and is replaced. */
export function declarationOf(attributes: Head['attributes']): Declaration | null {
  const text = attributes[declaredAttribute]
  if (typeof text !== 'string') return null
  try {
    const value = JSON.parse(text) as Declaration
    return typeof value === 'object' && value !== null && typeof value.kind === 'string' ? value : null
  } catch {
    return null
  }
}

/** What a model wants to be stored; null where its policy is the usual one, and its kind follows from the id. */
function wantedOf(model: Model, timeline: string): Omit<Declaration, 'changed'> | null {
  if (model.name === null || model.policy === 'fixed') return null
  const { retain, checkpoint } = model.fold ?? {}
  const isUsual = model.usual && same(model.usual.retain, retain) && same(model.usual.checkpoint, checkpoint)
  if (isUsual && !model.mayBeOther?.(timeline)) return null
  return { kind: model.kind, ...(retain && { retain }), ...(checkpoint && { checkpoint }) }
}

/**
 * What has to be written when this process takes the timeline, so that what is stored is what its code says. CONFLICT if
 * what is stored there is of another kind.
 */
export function declare(
  kernel: Kernel,
  timeline: string,
  head: Head | null,
  /** The head is that after a claim. */
  isClaimed = false,
): Record<string, Attribute> | null {
  const model = kernel.models.find(timeline)
  if (!model || model.name === null) return null
  const declared = declaredBy(kernel, model, timeline, head)
  const observed = onTake(model.fold?.checkpoint, head, kernel.worker.now(), isClaimed)
  return observed ? { ...declared, ...observed } : declared
}

export function otherKind(timeline: string, stored: string, declared: string): RepriseError {
  const what = `${timeline} is a ${stored}, and this code declares it as a ${declared}: give one of them another name`
  return new RepriseError('CONFLICT', what, { timeline, stored, declared })
}

function declaredBy(
  kernel: Kernel,
  model: Model,
  timeline: string,
  head: Head | null,
): Record<string, Attribute> | null {
  const stored = head && declarationOf(head.attributes)
  if (stored && stored.kind !== model.kind) throw otherKind(timeline, stored.kind, model.kind)
  const wanted = wantedOf(model, timeline)
  const before = stored && plain(stored)
  if (same(before ?? null, wanted)) return null
  if (!before && head === null) return wanted && { [declaredAttribute]: JSON.stringify(wanted) }
  // Nothing was stored where code of before had nothing to say, or an older version ran: that is not a change of mind.
  const { retain, checkpoint } = model.usual ?? {}
  const next = wanted ?? { kind: model.kind, ...(retain && { retain }), ...(checkpoint && { checkpoint }) }
  const changed = before ? { at: kernel.worker.now(), by: kernel.worker.id ?? '', from: before } : undefined
  if (changed) kernel.events.emit('declared', { timeline, from: before, to: next })
  return { [declaredAttribute]: JSON.stringify({ ...next, ...(changed && { changed }) }) }
}

export interface KnownPolicy {
  readonly policy: RetentionPolicy
  readonly foldVersion: string
  /** Where it is from: stored with the timeline, declared by code of this process, or the same for all of its kind. */
  readonly from: 'stored' | 'declared' | 'kind'
}

/** The policy of a timeline, or in words why nobody here can tell. */
export async function policyOf(kernel: Kernel, head: Head): Promise<KnownPolicy | string> {
  const model = kernel.models.find(head.timeline)
  const stored = isByProcess(kernel) ? null : await storedFor(kernel, head)
  if (!stored && !model) return 'its definition is not known here, and no policy is stored with it'
  const foldVersion = model?.fold?.version ?? (await newestFoldVersion(kernel, head))
  if (stored) return { policy: stored.retain ?? {}, foldVersion, from: 'stored' }
  if (model!.policy === 'fixed') return { policy: model!.fold?.retain ?? {}, foldVersion, from: 'kind' }
  if (model!.name !== null && model!.fold) return { policy: model!.fold.retain ?? {}, foldVersion, from: 'declared' }
  return `no policy is stored with it: its ${model!.kind} declares the usual one, or last ran with an older version; name the module that declares it`
}

interface Said {
  readonly retain?: RetentionPolicy | undefined
  readonly checkpoint?: CheckpointPolicy | undefined
}

export interface Setting {
  readonly name: 'retain' | 'checkpoint'
  readonly value: unknown
  /** As the recovery card says it. */
  readonly from: 'stored' | 'declared' | 'kind' | 'usual'
}

/** What holds for a timeline, and where each comes from; empty: nobody here can tell. */
export async function settingsOf(kernel: Kernel, head: Head): Promise<Setting[]> {
  const model = kernel.models.find(head.timeline)
  const stored = await storedFor(kernel, head)
  const told = (of: Said | null, from: Setting['from']): Setting[] => [
    { name: 'retain', value: of?.retain ?? null, from },
    { name: 'checkpoint', value: of?.checkpoint ?? null, from },
  ]
  if (stored) return told(stored, 'stored')
  if (!model) return []
  if (model.policy === 'fixed') return told(model.fold, 'kind')
  if (model.name !== null && model.fold) return told(model.fold, 'declared')
  return model.usual ? told(model.usual, 'usual') : []
}

/** Planted: what the process at hand believes, in place of what is stored. */
function isByProcess(kernel: Kernel): boolean {
  return kernel.planted.has('policy-of-process') || kernel.planted.has('loose-scope')
}

/** An archive has no attributes: what was declared of the id it was rolled back from holds for it. */
async function storedFor(kernel: Kernel, head: Head): Promise<Declaration | null> {
  const own = declarationOf(head.attributes)
  if (own || head.status !== 'archived') return own
  for (let id = archivedFrom(head.timeline); id !== null; id = archivedFrom(id)) {
    const [live] = await kernel.store.head([id as Head['timeline']])
    const found = live && declarationOf(live.attributes)
    if (found) return found
  }
  return null
}

/** Without the code, the newest checkpoint tells at which version the code was. */
async function newestFoldVersion(kernel: Kernel, head: Head): Promise<string> {
  return (await kernel.store.checkpoints(head.timeline))[0]?.foldVersion ?? '1'
}

function plain({ changed: _, ...rest }: Declaration): Omit<Declaration, 'changed'> {
  return rest
}

/** Equal as stored: keys in any order, what is undefined left out. */
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
