// The size of a process: its heap after a collection, its resident memory, its file descriptors, its processor time.

import { readdirSync, readFileSync } from 'node:fs'

/** Of this process, which was started with --expose-gc: the heap after a full collection. */
export function measureSelf() {
  globalThis.gc?.()
  const { heapUsed, external, arrayBuffers } = process.memoryUsage()
  return { heapMb: (heapUsed + Math.max(external, arrayBuffers)) / 2 ** 20, ...measureOther(process.pid) }
}

export function measureOther(pid) {
  const resident = /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))[1]
  return { residentMb: Number(resident) / 1024, descriptors: readdirSync(`/proc/${pid}/fd`).length }
}

/** Milliseconds of processor time that a process has used; 0 once it has ended. */
export function cpuMsOf(pid) {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1).split(' ')
    return (Number(fields[11]) + Number(fields[12])) * 10
  } catch {
    return 0
  }
}
