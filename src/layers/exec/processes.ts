// The processes of a group or a session, from /proc: on Linux only, null elsewhere.

import { readdir, readFile } from 'node:fs/promises'

export interface ProcessRow {
  readonly pid: number
  readonly group: number
  readonly session: number
  /** True if the process has ended, and its parent has not reaped it yet. */
  readonly isZombie: boolean
}

export async function processes(): Promise<readonly ProcessRow[] | null> {
  if (process.platform !== 'linux') return null
  const names = await readdir('/proc').catch(() => null)
  if (!names) return null
  const rows: ProcessRow[] = []
  for (const name of names) {
    const stat = /^\d+$/.test(name) ? await readFile(`/proc/${name}/stat`, 'utf8').catch(() => null) : null
    if (stat === null) continue
    // The command name is in parentheses and may contain spaces: fields are counted after it.
    const [state, , group, session] = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    const isZombie = state === 'Z' || state === 'X'
    rows.push({ pid: Number(name), group: Number(group), session: Number(session), isZombie })
  }
  return rows
}
