// The person, as identified by the server, and the permissions of the role. The session is kept in the storage of this origin,
// which no page of another port reads, and under the path of this page, because two servers may share an origin.

import { signal } from '@preact/signals'
import type { About, Role } from './types.ts'

export const about = signal<About | null>(null)

const key = `reprise-session ${location.pathname}`

/** The header of each request. A page inside an application that knows its users has no session of its own. */
export function sessionHeader(): Readonly<Record<string, string>> {
  const session = localStorage.getItem(key)
  return session === null ? {} : { authorization: `Bearer ${session}` }
}

export function keepSession(session: string | null): void {
  if (session === null) localStorage.removeItem(key)
  else localStorage.setItem(key, session)
}

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
