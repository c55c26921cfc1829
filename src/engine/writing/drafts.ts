// The entries of one request on their way in: encoded and packed one after another (core/history/packed-entries.ts),
// not yet sealed, because sealing binds them to their place. The entries for the fold are made along with them, except
// for their place.

import { isWellFormed, type TimelineId } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import { EntryPacker, type PackedEntries, pickPacked } from '../../core/history/packed-entries.ts'
import type { Writable } from '../../core/writable.ts'
import type { Fold } from '../model/definition.ts'
import { type Entry, endKey, isEndKey, type NewEntry } from '../model/entry.ts'
import type { Kernel } from '../storage/kernel.ts'

export interface Drafts {
  /** As a replay would decode them; sequence and epoch are set once their place is known. */
  readonly entries: readonly Writable<Entry>[]
  /** Null: there are none. */
  readonly packed: PackedEntries | null
  /** By index, the key of the entry that each belongs to: its own, or an earlier one. Null: none has a key of its own. */
  readonly keys: readonly (string | undefined)[] | null
}

const keyLengthMax = 512

export const noDrafts: Drafts = { entries: [], packed: null, keys: null }

/** Throws if one of them cannot be stored. */
export class DraftMaker {
  readonly #kernel: Kernel
  readonly #timeline: TimelineId
  readonly #upcasters: Fold<unknown>['upcasters']
  /** The last type found well-formed: the next entry usually has it as well. */
  #typeSeen: string | null = null

  constructor(kernel: Kernel, timeline: TimelineId, upcasters: Fold<unknown>['upcasters']) {
    this.#kernel = kernel
    this.#timeline = timeline
    this.#upcasters = upcasters
  }

  make(entries: readonly NewEntry[]): Drafts {
    const { limits, codec, clock } = this.#kernel
    if (entries.length > limits.entriesPerAppend) {
      throw new RepriseError(
        'LIMIT_EXCEEDED',
        `one append must have at most ${limits.entriesPerAppend} entries (got ${entries.length})`,
      )
    }
    if (entries.length === 0) return noDrafts
    const now = clock.now()
    let earliest = Number.POSITIVE_INFINITY
    let isKeyed = false
    for (const entry of entries) {
      this.#check(entry)
      earliest = Math.min(earliest, entry.time ?? now)
      isKeyed ||= entry.key !== undefined
    }
    const packer = new EntryPacker(codec, earliest)
    try {
      const made = new Array<Writable<Entry>>(entries.length)
      for (let i = 0; i < entries.length; i++) made[i] = this.#add(packer, entries[i]!, now)
      const keys = isKeyed ? entries.map(({ key, partOf = key }) => partOf) : null
      return { entries: made, packed: packer.finish(), keys }
    } finally {
      packer.close()
    }
  }

  /** Entries without a version are treated as the current version. */
  versionOf({ type, version }: NewEntry): number {
    return version ?? this.#upcasters?.[type]?.version ?? 1
  }

  #add(packer: EntryPacker, entry: NewEntry, now: number): Writable<Entry> {
    const { type, key, time = now } = entry
    const made: Writable<Entry> = {
      timeline: this.#timeline,
      seq: 0,
      epoch: 0,
      type,
      version: this.versionOf(entry),
      time,
      key,
      data: undefined,
    }
    // The fold gets the decoded bytes, as replay does; later changes of the caller's object have no effect.
    made.data = packer.add(made, entry.data, entry.holdsType === true)
    return made
  }

  #check({ type, key }: NewEntry): void {
    if (type !== this.#typeSeen) {
      checkType(type)
      this.#typeSeen = type
    }
    if (key === undefined || isKey(key)) return
    throw new RepriseError('INVALID_ARGUMENT', `a key must be well-formed text of 1 to ${keyLengthMax} characters`, {
      type,
    })
  }
}

/** The wanted drafts; the same object if all are. */
export function pickDrafts(drafts: Drafts, isWanted: (index: number) => boolean): Drafts {
  const wanted = drafts.entries.map((_, index) => isWanted(index))
  if (!wanted.includes(false)) return drafts
  if (!wanted.includes(true)) return noDrafts
  const entries = drafts.entries.filter((_, index) => wanted[index])
  const keys = drafts.keys?.filter((_, index) => wanted[index]) ?? null
  return { entries, packed: pickPacked(drafts.packed!, (index) => wanted[index]!), keys }
}

function isKey(key: unknown): boolean {
  if (typeof key !== 'string' || key.length < 1 || !isWellFormed(key)) return false
  return key.length <= (isEndKey(key) ? endKey('').length + keyLengthMax : keyLengthMax)
}

const typeForm = /^[\p{L}\p{N}$._:-]{1,128}$/u

function checkType(type: string): void {
  if (typeof type !== 'string' || !typeForm.test(type)) {
    throw new RepriseError('INVALID_ARGUMENT', 'the type of an entry must have 1 to 128 letters, digits and "._:-"', {
      type: String(type).slice(0, 80),
    })
  }
}
