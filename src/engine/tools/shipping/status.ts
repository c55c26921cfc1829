// The status of shipping, in a small file beside the store (`FILE-ship`): for the doctor, for metrics, and to refuse a
// second shipper of the same store on this machine. It is a note, not a lock: the fence at the place keeps two shippers
// apart.

import { readFileSync } from 'node:fs'
import { rename, writeFile } from 'node:fs/promises'
import { RepriseError } from '../../../core/errors.ts'
import { identifyProcess, isProcessGone, type ProcessIdentity } from '../../base/platform.ts'

export interface ShipStatus {
  /** The destination, without keys. */
  readonly place: string
  readonly process: ProcessIdentity
  readonly pid: number
  readonly intervalMs: number
  /** The greatest age of a commit that is not shipped. Null: no budget is declared. Missing in older files. */
  readonly loseAtMostMs?: number | null
  /** The last record; 0: none yet. */
  readonly record: number
  readonly base: number
  /** Everything acknowledged before this time is at the place. Null: nothing yet. */
  readonly safeAt: number | null
  /** The feed is shipped up to this position. */
  readonly position: number
  /** When the shipper last wrote this file. */
  readonly updatedAt: number
  readonly failing: { readonly since: number; readonly tries: number; readonly error: string } | null
  /** When it ended regularly. Null: it runs, or was killed. */
  readonly endedAt: number | null
  /** Since this shipper started. */
  readonly records: number
  readonly bytes: number
  readonly bases: number
}

export function statusFile(file: string): string {
  return `${file}-ship`
}

/** Null: the store was never shipped from here. */
export function readShipStatus(file: string): ShipStatus | null {
  try {
    return JSON.parse(readFileSync(statusFile(file), 'utf8')) as ShipStatus
  } catch {
    return null
  }
}

/** Written to a temporary file and renamed: a reader finds the old one or the new one. */
export async function writeShipStatus(file: string, status: ShipStatus): Promise<void> {
  const aside = `${statusFile(file)}.${process.pid}`
  await writeFile(aside, JSON.stringify(status))
  await rename(aside, statusFile(file))
}

/** True if the process that wrote it may still run; for another machine this is unknown. */
export function isShipping({ process: shipper, endedAt }: ShipStatus): boolean {
  return endedAt === null && !isProcessGone(shipper, identifyProcess())
}

/** Throws STORE_BUSY. */
export function checkNoOther(file: string): void {
  const status = readShipStatus(file)
  if (!status || status.pid === process.pid || !isShipping(status)) return
  const own = identifyProcess()
  if (status.process.host !== own.host) return
  const what = `process ${status.pid} ships ${file} to ${status.place} already: stop it first`
  throw new RepriseError('STORE_BUSY', what, { pid: status.pid, place: status.place })
}
