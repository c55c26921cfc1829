// The real platform: hash, clock, randomness and the identity of this process. The only file of the engine that reads
// them; simulations pass their own.

import { createHash, hash as hashOnce, randomBytes, webcrypto } from 'node:crypto'
import { readFileSync, readlinkSync } from 'node:fs'
import { hostname } from 'node:os'
import type { Clock, Hash, Random } from '../../core/store/ports.ts'
import { isRunning, processStat } from '../../lib/process-stat.ts'
import { whenDrained } from './after-microtasks.ts'
import { stayAlive } from './stay-alive.ts'

const digestBytes = 32

/** The digest is returned as a binary string and copied: a Buffer from native code costs more than hashing a short run. */
export const sha256: Hash =
  typeof hashOnce === 'function'
    ? (bytes) => fromBinary(hashOnce('sha256', bytes, 'binary'))
    : (bytes) => createHash('sha256').update(bytes).digest()

function fromBinary(text: string): Uint8Array {
  const bytes = new Uint8Array(digestBytes)
  for (let i = 0; i < digestBytes; i++) bytes[i] = text.charCodeAt(i)
  return bytes
}

/** The same off the event loop, on another core if there is one: for many bytes at once. */
export async function sha256Aside(bytes: Uint8Array): Promise<Uint8Array> {
  return new Uint8Array(await webcrypto.subtle.digest('SHA-256', bytes))
}

// Captured before the guard replaces them: the replacements check the calling zone on every call.
const { now } = Date
const { setTimeout, clearTimeout, setImmediate } = globalThis
const hasUtilization = measuresUtilization()

export const systemClock: Clock = {
  now: () => now(),
  elapsed: () => performance.now(),
  // Not every runtime measures it; without it, checkpoints are timed by the wall clock.
  ...(hasUtilization && { activeMs: () => performance.eventLoopUtilization().active }),
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

/** Bun declares the function, and throws when it is called. */
function measuresUtilization(): boolean {
  try {
    return Number.isFinite(performance.eventLoopUtilization().active)
  } catch {
    return false
  }
}

export const systemRandom: Random = pooledRandom()

/** Each call of the system's generator costs many microseconds; an id needs only a few bytes. */
function pooledRandom(): Random {
  const poolBytes = 4096
  let pool = new Uint8Array(0)
  let used = 0
  return {
    bytes(count) {
      if (count > poolBytes / 4) return randomBytes(count)
      if (used + count > pool.length) {
        pool = randomBytes(poolBytes)
        used = 0
      }
      used += count
      return pool.subarray(used - count, used)
    },
    number: () => Math.random(),
  }
}

/** Identifies a process on a machine: a reused pid, a rebooted host or another container has another identity. */
export interface ProcessIdentity {
  readonly host: string
  readonly process: string
}

export function identifyProcess(): ProcessIdentity {
  const boot = readOr('/proc/sys/kernel/random/boot_id', '')
  return {
    host: boot ? `${hostname()}#${boot}` : hostname(),
    process: identifyPid(process.pid),
  }
}

/** Namespace, pid and start time of a process on this machine. */
export function identifyPid(pid: number): string {
  return `${namespaceOf()}:${pid}:${processStat(pid)?.start ?? ''}`
}

/** True only if the process is certainly gone: same host, same process namespace, no such process any more. */
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
