// A process as Linux describes it in /proc/PID/stat. Null on other systems, and for a dead process.

import { readFileSync } from 'node:fs'

export interface ProcessStat {
  readonly group: number
  readonly session: number
  /** True if the process has ended, and its parent has not reaped it yet. */
  readonly isZombie: boolean
  /** Start time, which distinguishes the process from a later one with the same pid. */
  readonly start: string
}

export function processStat(pid: number): ProcessStat | null {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8')
    // The command name is in parentheses and may contain spaces: fields are counted after it.
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
    const [state, , group, session] = fields
    const isZombie = state === 'Z' || state === 'X'
    return { group: Number(group), session: Number(session), isZombie, start: fields[19] ?? '' }
  } catch {
    return null
  }
}

/** False only if there is certainly no such process, or none in the group of a negative number. */
export function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ESRCH'
  }
}
