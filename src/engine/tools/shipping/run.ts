// Ships until it is stopped: a round, a pause, another round. An unreachable place is retried indefinitely, without
// any effect on the store.

import { randomUUID } from 'node:crypto'
import { isReprise, type RepriseError } from '../../../core/errors.ts'
import { growingPause } from '../../../core/retry/pause.ts'
import type { PageSource } from '../../../core/shipping/page-source.ts'
import { realTime, sleep } from '../../../lib/waiting.ts'
import { identifyProcess } from '../../base/platform.ts'
import type { ShipLog } from './log.ts'
import { dropOld } from './retention.ts'
import { type ShipPolicy, Shipper } from './shipper.ts'
import { checkNoOther, type ShipStatus, writeShipStatus } from './status.ts'

export interface ShipRun {
  readonly source: PageSource
  readonly log: ShipLog
  readonly policy: ShipPolicy
  /** Ends it, after a last round. */
  readonly signal: AbortSignal
  /** Run one round only. */
  readonly once?: boolean
  readonly onStatus?: (status: ShipStatus) => void
}

/** With nothing to ship for this long, the write-ahead log is released: it can be truncated, and is checked more often. */
const idleAfterMs = 5000
const idleLookMs = 100
const pauseMsMax = 30_000
const reportEveryMs = 1000

/** Retried: the place, the disk or the network fails, and may recover. */
const passing = ['STORE_UNREACHABLE', 'STORE_IO', 'STORE_FULL', 'STORE_BUSY', 'STORE_DENIED', 'TIMEOUT'] as const

/** Throws SHIP_FENCED, and any error that waiting does not fix. */
export async function runShipper(run: ShipRun): Promise<ShipStatus> {
  checkNoOther(run.source.file)
  const loop = new Loop(run)
  try {
    return await loop.run()
  } finally {
    await loop.end()
  }
}

class Loop {
  readonly #run: ShipRun
  #shipper: Shipper | null = null
  #status: ShipStatus
  #reportedAt = 0

  constructor(run: ShipRun) {
    this.#run = run
    const { log, policy } = run
    this.#status = {
      ...{ place: log.objects.name, process: identifyProcess(), pid: process.pid, intervalMs: policy.intervalMs },
      loseAtMostMs: policy.loseAtMostMs,
      ...{ record: 0, base: 0, safeAt: null, position: 0, updatedAt: Date.now(), failing: null, endedAt: null },
      ...{ records: 0, bytes: 0, bases: 0 },
    }
  }

  async run(): Promise<ShipStatus> {
    const { signal, once = false, policy } = this.#run
    await this.#update({}, true)
    let busyAt = Date.now()
    for (let tries = 0; ; ) {
      const isLast = once || signal.aborted
      try {
        if ((await this.#round()) > 0) busyAt = Date.now()
        tries = 0
        if (isLast) return this.#status
        if (Date.now() - busyAt >= idleAfterMs) await this.#waitForWrites()
        else await sleep(realTime, policy.intervalMs, { signal })
      } catch (error) {
        if (!isReprise(error, ...passing) || isLast) throw error
        tries += 1
        await this.#failed(error, tries)
        await sleep(realTime, growingPause(tries, policy.intervalMs * 2, pauseMsMax), { signal })
      }
    }
  }

  async #round(): Promise<number> {
    const { source, log, policy } = this.#run
    const id = `${Date.now().toString(36)}-${randomUUID().slice(0, 8)}`
    this.#shipper ??= await Shipper.begin(source, log, policy, { id })
    const before = Date.now()
    const { records, bytes, hasBase } = await this.#shipper.round()
    const { tip, base } = this.#shipper
    const sums = { records: this.#status.records + records, bytes: this.#status.bytes + bytes }
    const bases = this.#status.bases + (hasBase ? 1 : 0)
    // Nothing to ship: everything acknowledged before this round is shipped.
    const safeAt = records > 0 ? Math.min(before, tip?.head?.at ?? before) : before
    const position = tip?.head?.position ?? 0
    const now = { record: tip?.number ?? 0, base, safeAt, position, failing: null, ...sums, bases }
    await this.#update(now, records > 0 || this.#status.failing !== null)
    if (hasBase && tip) await dropOld(log, tip.number, base, policy.keepMs)
    return records
  }

  async #waitForWrites(): Promise<void> {
    const { source, signal } = this.#run
    const place = this.#shipper?.tip?.head?.place
    source.release()
    while (place && !signal.aborted && !source.isBehind(place)) {
      await sleep(realTime, idleLookMs, { signal })
      await this.#update({ safeAt: Date.now() - idleLookMs }, false)
    }
  }

  async #failed(error: RepriseError, tries: number): Promise<void> {
    const { source, policy } = this.#run
    const since = this.#status.failing?.since ?? Date.now()
    if (source.logBytes() > policy.logBytesMax) source.release()
    await this.#update({ failing: { since, tries, error: error.message } }, true)
  }

  async #update(change: Partial<ShipStatus>, isNews: boolean): Promise<void> {
    this.#status = { ...this.#status, ...change, updatedAt: Date.now() }
    if (!isNews && Date.now() - this.#reportedAt < reportEveryMs) return
    this.#reportedAt = Date.now()
    // Shipping continues from a full disk.
    await writeShipStatus(this.#run.source.file, this.#status).catch(() => undefined)
    this.#run.onStatus?.(this.#status)
  }

  async end(): Promise<void> {
    await this.#update({ endedAt: Date.now() }, true)
    this.#run.source.close()
  }
}
