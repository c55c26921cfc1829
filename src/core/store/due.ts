// A timeline becomes due when it has no owner, has mail or a wakeup, and is in a queue.

import type { Commit } from './ports.ts'

/** False: the commit cannot make any timeline due, regardless of the stored state. So no worker has to poll. */
export function mayMakeDue({ guard, release, queue, send, branch, userSql }: Commit): boolean {
  if (guard === null || userSql || branch || (send && send.length > 0)) return true
  return release === true && queue !== null
}
