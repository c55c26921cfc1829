// The shipper: copies a store's commits to another place, batch by batch, for as long as it runs. Its position is in
// the records that it wrote, so a killed shipper resumes after the last of them. While the place is unreachable the
// store continues; its later commits stay in its log, and are shipped once the place is back.

import { toHex } from '../../../core/coordinate.ts'
import { isReprise, RepriseError } from '../../../core/errors.ts'
import type { LogPlace, Moment, PageSource } from '../../../core/shipping/page-source.ts'
import { noPrevious, type PartRow, type RecordHead } from '../../../core/shipping/record.ts'
import { readOr, type ShipLog, type Tip } from './log.ts'

export interface ShipPolicy {
  /** Milliseconds between two records, while the store is written. */
  readonly intervalMs: number
  /** Null: no bound is stated. */
  readonly loseAtMostMs: number | null
  /** Time between bases, so that a restore has little to apply. */
  readonly baseMs: number
  /** How far back a restore can go. */
  readonly keepMs: number
  /** The maximum size of the write-ahead log while the place is unreachable; then the log is released, and a base follows. */
  readonly logBytesMax: number
  /** Ship even if the place has the records of another store. */
  readonly take: boolean
  /** Approximate size of one record, and of one part of a base. */
  readonly recordBytes: number
  readonly partBytes: number
}

export const defaultPolicy: ShipPolicy = {
  intervalMs: 1000,
  loseAtMostMs: null,
  baseMs: 86_400_000,
  keepMs: 7 * 86_400_000,
  logBytesMax: 256 * 1024 * 1024,
  take: false,
  recordBytes: 4 * 1024 * 1024,
  partBytes: 1024 * 1024,
}

export interface Shipped {
  readonly records: number
  readonly pages: number
  readonly bytes: number
  readonly hasBase: boolean
}

const partsAtOnce = 6
/** Records since the base may grow to its size, or to this. */
const sinceBaseBytesLeast = 64 * 1024 * 1024
const sinceBaseRecordsMax = 10_000
const wholeTriesMax = 5
/** How many records are read back to find their store, if the last one is damaged. */
const looksBack = 20

export class Shipper {
  readonly #source: PageSource
  readonly #log: ShipLog
  readonly #policy: ShipPolicy
  readonly #id: string
  readonly #now: () => number
  #tip: Tip | null = null
  /** Null: nothing can continue from the last record. */
  #place: LogPlace | null = null
  #base: { readonly number: number; readonly at: number; readonly bytes: number } | null = null
  #parts = new Map<string, PartRow>()
  #partCount = 0
  /** A part of the newest base is missing at the place: nothing can be restored from it. */
  #isBaseTorn = false
  #sinceBytes = 0
  #sinceRecords = 0
  #shipped = { records: 0, pages: 0, bytes: 0, hasBase: false }

  private constructor(source: PageSource, log: ShipLog, policy: ShipPolicy, id: string, now: () => number) {
    this.#source = source
    this.#log = log
    this.#policy = policy
    this.#id = id
    this.#now = now
  }

  /** Throws INVALID_ARGUMENT if the place belongs to another store, or does not honour conditions. */
  static async begin(
    source: PageSource,
    log: ShipLog,
    policy: ShipPolicy,
    { id, now = Date.now }: { readonly id: string; readonly now?: () => number },
  ): Promise<Shipper> {
    const shipper = new Shipper(source, log, policy, id, now)
    await shipper.#findTip()
    return shipper
  }

  get tip(): Tip | null {
    return this.#tip
  }

  /** The number of the newest base; 0: none yet. */
  get base(): number {
    return this.#base?.number ?? 0
  }

  /** Ships everything committed by now. @example await shipper.round() */
  async round(): Promise<Shipped> {
    this.#shipped = { records: 0, pages: 0, bytes: 0, hasBase: false }
    const moment = this.#source.look()
    if (!(await this.#shipChanges(moment))) await this.#shipBase()
    else if (this.#isBaseDue(moment)) await this.#shipBase()
    if (this.#shipped.records > 0) this.#source.advance()
    return this.#shipped
  }

  /** Finds where the last record ended. A new base replaces damaged records, because it does not depend on them. */
  async #findTip(): Promise<void> {
    const number = await this.#log.newest()
    if (number === 0) return
    let found = await readOr(this.#log, number)
    if (typeof found === 'string') this.#tip = { number, digest: await this.#log.digestAt(number), head: null }
    else this.#adopt(found)
    for (let back = number - 1; typeof found === 'string' && back > 0 && back > number - looksBack; back--) {
      found = await readOr(this.#log, back)
    }
    if (typeof found === 'string') return
    if (found.head.store !== this.#source.storeId && !this.#policy.take) {
      const what = `${this.#log.objects.name} contains the records of another store: use a separate place for each store, or take this one over with { take: true } (--take)`
      throw new RepriseError('INVALID_ARGUMENT', what, { place: this.#log.objects.name })
    }
    const base = found.head.whole ? found : found.head.base > 0 ? await readOr(this.#log, found.head.base) : 'none'
    if (typeof base === 'string' || !base.head.whole) return
    this.#isNewBase(base.number, base.head)
    this.#sinceRecords = number - base.number
    const isThere = await this.#partsThere()
    this.#isBaseTorn = !base.head.whole.parts.every(isThere)
  }

  /** Deleted or truncated parts are written again: a base that names them could not be restored. */
  async #partsThere(): Promise<(row: PartRow) => boolean> {
    const sizes = new Map((await this.#log.objects.list('parts/')).map(({ key, bytes }) => [key, bytes]))
    return ({ key, bytes }) => sizes.get(key) === bytes
  }

  #adopt(tip: Tip & { readonly head: RecordHead }): void {
    this.#tip = tip
    this.#place = tip.head.place
  }

  #isNewBase(number: number, head: RecordHead): void {
    const { parts } = head.whole!
    this.#base = { number, at: head.at, bytes: parts.reduce((sum, { bytes }) => sum + bytes, 0) }
    // Parts under another key are written again, so that the old key can leave the ring.
    this.#parts = new Map(parts.filter(({ sealed }) => sealed === this.#log.keyId).map((row) => [row.plain, row]))
    this.#isBaseTorn = false
    this.#sinceBytes = 0
    this.#sinceRecords = 0
  }

  #isBaseDue({ at }: Moment): boolean {
    if (!this.#base || this.#isBaseTorn) return true
    if (this.#sinceRecords === 0) return false
    return (
      at - this.#base.at >= this.#policy.baseMs ||
      this.#sinceRecords >= sinceBaseRecordsMax ||
      this.#sinceBytes > Math.max(sinceBaseBytesLeast, this.#base.bytes)
    )
  }

  /** False: a base is needed, because the log may no longer contain everything. */
  async #shipChanges(moment: Moment): Promise<boolean> {
    if (!this.#place || !this.#base) return false
    const pagesMax = Math.max(16, Math.floor(this.#policy.recordBytes / moment.pageBytes))
    const batches = this.#source.changes(this.#place, moment, pagesMax)
    if (!batches) return false
    try {
      for (const { place, pageCount, isWhole, pages } of batches) {
        await this.#append({ ...this.#headOf('pages', moment), place, pageCount, isWhole }, pages)
        this.#shipped.pages += pages.size
      }
      return true
    } catch (error) {
      if (isReprise(error, 'STORE_BUSY')) return false
      throw error
    }
  }

  async #shipBase(): Promise<void> {
    for (let tries = 1; ; tries++) {
      try {
        return await this.#tryBase()
      } catch (error) {
        // The log was restarted meanwhile. Existing parts are reused.
        if (!isReprise(error, 'STORE_BUSY') || tries === wholeTriesMax) throw error
      }
    }
  }

  async #tryBase(): Promise<void> {
    const pagesPerPart = Math.max(1, Math.floor(this.#policy.partBytes / this.#source.look().pageBytes))
    const isThere = await this.#partsThere()
    const whole = this.#source.whole(pagesPerPart)
    const { moment } = whole
    // The changes up to here are shipped first, so that a restore from an older base can skip this one.
    const isGap = !(await this.#shipChanges(moment))
    const asOf = { number: this.#tip?.number ?? 0, digest: toHex(this.#tip?.digest ?? noPrevious) }
    const rows: (PartRow | Promise<PartRow>)[] = []
    const going = new Set<Promise<unknown>>()
    let lastAt = this.#now()
    for (const pages of whole.parts()) {
      const plain = this.#log.digestOf(pages)
      const known = this.#parts.get(plain)
      if (known && isThere(known)) rows.push(known)
      else {
        const put = this.#putPart(pages, plain)
        rows.push(put)
        going.add(put)
        put.then(
          () => going.delete(put),
          () => undefined,
        )
        if (going.size >= partsAtOnce) await Promise.race(going)
      }
      // A large store takes long: changes made meanwhile do not wait for it.
      if (!isGap && this.#now() - lastAt >= this.#policy.intervalMs) {
        await this.#shipChanges(this.#source.look())
        lastAt = this.#now()
      }
    }
    const parts = await Promise.all(rows)
    whole.end()
    const head = {
      ...this.#headOf('base', moment),
      ...{ place: isGap ? moment.place : this.#place!, pageCount: moment.pageCount, isWhole: true },
      whole: {
        ...{ asOf: asOf.number, asOfDigest: asOf.digest, at: moment.at, position: moment.position },
        ...{ isGap, pagesPerPart, parts },
      },
    }
    const { number } = await this.#append(head, new Map())
    this.#isNewBase(number, head)
    this.#shipped.hasBase = true
  }

  async #putPart(pages: Uint8Array, plain: string): Promise<PartRow> {
    this.#partCount += 1
    const row = await this.#log.putPart(`parts/${this.#id}-${this.#partCount}`, pages, plain)
    this.#parts.set(plain, row)
    this.#shipped.bytes += row.bytes
    return row
  }

  #headOf(kind: RecordHead['kind'], moment: Moment): Omit<RecordHead, 'place' | 'pageCount' | 'isWhole'> {
    const { at, position, pageBytes } = moment
    const base = this.#base?.number ?? 0
    return { kind, store: this.#source.storeId, shipper: this.#id, at, position, pageBytes, base }
  }

  /** Throws SHIP_FENCED. */
  async #append(head: RecordHead, pages: ReadonlyMap<number, Uint8Array>): Promise<Tip> {
    // Times never decrease, even if the clock does: a point in time is found by binary search.
    const at = Math.max(head.at, this.#tip?.head?.at ?? 0)
    const added = await this.#log.append(this.#tip, { head: { ...head, at }, pages })
    if (!added) {
      await this.#meetTaken()
      throw new RepriseError(
        'STORE_IO',
        'the answer to the write of a record was lost: shipping resumes after that record',
        {},
      )
    }
    this.#adopt(added)
    this.#shipped.records += 1
    this.#shipped.bytes += added.bytes
    this.#sinceBytes += added.bytes
    this.#sinceRecords += 1
    return added
  }

  /** The next number is taken: by this shipper, if an answer was lost, or by another one. */
  async #meetTaken(): Promise<void> {
    const number = (this.#tip?.number ?? 0) + 1
    const there = await readOr(this.#log, number)
    if (typeof there !== 'string' && there.head.shipper === this.#id) {
      this.#adopt(there)
      if (there.head.whole) this.#isNewBase(number, there.head)
      return
    }
    const what = `${this.#log.objects.name}: record ${number} was written by another shipper`
    throw new RepriseError('SHIP_FENCED', what, { number, place: this.#log.objects.name })
  }
}
