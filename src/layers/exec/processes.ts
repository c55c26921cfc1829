// The processes of a group or a session, from /proc: on Linux only, null elsewhere.

import { readdir } from 'node:fs/promises'
import { type ProcessStat, processStat } from '../../lib/process-stat.ts'

export interface ProcessRow extends ProcessStat {
  readonly pid: number
}

export async function processes(): Promise<readonly ProcessRow[] | null> {
  if (process.platform !== 'linux') return null
  const names = await readdir('/proc').catch(() => null)
  if (!names) return null
  const rows: ProcessRow[] = []
  for (const name of names) {
    const stat = /^\d+$/.test(name) ? processStat(Number(name)) : null
    if (stat) rows.push({ pid: Number(name), ...stat })
  }
  return rows
}
