// The identity of this store: an id and an incarnation, kept by the store (Store.identity), and the numbers that new
// timelines start from. Keys, positions and random values are derived from it (core/identity.ts).

import { type TimelineId, toHex } from '../../core/coordinate.ts'
import { archiveNumber, isArchiveOf } from '../../core/history/scope.ts'
import { type Intent, identityOf, nextEra, type StoreIdentity } from '../../core/identity.ts'
import type { FeedItem, Hash, Head, PastLife, Random, Store } from '../../core/store/ports.ts'
import type { Planted } from '../base/planted-bugs.ts'
import { type Carried, carriedBy, carriedText } from './carried-identity.ts'

const idBytes = 16
const incarnationBytes = 8
const secretBytes = 32

/** The identity of a store that no version with identities has opened for writing. */
const nobody: StoreIdentity = { id: '', incarnation: '', era: 0, secret: '' }

interface Ports {
  readonly store: Store
  readonly namespace: string
  readonly hash: Hash
  readonly random: Random
  /** The clock. Default: that of this machine. */
  readonly now?: () => number
  readonly planted?: Planted
}

/** The fields of a head from which a timeline's keys are derived. */
export type Identified = Pick<Head, 'timeline' | 'life' | 'base'> & Partial<Pick<Head, 'attributes'>>

export type Origin = Pick<Intent, 'identity' | 'generation'>

export class Identity {
  readonly #ports: Ports
  #known: StoreIdentity | null = null
  #loading: Promise<StoreIdentity> | null = null
  #last: Promise<unknown> = Promise.resolve()
  /** The next read, not started yet. */
  #coming: Promise<StoreIdentity> | null = null
  #isReadOnly = false
  /** False: the store lacks data that this process knows to be durable. Set by the engine. */
  isWhole: () => Promise<boolean> = async () => true
  /** Records the newest feed entry read: the store must have it from now on. Set by the engine. */
  saw: (last: Pick<FeedItem, 'timeline' | 'run'>) => void = () => undefined
  /** Called with each incarnation that this process began because the store went back. Set by the engine. */
  onWentBack: (now: StoreIdentity) => void = () => undefined
  /** The numbers that an unused id starts from, as far as this process has seen. */
  usual: Pick<PastLife, 'life' | 'epoch'> = { life: 0, epoch: 0 }

  constructor(ports: Ports) {
    this.#ports = ports
  }

  /** Null until it is loaded. */
  get known(): StoreIdentity | null {
    return this.#known
  }

  /** Reads the identity of the store. Creates one if there is none, unless this process only reads. */
  load(isReadOnly = false): Promise<StoreIdentity> {
    if (!isReadOnly) this.#isReadOnly = false
    if (this.#known) return Promise.resolve(this.#known)
    this.#loading ??= this.#load(isReadOnly).finally(() => {
      this.#loading = null
    })
    return this.#loading
  }

  async #load(isReadOnly: boolean): Promise<StoreIdentity> {
    this.#isReadOnly = isReadOnly
    const found = parse(await this.#ports.store.identity())
    if (!found && isReadOnly) return nobody
    this.#known = found ?? (await this.#change({ ...newIdentity(this.#ports.random), era: 0 }, false))
    return this.#known
  }

  /**
   * The store's current identity. A store that went back to an older copy of itself (a failover to a lagging replica)
   * begins a new incarnation here; one of the processes that notice it is enough.
   */
  current(): Promise<StoreIdentity> {
    // One read after another: a result never comes from a read that began before the call. Waiting calls share the next
    // read.
    this.#coming ??= this.#last.then(() => {
      this.#coming = null
      return this.#look()
    })
    this.#last = this.#coming.catch(() => undefined)
    return this.#coming
  }

  async #look(): Promise<StoreIdentity> {
    const known = await this.load(this.#isReadOnly)
    const isWhole = await this.isWhole()
    const now = parse(await this.#ports.store.identity())
    if (!now || this.#isReadOnly) return now ?? known
    if (now.era > known.era || (isWhole && now.era === known.era)) {
      this.#known = now
      return now
    }
    return (await this.wentBack()) ?? known
  }

  /** The store is an older copy of itself: begins a new incarnation, unless the store is read-only. */
  async wentBack(): Promise<StoreIdentity | null> {
    if (this.#isReadOnly) return null
    const fresh = await this.reincarnate()
    this.onWentBack(fresh)
    return fresh
  }

  /**
   * Begins a new incarnation, because the store went back to an earlier state or became another store: earlier
   * positions are then refused. With `id` and `namespace`, the store takes over the identity of the store that it was
   * restored from; with `isCopy`, it gets an identity of its own.
   */
  async reincarnate(
    as: {
      readonly id?: string
      readonly secret?: string
      readonly namespace?: string | undefined
      readonly isCopy?: boolean
    } = {},
  ): Promise<StoreIdentity> {
    const fresh = newIdentity(this.#ports.random)
    const before = await this.load()
    const there = parse(await this.#ports.store.identity()) ?? before
    const { id = before.id, secret = before.secret, namespace = before.namespace } = as
    const era = nextEra(Math.max(before.era, there.era), this.#ports.now?.() ?? Date.now())
    const kept = { ...fresh, id, secret, era, ...(namespace !== undefined && { namespace }) }
    this.#known = await this.#change(as.isCopy ? { ...fresh, era } : kept, true)
    return this.#known
  }

  /** The namespace from which identities are derived; needs `load`. */
  get namespace(): string {
    return this.#known?.namespace ?? this.#ports.namespace
  }

  /** The identity of one life of a timeline; needs `load`. */
  of(timeline: TimelineId, life: number): string {
    const { hash, planted } = this.#ports
    const { namespace } = this
    const known = this.#known ?? nobody
    if (!planted?.size) return identityOf(hash, known, namespace, timeline, life)
    const store = planted.has('incarnation-in-key') ? { id: known.id + known.incarnation } : known
    const name = planted.has('namespace-left-out') ? '' : namespace
    return identityOf(hash, store, name, timeline, planted.has('life-left-out') ? 1 : life)
  }

  /** The origin of a timeline's keys; needs `load`. Each rollback leaves an archive with the next number. */
  origin({ timeline, life, base, attributes }: Identified): Origin {
    const carried = carriedBy(attributes)
    const isRolledBack = base !== null && isArchiveOf(timeline, base.timeline)
    const { offset = 0, generation = 0 } = carried ?? {}
    return {
      identity: carried?.identity ?? this.of(timeline, life),
      generation: isRolledBack ? offset + archiveNumber(base.timeline) : generation,
    }
  }

  /** The identity to store in an export. Null: this store has no identity. Needs `load`. */
  carried(head: Identified): Carried | null {
    if (!this.#known) return null
    const { isOwn = false, offset = 0 } = carriedBy(head.attributes) ?? {}
    return { ...this.origin(head), isOwn, offset }
  }

  /** The identity attribute of a timeline that arrives from another store. Null: not needed. */
  async arriving(
    { timeline, life }: Pick<Head, 'timeline' | 'life'>,
    carried: Carried | undefined,
    { isBeside, isRestored }: { readonly isBeside: boolean; readonly isRestored: boolean },
  ): Promise<string | null> {
    await this.load()
    const identity = this.of(timeline, life)
    if (isBeside) return carriedText({ identity, isOwn: true, generation: 0, offset: 0 }, identity)
    if (!carried) return null
    // A restore also includes the archives of earlier rollbacks, and numbers the next one after them.
    const offset = isRestored ? carried.offset : carried.generation
    return carriedText({ ...carried, offset }, identity)
  }

  /** The life and epoch that this id starts from. */
  async past(timeline: TimelineId): Promise<Pick<PastLife, 'life' | 'epoch'>> {
    const [past] = await this.#ports.store.past([timeline])
    const { life, epoch } = past!
    if (past!.forgottenAt === 0 && life > this.usual.life) this.usual = { life, epoch }
    return { life, epoch }
  }

  async #change(identity: StoreIdentity, replaces: boolean): Promise<StoreIdentity> {
    return parse(await this.#ports.store.identity(JSON.stringify(identity), replaces)) ?? identity
  }
}

function newIdentity(random: Random): Omit<StoreIdentity, 'era'> {
  return {
    id: toHex(random.bytes(idBytes)),
    incarnation: toHex(random.bytes(incarnationBytes)),
    secret: toHex(random.bytes(secretBytes)),
  }
}

function parse(text: string | null): StoreIdentity | null {
  if (text === null) return null
  const { id, incarnation, era, secret, namespace } = JSON.parse(text) as StoreIdentity
  return { id, incarnation, era, secret, ...(namespace !== undefined && { namespace }) }
}
