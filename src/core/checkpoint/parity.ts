// Parity over chunks: the exclusive or of a group and all members but one rebuild the missing one.
//
// A group has up to `lanes` lanes. A lane holds chunks one after another, and the parity is the exclusive or of the
// lanes, byte by byte: as long as the longest lane, regardless of the sizes of the chunks. Damage within one lane, even to
// several of its chunks, can be repaired. Where possible, a store keeps the lanes in separate places (Blobs.put, `stripe`),
// so that one damaged place affects only one lane of each group.
//
// A group changes without reading the members that stay: xor removes a chunk, and two groups merge by xoring their
// parities, with the second one shifted to an offset where its lanes are free.
//
//   group  = version(byte 1) parity digest(32 bytes) parity bytes(integer) count(integer) member*
//   member = digest(32 bytes) bytes(integer) lane(byte) offset(integer)

import { assert } from '../assert.ts'
import { ByteReader, ByteWriter } from '../bytes.ts'
import { type Digest, toHex } from '../coordinate.ts'
import { RepriseError } from '../errors.ts'

/** With full lanes, parity costs one byte in fourteen. */
export const lanes = 14
/** One stripe for the parity and one per lane. */
export const stripes = lanes + 1
export const stripeOfParity = 0

export function stripeOf(lane: number): number {
  return lane + 1
}

const formatVersion = 1
const digestBytes = 32
/** Offsets are multiples of this, so that whole words can be xored. */
const alignment = 4

export interface Member {
  readonly digest: Digest
  readonly bytes: number
  readonly lane: number
  /** Offset of the member in its lane. */
  readonly offset: number
}

export interface Group {
  readonly members: readonly Member[]
  readonly parityBytes: number
  readonly parityDigest: Digest
}

/** A group that is being built or changed. */
export class ParityBuilder {
  #parity = new Uint8Array(4096)
  #members: Member[] = []
  readonly #ends: number[] = new Array(lanes).fill(0)

  /** Fill of the lanes of another group: lanes that are shorter there are filled first, so that the two groups can merge. */
  readonly #load: readonly number[]

  constructor(load: readonly number[] = []) {
    this.#load = load
  }

  /** End of each lane. */
  get ends(): readonly number[] {
    return this.#ends
  }

  /** Bytes of the members. */
  get bytes(): number {
    return this.#members.reduce((sum, member) => sum + member.bytes, 0)
  }

  get members(): readonly Member[] {
    return this.#members
  }

  /** As long as the longest lane. */
  get parity(): Uint8Array {
    return this.#parity.slice(0, this.#length())
  }

  /** Adds a chunk to the shortest lane, or to the lane in which the store already keeps it. */
  add(digest: Digest, bytes: Uint8Array, lane: number = this.#shortest(digest)): Member {
    const member: Member = { digest, bytes: bytes.length, lane, offset: this.#ends[lane]! }
    this.#reserve(member.offset + bytes.length)
    xorInto(this.#parity, bytes, member.offset)
    this.#keep(member)
    return member
  }

  /** Adds all members of another group, whose parity must be intact. */
  adopt(group: Pick<Group, 'members'>, parity: Uint8Array): void {
    const firsts: number[] = new Array(lanes).fill(Number.POSITIVE_INFINITY)
    for (const { lane, offset } of group.members) firsts[lane] = Math.min(firsts[lane]!, offset)
    const shift = Math.max(
      0,
      ...firsts.map((first, lane) => (first < Number.POSITIVE_INFINITY ? this.#ends[lane]! - first : 0)),
    )
    this.#reserve(shift + parity.length)
    xorInto(this.#parity, parity, shift)
    for (const member of group.members) this.#keep({ ...member, offset: member.offset + shift })
  }

  /** Removes a member. */
  remove(member: Pick<Member, 'digest'>, bytes: Uint8Array): void {
    const name = toHex(member.digest)
    const found = this.#members.find(({ digest }) => toHex(digest) === name)
    assert(found !== undefined && found.bytes === bytes.length, 'only a member leaves a group')
    xorInto(this.#parity, bytes, found.offset)
    this.#members = this.#members.filter((each) => each !== found)
    this.#ends.fill(0)
    for (const each of this.#members) this.#ends[each.lane] = Math.max(this.#ends[each.lane]!, endOf(each))
  }

  /** Among equally short lanes the digest decides: small batches of chunks must not all go to the first lane. */
  #shortest(digest: Digest): number {
    const start = (digest[0] ?? 0) % lanes
    const fill = (lane: number) => this.#ends[lane]! + (this.#load[lane] ?? 0)
    let best = start
    for (let i = 1; i < lanes; i++) {
      const lane = (start + i) % lanes
      if (fill(lane) < fill(best)) best = lane
    }
    return best
  }

  #keep(member: Member): void {
    this.#members.push(member)
    this.#ends[member.lane] = Math.max(this.#ends[member.lane]!, endOf(member))
  }

  #length(): number {
    return this.#members.reduce((end, { offset, bytes }) => Math.max(end, offset + bytes), 0)
  }

  #reserve(length: number): void {
    if (length <= this.#parity.length) return
    const larger = new Uint8Array(Math.max(length, this.#parity.length * 2))
    larger.set(this.#parity)
    this.#parity = larger
  }
}

/** The members to read for rebuilding `wanted`: those of other lanes that overlap it. */
export function besides(group: Pick<Group, 'members'>, wanted: Member): Member[] {
  return group.members.filter(
    (other) =>
      other.lane !== wanted.lane &&
      other.offset < wanted.offset + wanted.bytes &&
      wanted.offset < other.offset + other.bytes,
  )
}

/** Rebuilds a member from the parity and the members that overlap it. The caller checks all digests, also the result's. */
export function rebuild(
  wanted: Member,
  parity: Uint8Array,
  others: readonly (readonly [Member, Uint8Array])[],
): Uint8Array {
  const rebuilt = new Uint8Array(wanted.bytes)
  rebuilt.set(parity.subarray(wanted.offset, wanted.offset + wanted.bytes))
  for (const [member, bytes] of others) {
    const from = Math.max(member.offset, wanted.offset)
    const to = Math.min(member.offset + bytes.length, wanted.offset + wanted.bytes)
    if (to > from) xorInto(rebuilt, bytes.subarray(from - member.offset, to - member.offset), from - wanted.offset)
  }
  return rebuilt
}

/** @example decodeGroup(encodeGroup(group)) */
export function encodeGroup({ members, parityBytes, parityDigest }: Group): Uint8Array {
  const writer = new ByteWriter(64 + members.length * 40)
  writer.byte(formatVersion)
  writer.raw(parityDigest)
  writer.integer(parityBytes)
  writer.integer(members.length)
  for (const { digest, bytes, lane, offset } of members) {
    writer.raw(digest)
    writer.integer(bytes)
    writer.byte(lane)
    writer.integer(offset)
  }
  return writer.take()
}

/** Throws MALFORMED for bytes that are not a group, INCOMPATIBLE_VERSION for a later format. */
export function decodeGroup(encoded: Uint8Array): Group {
  const reader = new ByteReader(encoded)
  const version = reader.byte()
  if (version !== formatVersion) {
    throw new RepriseError('INCOMPATIBLE_VERSION', `parity format ${version} is not known`, { version })
  }
  const parityDigest = new Uint8Array(reader.raw(digestBytes))
  const parityBytes = reader.integer()
  const count = reader.integer()
  if (count * (digestBytes + 3) > reader.remaining) throw malformed()
  const members: Member[] = []
  for (let i = 0; i < count; i++) {
    const digest = new Uint8Array(reader.raw(digestBytes))
    const member = { digest, bytes: reader.integer(), lane: reader.byte(), offset: reader.integer() }
    if (member.lane >= lanes || member.offset + member.bytes > parityBytes) throw malformed()
    members.push(member)
  }
  if (reader.remaining > 0) throw malformed()
  return { members, parityBytes, parityDigest }
}

function malformed(): RepriseError {
  return new RepriseError('MALFORMED', 'the bytes are not a parity group of this format')
}

function endOf({ offset, bytes }: Member): number {
  return Math.ceil((offset + bytes) / alignment) * alignment
}

/** Xors word by word where both sides are aligned. */
function xorInto(target: Uint8Array, source: Uint8Array, offset: number): void {
  let at = 0
  if ((source.byteOffset & 3) === 0 && ((target.byteOffset + offset) & 3) === 0) {
    const words = source.length >>> 2
    const from = new Uint32Array(source.buffer, source.byteOffset, words)
    const to = new Uint32Array(target.buffer, target.byteOffset + offset, words)
    for (let i = 0; i < words; i++) to[i]! ^= from[i]!
    at = words << 2
  }
  for (; at < source.length; at++) target[offset + at]! ^= source[at]!
}
