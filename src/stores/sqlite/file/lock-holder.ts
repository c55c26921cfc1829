// The process that holds the write lock of the file, where the system reports it: Linux lists every lock with its process. The
// write lock of a write-ahead log is one byte of the file `-shm`; without such a log it is a byte of the database file.

import { readFileSync, statSync } from 'node:fs'

export interface LockHolder {
  readonly pid: number
  /** The command line of the process, if it is visible. */
  readonly command: string | null
  /** Stopped (SIGSTOP, a debugger): it keeps the lock until it resumes. */
  readonly isStopped: boolean
}

/** WAL_WRITE_LOCK: sqlite.org/walformat.html, section 2.3.1. */
const writeLockByte = 120
/** RESERVED_LOCK: sqlite.org/fileformat2.html, section 1.3. */
const reservedByte = 0x40000001

/** Null: no process, or the system does not report it. */
export function lockHolder(file: string): LockHolder | null {
  const locks = readText('/proc/locks')
  if (locks === null) return null
  const pid = holderOf(locks, `${file}-shm`, writeLockByte) ?? holderOf(locks, file, reservedByte)
  return pid === null ? null : holderWith(pid)
}

/** Another process that has the file open: each has a lock on it or its log. Null: no holder; undefined: not reported. */
export function otherUser(file: string): LockHolder | null | undefined {
  const locks = readText('/proc/locks')
  if (locks === null) return undefined
  const inodes = [inodeOf(file), inodeOf(`${file}-shm`)]
  for (const line of locks.split('\n')) {
    // A process that waits for a lock has an arrow before the lock's kind.
    const words = line
      .trim()
      .split(/\s+/)
      .filter((word) => word !== '->')
    const pid = Number(words[4])
    if (pid > 0 && pid !== process.pid && inodes.includes(words[5]?.split(':')[2] ?? '')) return holderWith(pid)
  }
  return null
}

export function describeUser(user: LockHolder): string {
  return `${nameOf(user)} has it open${user.isStopped ? ' and is stopped' : ''}`
}

export function describeHolder(holder: LockHolder): string {
  return `${nameOf(holder)} holds the write lock${holder.isStopped ? ' and is stopped' : ''}`
}

function nameOf({ pid, command }: LockHolder): string {
  return pid === process.pid ? 'this process' : `process ${pid}${command === null ? '' : ` (${command})`}`
}

function holderWith(pid: number): LockHolder {
  return { pid, command: commandOf(pid), isStopped: /^State:\s+[Tt]/m.test(readText(`/proc/${pid}/status`) ?? '') }
}

/** `1: POSIX  ADVISORY  WRITE 1234 fd:00:5678 120 120`, by inode: the numbers of devices differ between mounts. */
function holderOf(locks: string, path: string, byte: number): number | null {
  const inode = inodeOf(path)
  for (const line of locks.split('\n')) {
    const [, , , kind, pid, where, first, last] = line.trim().split(/\s+/)
    if (kind !== 'WRITE' || where?.split(':')[2] !== inode) continue
    if (Number(first) <= byte && (last === 'EOF' || Number(last) >= byte) && Number(pid) > 0) return Number(pid)
  }
  return null
}

function inodeOf(path: string): string | null {
  try {
    return String(statSync(path).ino)
  } catch {
    return null
  }
}

function commandOf(pid: number): string | null {
  const words = readText(`/proc/${pid}/cmdline`)?.split('\0').filter(Boolean)
  // Two words identify the program; later ones may be secret.
  const names = words?.slice(0, 2).map((word) => word.split('/').at(-1)!)
  return names && names.length > 0 ? names.join(' ') : null
}

function readText(path: string): string | null {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return null
  }
}
