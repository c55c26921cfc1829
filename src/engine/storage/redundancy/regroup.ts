// Keeps groups consistent with the stored chunks. A swept chunk leaves its group first: the new parity is put before
// the chunk is deleted, and the old parity is deleted last, so that the remaining chunks never lose their protection.
// Tending adds chunks without a group (of an older release, of a crash) to one, and merges groups that have become
// small.

import { lanes, type Member, ParityBuilder } from '../../../core/checkpoint/parity.ts'
import { type Digest, equalBytes, fromHex, toHex } from '../../../core/coordinate.ts'
import { isRedundancy } from '../../../core/store/blobs.ts'
import type { Blobs, ChunkRow, Hash, StoredChunk } from '../../../core/store/ports.ts'
import { keysOf, loadGroups, readParity, type StoredGroup, storedForm } from './groups.ts'
import { idOf, keyOf, kinds, listKind } from './keys.ts'
import type { Mender } from './mend.ts'

const pageRows = 1000
const deletedAtOnce = 500
/** Groups with fewer bytes are merged. */
const smallBytes = 256 * 1024
const newGroupBytes = 2 * 1024 * 1024
/** Bytes that may wait for a group in memory. */
const poolBytesMax = 16 * 1024 * 1024
/** A group whose parity exceeds this share of its members is rebuilt together with others. */
const parityShareMax = 1.6 / lanes
/** The most that tending reads in one call; the rest follows in the next. */
const tendBytesMax = 64 * 1024 * 1024

/**
 * Deletes chunks as `Blobs.delete` does. Large batches are cheaper: a group without remaining members is not read at
 * all.
 * A concurrent put may add to a group that is being rebuilt here, and its new parity still contains chunks swept here.
 * Therefore the old groups are deleted first, and then all groups are read again: either the new group is found here,
 * or the other process finds the group it added to deleted (`RedundantBlobs.put`), and one of the two removes the swept
 * chunks.
 */
export async function regroup(
  blobs: Blobs,
  hash: Hash,
  mender: Mender,
  digests: readonly Digest[],
  touchedBefore: number,
  planted: ReadonlySet<string>,
): Promise<number> {
  if (planted.has('sweep-leaves-groups')) return await deleteSome(blobs, digests, touchedBefore)
  const going = new Set(digests.map(toHex))
  const pool = new Pool(blobs, hash)
  const affected = await touchedBy(blobs, hash, going)
  for (const group of affected)
    await takeOut(blobs, hash, mender, group, going, pool, planted.has('leaves-without-xor'))
  await pool.finish()
  const count = await deleteSome(blobs, digests, touchedBefore)
  // A chunk that was put again meanwhile stays, and gets a group of its own.
  const isThere = (await blobs.has?.(digests)) ?? []
  const survivors = digests.filter((_, i) => isThere[i])
  for (const digest of survivors) going.delete(toHex(digest))
  for (const [digest, bytes] of await mender.readAll(survivors)) await pool.add(digest, bytes)
  await pool.finish()
  await deleteAll(blobs, affected.flatMap(keysOf))
  await dissolve(blobs, hash, mender, going)
  await deleteAll(
    blobs,
    [...going].map((name) => keyOf(kinds.copy, fromHex(name))),
  )
  return count
}

/** Rebuilds the groups that name one of these chunks from the chunks that exist, so that no group names them any more. */
export async function dissolve(blobs: Blobs, hash: Hash, mender: Mender, gone: ReadonlySet<string>): Promise<void> {
  mender.forget()
  const stale = await touchedBy(blobs, hash, gone)
  if (stale.length === 0) return
  const pool = new Pool(blobs, hash)
  for (const { members } of stale) {
    const staying = new Map(members.filter((member) => !gone.has(nameOf(member))).map((each) => [nameOf(each), each]))
    for (const [digest, bytes] of await mender.readAll([...staying.values()].map((each) => each.digest))) {
      await pool.add(digest, bytes, staying.get(toHex(digest))?.lane)
    }
  }
  await pool.finish()
  await deleteAll(blobs, stale.flatMap(keysOf))
}

async function touchedBy(blobs: Blobs, hash: Hash, names: ReadonlySet<string>): Promise<StoredGroup[]> {
  return (await loadGroups(blobs, hash)).filter(({ members }) => members.some(isIn(names)))
}

/** Deleted in portions: one large deletion would block all other writes of a store with a single writer. */
async function deleteSome(blobs: Blobs, digests: readonly Digest[], touchedBefore: number): Promise<number> {
  let count = 0
  for (let at = 0; at < digests.length; at += deletedAtOnce) {
    count += await blobs.delete(digests.slice(at, at + deletedAtOnce), touchedBefore)
  }
  return count
}

async function deleteAll(blobs: Blobs, keys: readonly Digest[]): Promise<void> {
  // Most do not exist, and checking is cheaper than writing.
  for (let at = 0; at < keys.length; at += deletedAtOnce) {
    const some = keys.slice(at, at + deletedAtOnce)
    const isThere = await blobs.has?.(some)
    const there = some.filter((_, i) => isThere?.[i] !== false)
    if (there.length > 0) await blobs.delete(there, Number.MAX_SAFE_INTEGER)
  }
}

async function takeOut(
  blobs: Blobs,
  hash: Hash,
  mender: Mender,
  group: StoredGroup,
  going: ReadonlySet<string>,
  pool: Pool,
  isPlanted: boolean,
): Promise<void> {
  const staying = group.members.filter((member) => !isIn(going)(member))
  if (staying.length === 0) return
  const stayingBytes = sumOf(staying)
  const parity = await readParity(blobs, hash, group)
  if (parity && stayingBytes * parityShareMax >= group.parityBytes) {
    const builder = new ParityBuilder()
    builder.adopt(group, parity)
    // Rebuilt if it is damaged: only the original bytes remove it from the parity.
    const leaving = await mender.readAll(group.members.filter(isIn(going)).map(({ digest }) => digest))
    for (const [digest, bytes] of leaving) builder.remove({ digest }, isPlanted ? new Uint8Array(bytes.length) : bytes)
    if (builder.members.length === staying.length) {
      await pool.put(builder)
      return
    }
  }
  // A chunk damaged beyond repair before the sweep is omitted; verify reports it.
  const laneOf = new Map(staying.map((member) => [nameOf(member), member.lane]))
  for (const [digest, bytes] of await mender.readAll(staying.map(({ digest }) => digest))) {
    await pool.add(digest, bytes, laneOf.get(toHex(digest)))
  }
}

export interface TendReport {
  readonly groups: number
  /** Chunks that had no group and now have one. */
  readonly joined: number
  readonly mended: number
}

export async function tend(
  blobs: Blobs,
  hash: Hash,
  live: ReadonlySet<string>,
  mend: (digest: Digest) => Promise<Uint8Array | null>,
  touchedBefore: number,
): Promise<TendReport> {
  // The groups are read first: a chunk that is put meanwhile comes with its group, and must not appear to be missing from
  // it.
  const groups = (await loadGroups(blobs, hash)).sort((a, b) => sumOf(b.members) - sumOf(a.members))
  const there = new Map((await allChunks(blobs)).map((row) => [toHex(row.digest), row]))
  let mended = 0
  const covered = new Set<string>()
  const laneOf = new Map<string, number>()
  const old: StoredGroup[] = []
  const small: StoredGroup[] = []
  const hasParity = await whichHaveParity(blobs, groups)
  for (const group of groups) {
    for (const member of group.members) {
      const name = nameOf(member)
      laneOf.set(name, member.lane)
      // A missing chunk that is needed is damage; a missing chunk that is not needed was swept.
      if (there.has(name) || !live.has(name) || !(await mend(member.digest))) continue
      there.set(name, { digest: member.digest, bytes: member.bytes, touchedAt: 0 })
      mended += 1
    }
    const names = group.members.map(nameOf)
    const isSound = hasParity.has(group) && names.every((name) => there.has(name))
    if (!isSound || names.every((name) => covered.has(name))) {
      old.push(group)
      continue
    }
    if (sumOf(group.members) < smallBytes) small.push(group)
    for (const name of names) covered.add(name)
  }
  const pool = new Pool(blobs, hash)
  // A merged group needs less parity. The members are read and regrouped, because their lanes may all be the same.
  const merged = small.length > 1 ? small : []
  for (const { members } of merged) for (const member of members) covered.delete(nameOf(member))
  let joined = 0
  let read = 0
  for (const [name, { digest, bytes: size }] of there) {
    if (covered.has(name) || (read > 0 && read + size > tendBytesMax)) continue
    const [bytes] = await blobs.get([digest])
    if (!bytes || !equalBytes(hash(bytes), digest)) continue
    read += bytes.length
    joined += 1
    await pool.add(digest, bytes, laneOf.get(name))
  }
  await pool.finish()
  await removeOld(blobs, hash, [...old, ...merged], there, live, touchedBefore)
  return { groups: groups.length - old.length - merged.length + pool.groups, joined, mended }
}

/** Parity is switched off: removes it, after rebuilding the chunks that only parity can restore. */
export async function abandon(
  blobs: Blobs,
  hash: Hash,
  live: ReadonlySet<string>,
  mend: (digest: Digest) => Promise<Uint8Array | null>,
): Promise<TendReport> {
  const groups = await loadGroups(blobs, hash)
  const there = new Set((await allChunks(blobs)).map(({ digest }) => toHex(digest)))
  let mended = 0
  for (const member of groups.flatMap(({ members }) => members)) {
    const name = nameOf(member)
    if (there.has(name) || !live.has(name) || !(await mend(member.digest))) continue
    there.add(name)
    mended += 1
  }
  for (const kind of [kinds.group, kinds.parity]) {
    await deleteAll(
      blobs,
      (await listKind(blobs, kind)).map(({ digest }) => digest),
    )
  }
  return { groups: 0, joined: 0, mended }
}

/**
 * Removes a group once each of its existing chunks is in another one. Another process may put a group right now, and its
 * list last: a parity without a list is removed only if it was touched before the sweep mark, as a chunk is.
 */
async function removeOld(
  blobs: Blobs,
  hash: Hash,
  old: readonly StoredGroup[],
  there: ReadonlyMap<string, ChunkRow>,
  live: ReadonlySet<string>,
  touchedBefore: number,
): Promise<void> {
  // Listed before the groups, so that a list that is put meanwhile is found below, and its parity kept.
  const parities = await listKind(blobs, kinds.parity)
  const now = await loadGroups(blobs, hash)
  const counts = new Map<string, number>()
  for (const { members } of now) for (const name of members.map(nameOf)) counts.set(name, (counts.get(name) ?? 0) + 1)
  const ids = new Set(now.map(({ id }) => toHex(id)))
  const going: Digest[] = []
  for (const group of old) {
    const names = group.members.map(nameOf)
    if (names.some((name) => there.has(name) && (counts.get(name) ?? 0) < 2)) continue
    going.push(...keysOf(group))
    for (const name of names) counts.set(name, (counts.get(name) ?? 1) - 1)
  }
  // A parity without its list is useless, and so is the copy of a swept chunk.
  const left = parities.map(({ digest }) => digest).filter((digest) => !ids.has(toHex(idOf(digest))))
  const starts = new Set([...there.keys(), ...live].map((name) => name.slice(0, 48)))
  for (const { digest } of await listKind(blobs, kinds.copy)) if (!starts.has(toHex(idOf(digest)))) left.push(digest)
  if (going.length > 0) await blobs.delete(going, Number.MAX_SAFE_INTEGER)
  if (left.length > 0) await blobs.delete(left, touchedBefore)
}

async function whichHaveParity(blobs: Blobs, groups: readonly StoredGroup[]): Promise<ReadonlySet<StoredGroup>> {
  if (!blobs.has) return new Set(groups)
  const isThere = await blobs.has(groups.map((group) => keysOf(group)[1]))
  return new Set(groups.filter((_, i) => isThere[i]))
}

async function allChunks(blobs: Blobs): Promise<ChunkRow[]> {
  const rows: ChunkRow[] = []
  for (let after: Digest | null = null; ; after = rows[rows.length - 1]!.digest) {
    const page = await blobs.list(after, pageRows)
    const own = page.filter(({ digest }) => !isRedundancy(digest))
    rows.push(...own)
    if (page.length < pageRows || own.length < page.length) return rows
  }
}

/** Chunks that wait for a group. Each keeps its lane, so groups are built from many chunks at once: then the lanes are even. */
class Pool {
  readonly #blobs: Blobs
  readonly #hash: Hash
  #waiting: { readonly digest: Digest; readonly bytes: Uint8Array; readonly lane: number }[] = []
  #waitingBytes = 0
  groups = 0

  constructor(blobs: Blobs, hash: Hash) {
    this.#blobs = blobs
    this.#hash = hash
  }

  async add(digest: Digest, bytes: Uint8Array, lane = digest[0]! % lanes): Promise<void> {
    this.#waiting.push({ digest, bytes, lane })
    this.#waitingBytes += bytes.length
    if (this.#waitingBytes >= poolBytesMax) await this.finish()
  }

  async put(builder: ParityBuilder): Promise<void> {
    const chunks: readonly StoredChunk[] = storedForm(this.#hash, builder).chunks
    await this.#blobs.put(chunks)
    this.groups += 1
  }

  async finish(): Promise<void> {
    const waiting = this.#waiting.sort((a, b) => b.bytes.length - a.bytes.length)
    const count = Math.ceil(this.#waitingBytes / newGroupBytes)
    const builders = Array.from({ length: count }, () => new ParityBuilder())
    this.#waiting = []
    this.#waitingBytes = 0
    for (const { digest, bytes, lane } of waiting) {
      const emptiest = builders.reduce((best, each) => (each.ends[lane]! < best.ends[lane]! ? each : best))
      emptiest.add(digest, bytes, lane)
    }
    for (const builder of builders) if (builder.members.length > 0) await this.put(builder)
  }
}

function isIn(names: ReadonlySet<string>): (member: Member) => boolean {
  return (member) => names.has(nameOf(member))
}

function nameOf({ digest }: Member): string {
  return toHex(digest)
}

function sumOf(members: readonly Member[]): number {
  return members.reduce((sum, { bytes }) => sum + bytes, 0)
}
