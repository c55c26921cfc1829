// The processes of a group or a session, from /proc: on Linux only, null elsewhere.

import { readdir, readFile, readlink } from 'node:fs/promises'
import { sep } from 'node:path'
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

// The files the program holds open for writing: they are not complete, however long they have been unchanged. Known on Linux
// only; null on other systems.

/** Paths below `folder`, which must be a real path. `session`: the pid of the program's first process. */
export async function writtenNow(session: number, folder: string): Promise<readonly string[] | null> {
  const rows = await processes()
  if (!rows) return null
  const open = new Set<string>()
  const below = folder.endsWith(sep) ? folder : folder + sep
  for (const row of rows) if (row.session === session) await addOpen(row.pid, below, open)
  return [...open]
}

async function addOpen(pid: number, below: string, open: Set<string>): Promise<void> {
  for (const fd of await readdir(`/proc/${pid}/fd`).catch(() => [])) {
    const path = await readlink(`/proc/${pid}/fd/${fd}`).catch(() => null)
    if (!path?.startsWith(below)) continue
    const info = await readFile(`/proc/${pid}/fdinfo/${fd}`, 'utf8').catch(() => '')
    const flags = Number.parseInt(/^flags:\s*(\d+)/m.exec(info)?.[1] ?? '0', 8)
    // The two lowest bits: 1 is write only, 2 is read and write.
    if ((flags & 3) !== 0) open.add(path.slice(below.length))
  }
}
