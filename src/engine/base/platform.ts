// The real platform: hash, clock, randomness and the identity of this process, made of the runtime's port (lib/runtime). The only
// file of the engine that reads them; simulations pass their own.

import { readFileSync, readlinkSync } from 'node:fs'
import { RepriseError } from '../../core/errors.ts'
import type { Clock, Hash, Random } from '../../core/store/ports.ts'
import { isRunning, processStat } from '../../lib/process-stat.ts'
import { runtime } from '../../lib/runtime/index.ts'
import { whenDrained } from './after-microtasks.ts'
import { stayAlive } from './stay-alive.ts'

export const sha256: Hash = runtime.sha256
export const { sha256Aside } = runtime

const { now, elapsed, activeMs, setTimeout, clearTimeout, setImmediate } = runtime.clock

export const systemClock: Clock = {
  now,
  elapsed,
  // Without it, checkpoints are timed by the wall clock.
  ...(activeMs && { activeMs }),
  after(delayMs, call, isAwaited = false) {
    const timer = setTimeout(call, Math.min(delayMs, 2 ** 31 - 1))
    // The engine's timers never keep a finished program alive; a program that awaits one of them is not finished.
    if (!isAwaited) timer.unref?.()
    return () => clearTimeout(timer)
  },
  soon(call) {
    setImmediate(call)
  },
  next: whenDrained,
  stayAlive,
}

export const systemRandom: Random = pooledRandom()

/** Each call of the system's generator costs many microseconds; an id needs only a few bytes. */
function pooledRandom(): Random {
  const poolBytes = 4096
  let pool: Uint8Array = new Uint8Array(0)
  let used = 0
  return {
    bytes(count) {
      if (count > poolBytes / 4) return runtime.randomBytes(count)
      if (used + count > pool.length) {
        pool = runtime.randomBytes(poolBytes)
        used = 0
      }
      used += count
      return pool.subarray(used - count, used)
    },
    number: () => Math.random(),
  }
}

/** Names the permission that the runtime refused to a failed call. Null: another error. */
export function permissionError(error: unknown): RepriseError | null {
  const { name, refusedPermission } = runtime
  const refused = refusedPermission?.(error) ?? null
  if (refused === null) return null
  return new RepriseError('STORE_DENIED', `${name} refused a permission: ${refused}`, { runtime: name }, error)
}

/** Identifies a process on a machine: a reused pid, a rebooted host or another container has another identity. */
export interface ProcessIdentity {
  readonly host: string
  readonly process: string
}

export function identifyProcess(): ProcessIdentity {
  const { host, pid } = runtime.identity
  // Without process information, no owner is ever known to be dead: only its lease ends its ownership.
  if (pid === null) return { host, process: '' }
  const boot = readOr('/proc/sys/kernel/random/boot_id', '')
  return { host: boot ? `${host}#${boot}` : host, process: identifyPid(pid) }
}

/** Namespace, pid and start time of a process on this machine. */
export function identifyPid(pid: number): string {
  return `${namespaceOf()}:${pid}:${processStat(pid)?.start ?? ''}`
}

/** True only if the process is certainly gone: same host, same process namespace, no such process any longer. */
export function isProcessGone(other: ProcessIdentity, own: ProcessIdentity): boolean {
  if (other.host !== own.host) return false
  const [space, pid, start] = other.process.split(':')
  if (!pid || space !== namespaceOf() || !/^\d+$/.test(pid)) return false
  if (!isRunning(Number(pid))) return true
  const now = processStat(Number(pid))
  // A zombie keeps its pid until its parent reaps it, yet it will never write again.
  return now !== null && (now.isZombie || (start !== '' && now.start !== '' && start !== now.start))
}

function namespaceOf(): string {
  try {
    return readlinkSync('/proc/self/ns/pid').replace(/\D/g, '')
  } catch {
    return ''
  }
}

function readOr(path: string, otherwise: string): string {
  try {
    return readFileSync(path, 'utf8').trim()
  } catch {
    return otherwise
  }
}
