// The mark of a timeline whose row was lost with a damaged page: its history is sound, but its status, queue and wakeup are not
// known until its model makes them again from its state. The mark is an attribute, so that such timelines are found by the
// index of attributes; the status is what people see.

import type { Attribute } from '../store/attribute.ts'

export const lostAttribute = '$lost'
export const lostStatus = 'lost'

export function isHeadLost(head: { readonly attributes: Readonly<Record<string, Attribute>> }): boolean {
  return head.attributes[lostAttribute] !== undefined
}
