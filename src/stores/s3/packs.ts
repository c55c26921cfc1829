// The packs and notes of one chunk store in the object store: reads those of other processes, writes new ones, and
// keeps the index (pack-index.ts) current. Nothing here is ever overwritten: names are new, and later names sort after
// earlier ones.
// A list of the packs is the truth about which exist. Notes save reading each pack for its list; many notes are joined,
// and the old ones are deleted after the new ones are written. A concurrent reader finds them missing and lists again.

import { randomBytes } from 'node:crypto'
import { RepriseError } from '../../core/errors.ts'
import type { Hash } from '../../core/store/ports.ts'
import type { ObjectRow, Objects } from './objects.ts'
import {
  decodeNotes,
  encodeNotes,
  encodePack,
  listBytesOf,
  listIn,
  type Notes,
  type PackedChunk,
  packTailBytes,
} from './pack.ts'
import { type Copy, digestAt, type Pack, PackIndex } from './pack-index.ts'

/** The list of a pack of a few megabytes is shorter than this. */
const tailBytes = 64 * 1024
/** How many small objects are read at each opening before they are joined. */
const joinedAt = 48
/** Notes above this are joined only if there are many of their size. */
const largeNotesBytes = 1024 * 1024
const largeNotesMax = 16
const looksMax = 5
/** Chunks near each other are read with one request, gaps included. */
const gapBytes = 128 * 1024
const readBytesMax = 8 * 1024 * 1024

export class Packs {
  readonly index = new PackIndex()
  readonly #objects: Objects
  readonly #hash: Hash
  /** Notes that were read, with their size, without those deleted since. */
  #notes = new Map<string, number>()
  /** When chunks of a pack were last marked for deletion, by the clock of the object store. */
  readonly #droppedAt = new Map<string, number>()
  /** When packs were written, by the same clock. */
  readonly #writtenAt = new Map<string, number>()
  /** Packs whose list is in notes. */
  readonly #noted = new Map<string, string>()
  #newestMs = 0
  #isRead = false
  #reading: Promise<void> | null = null

  constructor(objects: Objects, hash: Hash) {
    this.#objects = objects
    this.#hash = hash
  }

  async opened(): Promise<void> {
    if (!this.#isRead) await this.refresh()
  }

  /** Everything written before this call is known afterwards. */
  async refresh(): Promise<void> {
    // A running refresh may have listed before.
    while (this.#reading) await this.#reading.catch(() => undefined)
    this.#reading = this.#refresh()
    try {
      await this.#reading
    } finally {
      this.#reading = null
    }
  }

  async #refresh(): Promise<void> {
    for (let look = 1; ; look++) {
      const notes = await this.#objects.list('notes/')
      const packs = await this.#objects.list('packs/')
      for (const { key } of [...notes, ...packs])
        this.#newestMs = Math.max(this.#newestMs, Number(idOf(key).slice(0, 13)))
      // Joined or rewritten since they were listed: their replacements are in the next list.
      if ((await this.#readNotes(notes, new Set(packs.map(({ key }) => idOf(key))))) && (await this.#readPacks(packs)))
        break
      if (look >= looksMax) {
        const what = `the packs of ${this.#objects.name} change faster than they can be read`
        throw new RepriseError('STORE_BUSY', what, { where: this.#objects.name })
      }
    }
    this.#isRead = true
  }

  /** False: one of them is missing. */
  async #readNotes(rows: readonly ObjectRow[], packs: ReadonlySet<string>): Promise<boolean> {
    const listed = new Map(rows.map(({ key, bytes }) => [idOf(key), bytes]))
    this.#notes = new Map([...this.#notes].filter(([id]) => listed.has(id)))
    const fresh = rows.filter(({ key }) => !this.#notes.has(idOf(key)))
    const found = await Promise.all(fresh.map(({ key }) => this.#objects.get(key)))
    if (found.includes(null)) return false
    for (const [i, { key, bytes, modifiedAt }] of fresh.entries()) {
      const id = idOf(key)
      const notes = decodeNotes(this.#hash, found[i]!)
      for (const pack of notes.packs) {
        if (!packs.has(pack.id)) continue
        this.index.add(pack.id, pack.bytes, pack.list)
        this.#noted.set(pack.id, id)
      }
      this.index.learn(notes)
      this.#notes.set(id, bytes)
      this.#noteDrops(notes, modifiedAt)
    }
    return true
  }

  async #readPacks(rows: readonly ObjectRow[]): Promise<boolean> {
    const listed = new Set(rows.map(({ key }) => idOf(key)))
    const fresh = rows.filter(({ key }) => !this.index.packs.has(idOf(key)))
    const lists = await Promise.all(fresh.map(({ key, bytes }) => this.#readList(key, bytes)))
    for (const [i, { key, bytes }] of fresh.entries()) {
      const list = lists[i]
      if (list === null) return false
      // A damaged pack is unreadable: its chunks are missing, and verify reports them.
      if (list) this.index.add(idOf(key), bytes, list)
    }
    for (const { key, modifiedAt } of rows) this.#writtenAt.set(idOf(key), modifiedAt)
    for (const id of [...this.index.packs.keys()]) if (!listed.has(id)) this.#forget(id)
    return true
  }

  /** Null: it is missing. Undefined: it is damaged. */
  async #readList(key: string, size: number): Promise<Uint8Array | null | undefined> {
    const end = await this.#objects.get(key, { last: Math.min(tailBytes, size) })
    if (end === null) return null
    const listBytes = listBytesOf(end)
    if (listBytes === null || listBytes > size) return undefined
    if (end.length >= listBytes + packTailBytes) return listIn(this.#hash, end) ?? undefined
    const all = await this.#objects.get(key, { last: listBytes + packTailBytes })
    return all && (listIn(this.#hash, all) ?? undefined)
  }

  /** Durable when it resolves. */
  async write(chunks: readonly PackedChunk[]): Promise<string> {
    const id = this.#newId()
    const { bytes, list } = encodePack(this.#hash, chunks)
    await this.#objects.put(`packs/${id}`, bytes)
    this.index.add(id, bytes.length, list)
    this.#writtenAt.set(id, this.#objects.now())
    return id
  }

  /** Durable when it resolves, and not yet in the index: other processes may have written first. */
  async note(notes: Partial<Notes>): Promise<void> {
    const id = this.#newId()
    const bytes = encodeNotes(this.#hash, { packs: [], touches: [], drops: [], ...notes })
    // Recorded now, so that a refresh does not count it among the notes of other processes.
    this.#notes.set(id, bytes.length)
    await this.#objects.put(`notes/${id}`, bytes)
    this.#noteDrops({ drops: notes.drops ?? [] }, this.#objects.now())
  }

  async remove(ids: readonly string[]): Promise<void> {
    await this.#objects.delete(ids.map((id) => `packs/${id}`))
    for (const id of ids) this.#forget(id)
  }

  /** True if everything that makes this copy superfluous has been visible for this long. */
  isSettled({ pack, place }: Copy, graceMs: number): boolean {
    const all = this.index.copiesOf(digestAt(pack, place))
    const newer = all.filter((copy) => copy.pack.id > pack.id && !this.index.isDropped(copy))
    const sinceOf = (id: string) => this.#writtenAt.get(id) ?? this.#objects.now()
    const since = this.index.isDropped({ pack, place })
      ? (this.#droppedAt.get(pack.id) ?? this.#objects.now())
      : Math.min(...newer.map(({ pack: { id } }) => sinceOf(id)))
    return since <= this.#objects.now() - graceMs
  }

  /** Joins many objects into few, so that the next opening reads few. */
  async join(): Promise<void> {
    const isLarge = (bytes: number) => bytes >= largeNotesBytes
    const large = [...this.#notes.values()].filter(isLarge).length
    const going = [...this.#notes].filter(([, bytes]) => large > largeNotesMax || !isLarge(bytes)).map(([id]) => id)
    const covered = new Set(going)
    const packs = [...this.index.packs.values()].filter(({ id }) => {
      const by = this.#noted.get(id)
      return by === undefined || covered.has(by) || !this.#notes.has(by)
    })
    const unnoted = packs.filter(({ id }) => !this.#noted.has(id)).length
    if (going.length + unnoted < joinedAt) return
    const id = this.#newId()
    const lists = packs.map((pack) => ({ id: pack.id, bytes: pack.bytes, list: pack.encodedList }))
    const facts = this.index.facts()
    const bytes = encodeNotes(this.#hash, { packs: lists, ...facts })
    await this.#objects.put(`notes/${id}`, bytes)
    this.#notes.set(id, bytes.length)
    for (const pack of packs) this.#noted.set(pack.id, id)
    await this.#objects.delete(going.map((each) => `notes/${each}`))
    for (const each of going) this.#notes.delete(each)
  }

  /** The bytes of these, in the order requested; null if the pack is missing or ends too early. */
  async read(copies: readonly Copy[]): Promise<(Uint8Array | null)[]> {
    const found: (Uint8Array | null)[] = copies.map(() => null)
    await Promise.all(
      spansOf(copies).map(async ({ pack, from, bytes, members }) => {
        const read = bytes === 0 ? new Uint8Array(0) : await this.#objects.get(`packs/${pack.id}`, { from, bytes })
        if (read === null || read.length < bytes) return
        for (const i of members) {
          const at = copies[i]!.pack.offsets[copies[i]!.place]! - from
          // A copy: a view would keep the whole response in memory.
          found[i] = read.slice(at, at + pack.sizes[copies[i]!.place]!)
        }
      }),
    )
    return found
  }

  #forget(id: string): void {
    this.index.remove(id)
    for (const known of [this.#noted, this.#droppedAt, this.#writtenAt]) known.delete(id)
  }

  #noteDrops({ drops }: Pick<Notes, 'drops'>, at: number): void {
    for (const { pack } of drops) this.#droppedAt.set(pack, Math.max(at, this.#droppedAt.get(pack) ?? 0))
  }

  /** Above every known id: a replacement is listed after its original. */
  #newId(): string {
    this.#newestMs = Math.max(Date.now(), this.#newestMs + 1)
    return `${String(this.#newestMs).padStart(13, '0')}-${randomBytes(8).toString('hex')}`
  }
}

interface Span {
  readonly pack: Pack
  readonly from: number
  bytes: number
  readonly members: number[]
}

function spansOf(copies: readonly Copy[]): Span[] {
  const offsetOf = ({ pack, place }: Copy) => pack.offsets[place]!
  const order = copies
    .map((_, i) => i)
    .sort((a, b) => {
      const [one, other] = [copies[a]!, copies[b]!]
      return one.pack === other.pack ? offsetOf(one) - offsetOf(other) : one.pack.id < other.pack.id ? -1 : 1
    })
  const spans: Span[] = []
  for (const i of order) {
    const { pack, place } = copies[i]!
    const [from, end] = [pack.offsets[place]!, pack.offsets[place]! + pack.sizes[place]!]
    const last = spans.at(-1)
    const isNear = last?.pack === pack && from - (last.from + last.bytes) <= gapBytes && end - last.from <= readBytesMax
    if (last && isNear) {
      last.bytes = Math.max(last.bytes, end - last.from)
      last.members.push(i)
    } else spans.push({ pack, from, bytes: end - from, members: [i] })
  }
  return spans
}

function idOf(key: string): string {
  return key.slice(key.indexOf('/') + 1)
}
