// Who this store is to the outside: an id and an incarnation, kept with the store (attribute `$identity` of `reprise/store`), and
// what ids of timelines start from. Keys, positions and random values are derived from it (core/identity.ts).

import { type TimelineId, toHex } from '../core/coordinate.ts'
import { type Intent, identityOf, type StoreIdentity } from '../core/identity.ts'
import type { Hash, Head, PastLife, Random, Store } from '../core/ports.ts'
import { archiveNumber, isArchiveOf } from '../core/scope.ts'
import type { Planted } from './planted.ts'
import { readNote, updateNotes } from './seal/key-notes.ts'

const note = '$identity'
const idBytes = 16
const incarnationBytes = 8
const secretBytes = 32

/** Of a store that was never opened for writing by a version that makes one. */
const nobody: StoreIdentity = { id: '', incarnation: '', secret: '' }

interface Ports {
  readonly store: Store
  readonly namespace: string
  readonly hash: Hash
  readonly random: Random
  readonly planted?: Planted
}

export type Origin = Pick<Intent, 'identity' | 'generation'>

export class Identity {
  readonly #ports: Ports
  #known: StoreIdentity | null = null
  #loading: Promise<StoreIdentity> | null = null
  /** What an id that was never used starts from, as far as this process has seen. */
  usual: Pick<PastLife, 'life' | 'epoch'> = { life: 0, epoch: 0 }

  constructor(ports: Ports) {
    this.#ports = ports
  }

  /** Null until it was loaded. */
  get known(): StoreIdentity | null {
    return this.#known
  }

  /** Reads the identity of the store. Makes one if there is none, unless this process only reads. */
  load(isReadOnly = false): Promise<StoreIdentity> {
    if (this.#known) return Promise.resolve(this.#known)
    this.#loading ??= this.#load(isReadOnly).finally(() => {
      this.#loading = null
    })
    return this.#loading
  }

  async #load(isReadOnly: boolean): Promise<StoreIdentity> {
    const found = parse(await readNote(this.#ports, note))
    if (!found && isReadOnly) return nobody
    this.#known = found ?? (await this.#change(newIdentity(this.#ports.random), false))
    return this.#known
  }

  /**
   * The store went back to an earlier state, or became another: a new incarnation, so that positions from before are refused.
   * With `id`, it takes over the identity of the store that it was restored from; with `isCopy`, it gets one of its own.
   */
  async reincarnate(
    as: { readonly id?: string; readonly secret?: string; readonly isCopy?: boolean } = {},
  ): Promise<StoreIdentity> {
    const fresh = newIdentity(this.#ports.random)
    const before = await this.load()
    const { id = before.id, secret = before.secret } = as
    this.#known = await this.#change(as.isCopy ? fresh : { ...fresh, id, secret }, true)
    return this.#known
  }

  /** Of one life of a timeline; needs `load`. */
  of(timeline: TimelineId, life: number): string {
    const { hash, namespace, planted } = this.#ports
    const known = this.#known ?? nobody
    if (!planted?.size) return identityOf(hash, known, namespace, timeline, life)
    const store = planted.has('incarnation-in-key') ? { id: known.id + known.incarnation } : known
    const name = planted.has('namespace-left-out') ? '' : namespace
    return identityOf(hash, store, name, timeline, planted.has('life-left-out') ? 1 : life)
  }

  /** What the keys of a timeline are derived from; needs `load`. Each rollback leaves an archive with the next number. */
  origin({ timeline, life, base }: Pick<Head, 'timeline' | 'life' | 'base'>): Origin {
    const isRolledBack = base !== null && isArchiveOf(timeline, base.timeline)
    return { identity: this.of(timeline, life), generation: isRolledBack ? archiveNumber(base.timeline) : 0 }
  }

  /** What this id starts from. */
  async past(timeline: TimelineId): Promise<Pick<PastLife, 'life' | 'epoch'>> {
    const [past] = await this.#ports.store.past([timeline])
    const { life, epoch } = past!
    if (past!.forgottenAt === 0 && life > this.usual.life) this.usual = { life, epoch }
    return { life, epoch }
  }

  async #change(identity: StoreIdentity, replaces: boolean): Promise<StoreIdentity> {
    let kept = identity
    await updateNotes(this.#ports, (attributes) => {
      const found = replaces ? null : parse(attributes[note])
      kept = found ?? identity
      return found ? null : { [note]: JSON.stringify(identity) }
    })
    return kept
  }
}

function newIdentity(random: Random): StoreIdentity {
  return {
    id: toHex(random.bytes(idBytes)),
    incarnation: toHex(random.bytes(incarnationBytes)),
    secret: toHex(random.bytes(secretBytes)),
  }
}

function parse(text: unknown): StoreIdentity | null {
  if (typeof text !== 'string') return null
  const { id, incarnation, secret } = JSON.parse(text) as StoreIdentity
  return { id, incarnation, secret }
}
