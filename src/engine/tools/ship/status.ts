// How shipping stands, in a small file beside the store (`FILE-ship`): for the doctor, for metrics, and so that no second
// shipper of the same store begins on this machine. It is a note, not a lock: what keeps two apart is the fence at the place.

import { readFileSync } from 'node:fs'
import { rename, writeFile } from 'node:fs/promises'
import { RepriseError } from '../../../core/errors.ts'
import { identifyProcess, isProcessGone, type ProcessIdentity } from '../../base/platform.ts'

export interface ShipStatus {
  /** Where to; never with keys. */
  readonly place: string
  readonly process: ProcessIdentity
  readonly pid: number
  readonly intervalMs: number
  /** The last record; 0: none yet. */
  readonly record: number
  readonly base: number
  /** Everything that was acknowledged before this time is there; null: nothing yet. */
  readonly safeAt: number | null
  /** The feed is there up to here. */
  readonly position: number
  /** When the shipper last said so. */
  readonly updatedAt: number
  readonly failing: { readonly since: number; readonly tries: number; readonly error: string } | null
  /** It ended, and was not killed. */
  readonly endedAt: number | null
  /** Since this shipper began. */
  readonly records: number
  readonly bytes: number
  readonly bases: number
}

export function statusFile(file: string): string {
  return `${file}-ship`
}

/** Null: it was never shipped from here. */
export function readShipStatus(file: string): ShipStatus | null {
  try {
    return JSON.parse(readFileSync(statusFile(file), 'utf8')) as ShipStatus
  } catch {
    return null
  }
}

/** Written beside and renamed: whoever reads it finds the old one or the new one. */
export async function writeShipStatus(file: string, status: ShipStatus): Promise<void> {
  const aside = `${statusFile(file)}.${process.pid}`
  await writeFile(aside, JSON.stringify(status))
  await rename(aside, statusFile(file))
}

/** Is the process that wrote it still there? Of another machine nobody knows. */
export function isShipping({ process: shipper, endedAt }: ShipStatus): boolean {
  return endedAt === null && !isProcessGone(shipper, identifyProcess())
}

/** Throws STORE_BUSY. */
export function checkNoOther(file: string): void {
  const status = readShipStatus(file)
  if (!status || status.pid === process.pid || !isShipping(status)) return
  const own = identifyProcess()
  if (status.process.host !== own.host) return
  const what = `process ${status.pid} ships ${file} to ${status.place} already: end it first`
  throw new RepriseError('STORE_BUSY', what, { pid: status.pid, place: status.place })
}
