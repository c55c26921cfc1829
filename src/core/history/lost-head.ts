// The mark of a timeline whose row was lost with a damaged page: its history is intact, but its status, queue and wakeup are
// unknown until its model derives them again from its state. The mark is an attribute, so that the attribute index finds
// such timelines; people see the status.

import type { Attribute } from '../store/attribute.ts'

export const lostAttribute = '$lost'
export const lostStatus = 'lost'

export function isHeadLost(head: { readonly attributes: Readonly<Record<string, Attribute>> }): boolean {
  return head.attributes[lostAttribute] !== undefined
}
