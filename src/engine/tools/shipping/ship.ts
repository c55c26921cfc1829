// Ships a store, and restores it on an empty machine, for the command line and for programs.

import { existsSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { type Duration, positiveMs, toMs } from '../../../core/duration.ts'
import { RepriseError } from '../../../core/errors.ts'
import { checkOptions, checkText, namesOf } from '../../../core/options.ts'
import { makeFolder } from '../../../lib/durable-file.ts'
import { sha256, systemRandom } from '../../base/platform.ts'
import type { Kernel } from '../../storage/kernel.ts'
import { requireWriterKeys } from '../../storage/key-notes.ts'
import { fileOf, openPages, openShipPlace } from '../../storage/open-store.ts'
import { type KeyRing, Sealer } from '../../storage/seal/seal.ts'
import { Identity } from '../../storage/store-identity.ts'
import { becomeCopy } from '../identity/become-copy.ts'
import { inEachNamespace } from '../identity/incarnate.ts'
import { ShipLog } from './log.ts'
import { restorePages, type ShippedRestore, type ShippedRestoreOptions } from './restore.ts'
import { runShipper } from './run.ts'
import { defaultPolicy, type ShipPolicy } from './shipper.ts'
import type { ShipStatus } from './status.ts'
import { type ShippedReport, verifyShipped } from './verify.ts'

export interface ShipOptions {
  /** How often commits are shipped while the store is written. Default: '1s'. */
  readonly every?: Duration
  /**
   * The greatest age of a commit that is not shipped: commits are shipped four times as often, and the doctor reports an older
   * one. Default: none.
   */
  readonly loseAtMost?: Duration
  /** How often the whole state is shipped, so that a restore has little to apply. Default: '1d'. */
  readonly base?: Duration
  /** How far back a restore can go. Default: '7d'. */
  readonly keep?: Duration
  /** Ship even if the place has the records of another store. */
  readonly take?: boolean
  /** Ship the current state, and stop. */
  readonly once?: boolean
  readonly signal?: AbortSignal
  readonly onStatus?: (status: ShipStatus) => void
}

/** Ships until the signal. Throws SHIP_FENCED if another shipper writes there, and any error that waiting does not fix. */
export async function shipStore(
  url: string,
  place: string,
  kernel: Pick<Kernel, 'store' | 'sealer'>,
  options: ShipOptions = {},
): Promise<ShipStatus> {
  const policy = policyOf(options)
  // Under a key that the store does not know, holders of its keys could not restore it.
  await requireWriterKeys(kernel)
  const source = await openPages(url)
  try {
    const log = new ShipLog(await openShipPlace(place), kernel.sealer, sha256)
    const { signal = new AbortController().signal, once = false, onStatus } = options
    return await runShipper({ source, log, policy, signal, once, ...(onStatus && { onStatus }) })
  } finally {
    source.close()
  }
}

function policyOf({ every, loseAtMost, base, keep, take }: ShipOptions): ShipPolicy {
  const loseAtMostMs = loseAtMost === undefined ? null : positiveMs(loseAtMost, 'loseAtMost')
  const wantedMs = every === undefined ? defaultPolicy.intervalMs : toMs(every, 'every')
  return {
    ...defaultPolicy,
    intervalMs: Math.max(10, Math.min(wantedMs, (loseAtMostMs ?? Number.POSITIVE_INFINITY) / 4)),
    loseAtMostMs,
    ...(base !== undefined && { baseMs: toMs(base, 'base') }),
    ...(keep !== undefined && { keepMs: toMs(keep, 'keep') }),
    ...(take !== undefined && { take }),
  }
}

/** True if a store was shipped to this place. Otherwise it may be a backup. */
export async function isShipPlace(place: string): Promise<boolean> {
  const objects = await openShipPlace(place, { mustExist: true })
  return (await objects.list('log/')).length > 0
}

export interface RestoreShippedOptions extends ShippedRestoreOptions {
  readonly keys?: KeyRing
  /**
   * The restored store lives beside the original: each namespace gets an identity of its own, so that its idempotency keys
   * differ. Default: false, the restored store replaces the original, and the same intents keep their keys.
   */
  readonly copy?: boolean
}

const knownRestore = namesOf<RestoreShippedOptions>()('keys copy at onProgress')

/** Files beside the file of a store: any of them belongs to a former file of that name. */
const beside = ['', '-wal', '-shm', '-ack', '-journal'] as const

/**
 * Restores a shipped store into a file that must not exist. The owners of its timelines are gone: the timelines are
 * released at once. A repeated call resumes an interrupted restore.
 */
export async function restoreShipped(
  place: string,
  into: string,
  options: RestoreShippedOptions = {},
): Promise<ShippedRestore> {
  checkText('the place of restoreShipped()', place)
  checkText('the target of restoreShipped()', into)
  checkOptions('restoreShipped', options, knownRestore)
  const file = fileOf(into)
  if (file === null) {
    const what = 'shipped records are restored into a SQLite file: name it as sqlite:FILE'
    throw new RepriseError('INVALID_ARGUMENT', what, { into: into.split(':')[0] })
  }
  const there = beside.find((each) => existsSync(file + each))
  if (there !== undefined) {
    const what = `${file}${there} already exists: move it away, or restore into another file`
    throw new RepriseError('EXISTS', what, { file: file + there })
  }
  const sealer = new Sealer(options.keys ? { keys: options.keys } : {})
  const log = new ShipLog(await openShipPlace(place, { mustExist: true }), sealer, sha256)
  await makeFolder(dirname(resolve(file)))
  // Files of an earlier attempt that was killed while it changed the complete file.
  const drop = async (ends: readonly string[]) => {
    for (const end of ends) await rm(`${file}.part${end}`, { force: true })
  }
  await drop(beside.slice(1))
  return await restorePages(log, file, options, async (part) => {
    await freeOwned(`sqlite:${part}`, options.copy ?? false)
    await drop(['-ack'])
  })
}

/** Releases what dead owners hold, and begins a new incarnation of each namespace. */
export async function freeOwned(url: string, isCopy: boolean): Promise<void> {
  // Each shard of a set is shipped and restored separately.
  await inEachNamespace(url, async (store, namespace) => {
    const alive = (await store.workers()).filter(({ isRetired }) => !isRetired)
    await store.retire(alive.map(({ id }) => id))
    if (isCopy) await becomeCopy(store, namespace)
    else await new Identity({ store, namespace, hash: sha256, random: systemRandom }).reincarnate()
  })
}

/** Checks everything that was shipped, in place. */
export async function verifyPlace(place: string, sealer: Sealer): Promise<ShippedReport> {
  return await verifyShipped(new ShipLog(await openShipPlace(place, { mustExist: true }), sealer, sha256))
}
