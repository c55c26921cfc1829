// The tools of a store, the same for every model: list timelines, verify them, estimate recovery, and keep, copy or delete
// them. They read timelines of any owner and never take one over.

import { resolve } from 'node:path'
import { timelineId } from '../../core/coordinate.ts'
import { positiveMs } from '../../core/duration.ts'
import { RepriseError } from '../../core/errors.ts'
import { type Effect, listEffects, withOwners } from '../../core/history/effects.ts'
import { lastSeq } from '../../core/history/entry-run.ts'
import { inheritedBy } from '../../core/history/inheritance.ts'
import { checkCount, checkObject, checkText } from '../../core/options.ts'
import type {
  FeedItem,
  FeedPage,
  FeedPosition,
  Head,
  LossRecord,
  ManifestRecord,
  StoreFacts,
  TimelineQuery,
  WorkerRow,
} from '../../core/store/ports.ts'
import type { Grown, ShardRow } from '../../core/store/shards.ts'
import { Yielder } from '../base/yielder.ts'
import { type Before, planRollback, type RollbackPlan } from '../branch/rollback-plan.ts'
import { OutsidePositions } from '../feed/outside-position.ts'
import { existing } from '../history/locate.ts'
import { recover } from '../history/recover.ts'
import type { Host } from '../host/host.ts'
import { behind, type Engine, ledgerOnly } from '../model/definition.ts'
import type { Kernel } from '../storage/kernel.ts'
import { notedKeys, runInStore } from '../storage/key-notes.ts'
import { type AcceptLossOptions, acceptLoss, storeLosses } from '../storage/losses.ts'
import { read, sourceOf, written } from '../storage/object-file.ts'
import { isObjectStore, otherPlaces } from '../storage/open-store.ts'
import { type StoreChange, storeChanges } from '../storage/store-change.ts'
import { type AddShardOptions, addShard } from './add-shard.ts'
import { type BadCheckpoint, markBad, unmarkBad } from './bad-checkpoint.ts'
import { checkCall, checkGivenCall } from './call-options.ts'
import { noteBackup } from './drill/backup-notes.ts'
import { card, type RecoveryCard } from './drill/card.ts'
import { type DrillOptions, type DrillReport, drill } from './drill/drill.ts'
import { type Report, type ReportFilter, readReports } from './drill/report-log.ts'
import { type EraseEntriesReport, eraseEntries } from './erase/entries.ts'
import { type EraseReport, eraseTimeline } from './erase/erase.ts'
import type { EraseEntriesOptions } from './erase/plan.ts'
import { type MoveTiersOptions, moveTiers, type TiersReport } from './housekeeping/blob-tiers.ts'
import { type CollectOptions, type CollectReport, collect } from './housekeeping/collect.ts'
import { type DeleteOptions, type DeleteReport, deleteTimeline } from './housekeeping/delete.ts'
import { type RekeyOptions, type RekeyReport, rekey } from './rekey.ts'
import { type GiveUpOptions, type GiveUpReport, giveUp } from './repair/give-up.ts'
import { type ShipOptions, shipStore } from './shipping/ship.ts'
import type { ShipStatus } from './shipping/status.ts'
import {
  type BackupOptions,
  type BackupReport,
  backup,
  type RestoreOptions,
  type RestoreReport,
  restoreBackup,
} from './transfer/backup.ts'
import { type AbandonedChange, abandonChange } from './transfer/change-actions.ts'
import { type VerifyOptions, type VerifyReport, verify } from './verify/verify.ts'

export class StoreTools implements Engine {
  readonly #host: Host
  /** Current shipping destinations. */
  readonly #shipsTo = new Set<string>()
  #yielder: Yielder | null = null

  /** @internal */
  constructor(host: Host) {
    this.#host = host
  }

  /** For layers (host.ts). */
  get [behind](): unknown {
    return this.#host
  }

  get #kernel(): Kernel {
    this.#host.check()
    return this.#host.kernel
  }

  /**
   * Backs up the whole store to one file, or to an object: 's3://bucket/name'. A repeated call resumes an
   * interrupted file. See docs/guides/backup.md.
   */
  async backup(path: string, options: BackupOptions = {}): Promise<BackupReport> {
    checkCall('backup', options)
    const { loseAtMost } = options
    const loseAtMostMs = loseAtMost === undefined ? undefined : positiveMs(loseAtMost, 'loseAtMost')
    const report = await written(path, (file) => backup(this.#kernel, file, options), options.onlyNew)
    const { moment, bytes, timelines } = report
    const file = sourceOf(path)
    await noteBackup(this.#kernel, {
      ...{ moment, file, bytes, timelines },
      ...(loseAtMostMs !== undefined && { loseAtMostMs }),
    })
    const what = `${timelines} timelines, ${bytes} bytes in ${file}`
    this.#kernel.events.emit('report', { kind: 'backup', timeline: null, what, data: { moment, bytes, timelines } })
    return { ...report, file: path }
  }

  /** Restores a backup into an empty store of any kind. A repeated call resumes an interrupted restore. */
  async restore(path: string, options: Omit<RestoreOptions, 'onlyNew'> = {}): Promise<RestoreReport> {
    checkCall('restore', options)
    return await read(path, (file) => restoreBackup(this.#kernel, file, options, sourceOf(path)))
  }

  /**
   * Ships the commits of a SQLite store to a folder or to 's3://bucket/prefix', until the signal aborts or the engine is
   * closed. `reprise ship` does the same in a process of its own, which is better for large stores. See docs/guides/backup.md.
   * @example const { position } = await rp.ship('s3://backups/app', { once: true })
   */
  async ship(place: string, options: ShipOptions = {}): Promise<ShipStatus> {
    checkCall('ship', options)
    checkText('the place of ship()', place)
    const { location } = await this.#kernel.store.upkeep.facts()
    const where = isObjectStore(place) ? place.replace(/\/+$/, '') : resolve(place)
    // A second one would fence the first, as it does for dead processes.
    if (this.#shipsTo.has(where)) {
      throw new RepriseError('CONFLICT', `this program already ships to ${place}: stop that first`, { place })
    }
    this.#shipsTo.add(where)
    const closing = new AbortController()
    const signal = options.signal ? AbortSignal.any([options.signal, closing.signal]) : closing.signal
    const running = shipStore(location, place, this.#kernel, { ...options, signal }).finally(() =>
      this.#shipsTo.delete(where),
    )
    // Runs after all commits: the last writes of timelines are shipped too.
    this.#host.onClosed(async () => {
      closing.abort()
      await running.catch(() => undefined)
    })
    return await running
  }

  async verify(options: VerifyOptions = {}): Promise<VerifyReport> {
    checkCall('verify', options)
    return await verify(this.#kernel, options, otherPlaces)
  }

  async drill(options: DrillOptions = {}): Promise<DrillReport> {
    checkCall('drill', options)
    return await drill(this.#kernel, (head) => this.#host.models.foldOf(head.timeline), options)
  }

  /**
   * Re-encrypts everything with the current key of the ring, so that other keys can leave it. Other processes continue
   * meanwhile; after a kill, call it again. See docs/guides/encryption.md.
   */
  async rekey(options: RekeyOptions = {}): Promise<RekeyReport> {
    checkCall('rekey', options)
    return await rekey(this.#kernel, options, async () => {
      let rows = 0
      const all = new Set(this.#host.models.all().flatMap(({ seals }) => seals ?? []))
      for (const seals of all) rows += await runInStore(this.#kernel, seals)
      return rows
    })
  }

  /** The keys that the store records as in use, and those that this process lacks. */
  async keys(): Promise<{ readonly current: string | null; readonly noted: string[]; readonly lacking: string[] }> {
    const noted = await notedKeys(this.#kernel)
    const { sealer } = this.#kernel
    return { current: sealer.keyId, noted, lacking: noted.filter((id) => !sealer.hasKey(id)) }
  }

  /** A keyed hash, for ids and labels that must not reveal their content: equal texts have equal hashes. */
  hashed(text: string): string {
    const { hasher } = this.#kernel.sealer
    checkText('the text of hashed()', text)
    if (!hasher) throw new RepriseError('INVALID_ARGUMENT', 'hashed() needs a key: open with keys.hashing.key', {})
    return hasher.text(text)
  }

  /** Unfinished long changes of the store, oldest first. See docs/guides/backup.md. */
  async changes(): Promise<StoreChange[]> {
    return await storeChanges(this.#kernel)
  }

  /** Undoes an interrupted change: the store is as it was before. The call is refused if only a resume can end the change. */
  async abandonChange(id: string): Promise<AbandonedChange> {
    this.#host.check()
    return await abandonChange(this.#host, id)
  }

  /** Losses from repairs of the store that no person has accepted yet, oldest first. See docs/guides/repair.md. */
  async losses(): Promise<LossRecord[]> {
    return await storeLosses(this.#kernel)
  }

  /**
   * Accepts a loss, by a person's decision: verify and doctor no longer report it, and the log records the person and the
   * reason.
   * @example for (const { id } of await rp.losses()) await rp.acceptLoss(id, { by: 'ann', reason: 'no backup has it' })
   */
  async acceptLoss(id: string, options: AcceptLossOptions): Promise<LossRecord> {
    checkGivenCall('acceptLoss', options)
    return await acceptLoss(this.#kernel, id, options)
  }

  async collect(options: CollectOptions = {}): Promise<CollectReport> {
    checkCall('collect', options)
    return await collect(this.#kernel, options)
  }

  /**
   * Moves the chunks of older checkpoints to the colder tiers in the option `tiers` of open(), and reports where chunks are
   * stored. Housekeeping does this automatically. After an interruption, call it again. See docs/guides/tiers.md.
   */
  async tiers(options: MoveTiersOptions = {}): Promise<TiersReport> {
    checkCall('tiers', options)
    return await moveTiers(this.#kernel, options)
  }

  /**
   * Deletes a timeline permanently, with its archives. The call is refused while the timeline has an owner or is needed. `dryRun`
   * reports what would be deleted: forks, savepoints, unread mail, cursors.
   */
  async delete(timeline: string, options: DeleteOptions = {}): Promise<DeleteReport> {
    checkCall('delete', options)
    return await deleteTimeline(this.#kernel, timelineId(timeline), options)
  }

  /**
   * Deletes a timeline, and removes its bytes from the files of the store; reports the removed parts and where copies may
   * remain. A repeated call resumes an interrupted erasure.
   */
  async erase(timeline: string, options: DeleteOptions = {}): Promise<EraseReport> {
    checkCall('erase', options)
    return await eraseTimeline(this.#kernel, timelineId(timeline), options)
  }

  /**
   * Erases single entries of a live history, including history shared with forks and archives; `dryRun` reports the entries.
   * A repeated call resumes an interrupted erasure. See docs/guides/housekeeping.md.
   * @example await rp.eraseEntries('notes/ann', { where: { fields: { email: 'ann@example.com' } }, dryRun: true })
   */
  async eraseEntries(timeline: string, options: EraseEntriesOptions): Promise<EraseEntriesReport> {
    checkGivenCall('eraseEntries', options)
    return await eraseEntries(this.#kernel, timelineId(timeline), options)
  }

  /**
   * Gives up damaged history that no copy has, by a person's decision: the report names the loss, and the timeline continues
   * without it if its model can. `dryRun` reports the loss, and the reason for a refusal. See docs/guides/repair.md.
   * @example await rp.giveUp('notes/ann', { by: 'ann', reason: 'the disk lost a sector', dryRun: true })
   */
  async giveUp(timeline: string, options: GiveUpOptions): Promise<GiveUpReport> {
    checkGivenCall('giveUp', options)
    return await giveUp(this.#kernel, timelineId(timeline), options)
  }

  /**
   * The outside effects of a timeline, in the order of their intents, without taking it over. For a fork, includes those of its
   * original, with `inheritedFrom`.
   */
  async effectsOf(timeline: string): Promise<(Effect & { readonly inheritedFrom?: string })[]> {
    const id = timelineId(timeline)
    const head = await existing(this.#kernel, id)
    const { state, lineage } = await recover(this.#kernel, head, this.#host.models.foldOf(id) ?? ledgerOnly)
    return withOwners(listEffects(state.ledger), inheritedBy(lineage))
  }

  /**
   * Finds the sequence before a logical error, and the entries that a rollback to it would undo. It changes nothing:
   * `rollback` acts.
   */
  async planRollback(timeline: string, before: Before): Promise<RollbackPlan> {
    const id = timelineId(timeline)
    checkObject('the second argument of planRollback()', before)
    const known = { fold: this.#host.models.foldOf(id), model: this.#host.models.find(id), ledger: ledgerOnly }
    return await planRollback(this.#kernel, id, before, known)
  }

  /** Marks a checkpoint as bad, by a person's decision: it is not restored from until a person removes the mark. */
  async markCheckpoint(timeline: string, checkpoint: string, bad: BadCheckpoint): Promise<void> {
    checkGivenCall('markCheckpoint', bad)
    await markBad(this.#kernel, timeline, checkpoint, bad)
  }

  async unmarkCheckpoint(timeline: string, checkpoint: string): Promise<void> {
    await unmarkBad(this.#kernel, timeline, checkpoint)
  }

  async card(timeline: string): Promise<RecoveryCard> {
    const id = timelineId(timeline)
    return await card(this.#kernel, id, this.#host.models.foldOf(id), await this.#host.opened(id))
  }

  /** The store's log: recoveries, fallbacks, drills, failed checkpoints, repairs; the newest that match, oldest first. */
  async log(filter: ReportFilter = {}): Promise<Report[]> {
    checkCall('log', filter)
    return await readReports(this.#kernel, filter)
  }

  async head(timeline: string): Promise<Head | null> {
    return await this.#host.head(timeline)
  }

  /** All that match, in id order; with `limit`, the first ones. Too many to hold at once: LIMIT_EXCEEDED, use `each`. */
  async list(query: Partial<TimelineQuery> = {}): Promise<Head[]> {
    checkCall('list', query)
    return await this.#host.list(query)
  }

  /** All that match, one after another, however many there are. */
  each(query: Omit<Partial<TimelineQuery>, 'limit'> = {}): AsyncGenerator<Head> {
    checkCall('each', query)
    return this.#host.each(query)
  }

  async checkpoints(timeline: string): Promise<ManifestRecord[]> {
    return await this.#kernel.store.checkpoints(timelineId(timeline))
  }

  async workers(): Promise<WorkerRow[]> {
    return await this.#kernel.store.workers()
  }

  async feed(
    after: FeedPosition,
    options: { readonly prefixes?: readonly string[]; readonly limit?: number } = {},
  ): Promise<FeedPage> {
    checkCall('feed', options)
    const { prefixes, limit = 1000 } = options
    checkCount('feed: limit', limit)
    // A loop over pages of a store that answers synchronously yields to the event loop here.
    this.#yielder ??= new Yielder(this.#kernel.clock)
    await this.#yielder.take()
    const { identity, store } = this.#kernel
    const { positions, at, seen } = await OutsidePositions.opened(this.#kernel, undefined, after)
    const page = await store.feed(at, prefixes ? { prefixes } : {}, limit)
    await positions.confirm(identity)
    const last = page.items.at(-1)
    if (last && page.isEnd) identity.saw(last)
    const seenIn = ({ timeline, run }: FeedItem) => ({ timeline, seq: lastSeq(run), digest: run.digest })
    const items = page.items.map((item) => ({ ...item, position: positions.seal(item.position, seenIn(item)) }))
    return { ...page, items, next: positions.seal(page.next, last ? seenIn(last) : seen) }
  }

  async facts(): Promise<StoreFacts> {
    return await this.#kernel.store.upkeep.facts()
  }

  /** The databases of the store; empty if it is a single one. */
  async shards(): Promise<ShardRow[]> {
    return (await this.#kernel.store.shards?.list()) ?? []
  }

  /**
   * Adds a database to the set and moves the timelines that belong there, while their runs continue. A repeated call
   * resumes after an interruption. Every process of the set must get the new address; the call waits until all have it.
   * @example await rp.addShard('postgres://d.internal/app', { onProgress: ({ moved }) => console.log(moved) })
   */
  async addShard(url: string, options: AddShardOptions = {}): Promise<Grown> {
    checkCall('addShard', options)
    return await addShard(this.#kernel, url, options)
  }
}
