// The person, as identified by the server, and the permissions of the role.

import { signal } from '@preact/signals'
import type { About, Role } from './types.ts'

export const about = signal<About | null>(null)

const ranks: Readonly<Record<Role, number>> = { read: 0, operate: 1, write: 2 }

export function may(role: Role): boolean {
  return about.value !== null && ranks[about.value.role] >= ranks[role]
}

/** The reason why a button is disabled for this person; undefined: it is enabled. */
export function whyNot(role: Role): string | undefined {
  if (may(role)) return undefined
  if (about.value?.readOnly) return 'this server is read-only'
  return `this needs the role ${role}`
}
