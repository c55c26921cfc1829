// The guards of commits, from the head that somebody looked at before.

import type { Guard, Head } from './ports.ts'

/** For a change beside a live owner, whose appends move the head: the same life and epoch, or FENCED. */
export function epochGuardOf({ timeline, life, epoch }: Pick<Head, 'timeline' | 'life' | 'epoch'>): Guard {
  return { timeline, life, epoch }
}

/** The whole guard of a head that nobody else may have moved: where it still is as it was read, or FENCED or CONFLICT. */
export function guardOf({ timeline, life, epoch, seq, digest }: Head): Guard {
  return { timeline, life, epoch, seq, digest }
}
