// Who the person is, as the server says, and what that role may do.

import { signal } from '@preact/signals'
import type { About, Role } from './types.ts'

export const about = signal<About | null>(null)

const ranks: Readonly<Record<Role, number>> = { read: 0, operate: 1, write: 2 }

export function may(role: Role): boolean {
  return about.value !== null && ranks[about.value.role] >= ranks[role]
}

/** Why a button does nothing for this person; undefined: it does. */
export function whyNot(role: Role): string | undefined {
  if (may(role)) return undefined
  if (about.value?.readOnly) return 'this server is read-only'
  return `this needs the role ${role}`
}
