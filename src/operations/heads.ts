// The documented JSON form of a timeline, as the command line and the server show it.

import type { Attribute, Head } from '../core/store/ports.ts'
import type { Reprise } from '../engine/api/reprise.ts'
import { isOwnAttribute } from '../engine/checkpoint/stored-policy.ts'
import { hostOf } from '../engine/host/host.ts'
import type { Model } from '../engine/model/model.ts'
import { failureOf } from '../engine/storage/failure-notes.ts'

/** Excludes the engine's own attributes. */
export function shownAttributes(head: Head): [string, Attribute][] {
  return Object.entries(head.attributes).filter(([key]) => !isOwnAttribute(key))
}

/** The status that people read: the word of the model, which may know more than the last commit. */
export function statusOf(head: Head, model: Model | null): string {
  return model?.statusNow?.(head) ?? head.status
}

/** The statuses of heads that people may read as this one: the store finds a timeline by that of its last commit. */
export function storedStatuses(engine: Reprise, status: string): readonly string[] {
  const others = hostOf(engine)
    .models.all()
    .flatMap(({ storedAs }) => storedAs?.[status] ?? [])
  return [...new Set([status, ...others])]
}

export function shownHead(engine: Reprise, head: Head) {
  const { timeline, seq, epoch, digest, owner, isOwnerAlive, floor, base, queue, priority, wakeup, mail } = head
  const status = statusOf(head, hostOf(engine).models.find(timeline))
  const { createdAt, updatedAt } = head
  const attributes = Object.fromEntries(shownAttributes(head))
  return {
    ...{ timeline, status, seq, epoch, digest: Buffer.from(digest).toString('hex'), owner, isOwnerAlive, floor },
    base: base && { timeline: base.timeline, seq: base.seq },
    ...{ queue, priority, wakeup, mail, attributes, createdAt, updatedAt },
    /** The reason why work on it fails, since when, and the number of consecutive failures; null: no failure is recorded. */
    failure: failureOf(hostOf(engine).kernel.sealer, head),
  }
}

/** True if a person must act: the model's status requires it, the run failed, or items were given up. */
export function needsPerson({ attributes }: Pick<Head, 'attributes'>, status: string, model: Model | null): boolean {
  if (!model) return false
  if (model.attention?.includes(status)) return true
  if (model.unfinished !== undefined && status === 'failed') return true
  return model.letters !== undefined && Number(attributes.dead ?? 0) > 0
}
