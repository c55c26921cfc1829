// Makes a byte-for-byte copy of a store a store of its own, beside the original: the namespace and each of its timelines get
// identities of their own, so that keys and random values differ from here on, and the history so far belongs to the original.

import type { TimelineId } from '../../../core/coordinate.ts'
import {
  copiedAttribute,
  copiedText,
  importedOriginal,
  inheritedAttribute,
  originalAttribute,
} from '../../../core/history/inheritance.ts'
import { archivedFrom } from '../../../core/history/scope.ts'
import { defaultLimits } from '../../../core/limits.ts'
import { epochGuardOf } from '../../../core/store/commit-guard.ts'
import type { Commit, Head, Store } from '../../../core/store/ports.ts'
import { sha256, systemRandom } from '../../base/platform.ts'
import { refusalError } from '../../base/refusal-error.ts'
import { lineageOf } from '../../history/history.ts'
import { isOfStore } from '../../model/id-prefixes.ts'
import { identityAttribute } from '../../storage/carried-identity.ts'
import { newOperation } from '../../storage/kernel.ts'
import { Identity } from '../../storage/store-identity.ts'
import { inheritanceAt, inheritanceBeside } from '../transfer/export.ts'

const atOnce = 200

/** The caller must be the only user of the store, and must drop the store if this fails. */
export async function becomeCopy(store: Store, namespace: string): Promise<void> {
  const ports = { store, namespace, hash: sha256, random: systemRandom }
  const [original, own] = [new Identity(ports), new Identity(ports)]
  await original.load()
  await own.reincarnate({ isCopy: true })
  for (let after: TimelineId | undefined; ; ) {
    const page = await store.timelines({ limit: atOnce, ...(after !== undefined && { after }) })
    const commits: Commit[] = []
    for (const head of page) {
      if (isOfStore(head.timeline) || archivedFrom(head.timeline) !== null) continue
      commits.push(await separated(store, head, original, own))
    }
    const outcomes = commits.length > 0 ? await store.commit(commits) : []
    for (const [i, outcome] of outcomes.entries()) {
      if (!outcome.ok) throw refusalError(commits[i]!.guard!.timeline, outcome)
    }
    if (page.length < atOnce) return
    after = page.at(-1)!.timeline
  }
}

async function separated(store: Store, head: Head, original: Identity, own: Identity): Promise<Commit> {
  const limits = defaultLimits
  const lineage = await lineageOf({ store }, head)
  const attributes = { ...head.attributes, ...inheritanceAt({ identity: original, limits }, lineage, head.seq) }
  const { timeline, seq } = head
  const carried = original.carried(head)
  const inherited = inheritanceBeside({ limits }, { timeline, seq, attributes, ...(carried && { carried }) })
  return {
    operation: newOperation(systemRandom),
    guard: epochGuardOf(head),
    attributes: {
      [identityAttribute]: await own.arriving(head, undefined, { isBeside: true, isRestored: true }),
      [inheritedAttribute]: inherited,
      [originalAttribute]: importedOriginal({ [inheritedAttribute]: inherited }),
      [copiedAttribute]: copiedText(head),
    },
  }
}
