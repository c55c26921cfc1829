// Makes the guard of a commit from a head that was read before.

import type { Guard, Head } from './ports.ts'

/** For a change beside a live owner, whose appends move the head: requires the same life and epoch, else FENCED. */
export function epochGuardOf({ timeline, life, epoch }: Pick<Head, 'timeline' | 'life' | 'epoch'>): Guard {
  return { timeline, life, epoch }
}

/** The full guard, for a head that must not have moved: it must still be as read, else FENCED or CONFLICT. */
export function guardOf({ timeline, life, epoch, seq, digest }: Head): Guard {
  return { timeline, life, epoch, seq, digest }
}
