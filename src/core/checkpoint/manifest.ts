// The manifest: the record that makes a checkpoint exist. It names the coordinate at which the state was captured and the
// chunks that hold the state. A restore reads one manifest and the chunks that it names, never another manifest.
//
//   manifest = version(byte 1) timeline(text) seq epoch(integers) digest(32 bytes) foldVersion(text) count part*
//   part     = name(byte 0: the state itself, or byte 1 + key) kind(byte)
//              kind 1, value: content
//              kind 2, keyed: count layer*        the first layer is the base: pages that cover all keys
//              kind 3, stream: content            raw bytes of any size; a restore does not load them
//   layer    = entries(integer) bytes(integer, as stored) kind(byte) and then
//              kind 1: sized(sealed block)         a few small entries, stored without a chunk
//              kind 2: content                     of a directory: segment*
//   content  = size(integer, before sealing) kind(byte) and then
//              kind 1: sized(sealed bytes)
//              kind 2: level(integer) refs         level 0: the chunks hold the bytes; level n: they hold refs of level n - 1
//   refs     = count(integer) ref*
//   ref      = digest(32 bytes, of the chunk as stored) bytes(integer, as stored)
//   segment  = first(key) entries(integer) refs    one block (keyed-state/block.ts), in one chunk unless a value is large
//
// With a directory, an untouched base of thousands of pages costs the manifest only a few digests.

import { unreachable } from '../assert.ts'
import { ByteReader, ByteWriter } from '../bytes.ts'
import type { Digest } from '../coordinate.ts'
import { RepriseError } from '../errors.ts'
import { readKey, writeKey } from '../keyed-state/block.ts'

const formatVersion = 1
const digestBytes = 32
/** Lists of lists of lists: 16 KB of refs cover 8 MB, two levels cover 4 GB, and no content is larger than that. */
const levelMax = 3

export interface ChunkRef {
  readonly digest: Digest
  /** Size as stored. */
  readonly bytes: number
}

/** Bytes: inline in the manifest if there are few, otherwise in chunks. `size` is their count before sealing. */
export type Content =
  | { readonly kind: 'inline'; readonly size: number; readonly sealed: Uint8Array }
  | { readonly kind: 'chunks'; readonly size: number; readonly level: number; readonly refs: readonly ChunkRef[] }

/** A range of neighbouring keys. */
export interface Segment {
  readonly first: string
  readonly entries: number
  readonly refs: readonly ChunkRef[]
}

export interface Layer {
  /** Entries in the layer, including removed keys. */
  readonly entries: number
  /** Stored bytes of its blocks, without the directory. */
  readonly bytes: number
  readonly body:
    | { readonly kind: 'inline'; readonly sealed: Uint8Array }
    | { readonly kind: 'directory'; readonly directory: Content }
}

export interface ValuePart {
  readonly kind: 'value'
  /** Null: the state itself. */
  readonly name: string | null
  readonly content: Content
}

export interface KeyedPart {
  readonly kind: 'keyed'
  readonly name: string | null
  /** The base, then the changes after it, oldest first. */
  readonly layers: readonly Layer[]
}

/** Raw bytes of any size, not encoded by the codec: readers fetch them piece by piece, a restore never assembles them. */
export interface StreamPart {
  readonly kind: 'stream'
  readonly name: string
  readonly content: Content
}

export type Part = ValuePart | KeyedPart | StreamPart

export interface Manifest {
  readonly timeline: string
  readonly seq: number
  readonly epoch: number
  readonly digest: Digest
  readonly foldVersion: string
  readonly parts: readonly Part[]
}

/** @example decodeManifest(encodeManifest(manifest)) */
export function encodeManifest(manifest: Manifest): Uint8Array {
  const writer = new ByteWriter(1024)
  writer.byte(formatVersion)
  writer.text(manifest.timeline)
  writer.integer(manifest.seq)
  writer.integer(manifest.epoch)
  writeDigest(writer, manifest.digest)
  writer.text(manifest.foldVersion)
  writer.integer(manifest.parts.length)
  for (const part of manifest.parts) writePart(writer, part)
  return writer.take()
}

/** Throws INCOMPATIBLE_VERSION for a later format, MALFORMED for anything else that is not a manifest. */
export function decodeManifest(body: Uint8Array): Manifest {
  const reader = new ByteReader(body)
  const version = reader.byte()
  if (version !== formatVersion) {
    throw new RepriseError('INCOMPATIBLE_VERSION', `manifest format ${version} is not known`, {
      version,
      known: formatVersion,
    })
  }
  const timeline = reader.text()
  const seq = reader.integer()
  const epoch = reader.integer()
  const digest = readDigest(reader)
  const foldVersion = reader.text()
  const parts = readMany(reader, readPart)
  const names = new Set(parts.map(({ name }) => name))
  if (reader.remaining > 0 || names.size !== parts.length) throw malformed('manifest')
  return { timeline, seq, epoch, digest, foldVersion, parts }
}

export interface NamedChunk extends ChunkRef {
  readonly part: string | null
  /** The chunk names further chunks: read it to find them. */
  readonly isDirectory: boolean
}

/** The chunks that the manifest names directly. Chunks named by directories: engine/snapshot/restore.ts, liveChunks. */
export function chunksOf(manifest: Pick<Manifest, 'parts'>): NamedChunk[] {
  const named: NamedChunk[] = []
  const add = (part: string | null, content: Content, holdsSegments: boolean) => {
    if (content.kind === 'inline') return
    for (const ref of content.refs) named.push({ ...ref, part, isDirectory: holdsSegments || content.level > 0 })
  }
  for (const part of manifest.parts) {
    if (part.kind !== 'keyed') add(part.name, part.content, false)
    else for (const { body } of part.layers) if (body.kind === 'directory') add(part.name, body.directory, true)
  }
  return named
}

/** Encodes the refs of one level as the bytes that the level above cuts into chunks. */
export function encodeRefs(refs: readonly ChunkRef[]): Uint8Array {
  const writer = new ByteWriter(refs.length * 36)
  for (const ref of refs) writeRef(writer, ref)
  return writer.take()
}

export function decodeRefs(bytes: Uint8Array): ChunkRef[] {
  return readAll(bytes, readRef)
}

export function encodeSegments(segments: readonly Segment[]): Uint8Array {
  const writer = new ByteWriter(segments.length * 64)
  for (const { first, entries, refs } of segments) {
    writeKey(writer, first)
    writer.integer(entries)
    writeMany(writer, refs, writeRef)
  }
  return writer.take()
}

export function decodeSegments(bytes: Uint8Array): Segment[] {
  return readAll(bytes, (reader) => {
    const first = readKey(reader)
    const entries = reader.integer()
    const refs = readMany(reader, readRef)
    if (entries === 0 || refs.length === 0) throw malformed('directory')
    return { first, entries, refs }
  })
}

function writePart(writer: ByteWriter, part: Part): void {
  writer.byte(part.name === null ? 0 : 1)
  if (part.name !== null) writeKey(writer, part.name)
  switch (part.kind) {
    case 'value':
      writer.byte(1)
      writeContent(writer, part.content)
      break
    case 'keyed':
      writer.byte(2)
      writeMany(writer, part.layers, writeLayer)
      break
    case 'stream':
      writer.byte(3)
      writeContent(writer, part.content)
      break
    default:
      unreachable(part)
  }
}

function readPart(reader: ByteReader): Part {
  const name = oneOf(reader, 0, 1) === 1 ? readKey(reader) : null
  const kind = oneOf(reader, 1, 2, 3)
  if (kind === 1) return { kind: 'value', name, content: readContent(reader) }
  if (kind === 3) {
    if (name === null) throw malformed('manifest')
    return { kind: 'stream', name, content: readContent(reader) }
  }
  const layers = readMany(reader, readLayer)
  if (layers.length === 0) throw malformed('manifest')
  return { kind: 'keyed', name, layers }
}

function writeLayer(writer: ByteWriter, layer: Layer): void {
  writer.integer(layer.entries)
  writer.integer(layer.bytes)
  if (layer.body.kind === 'inline') {
    writer.byte(1)
    writer.sized(layer.body.sealed)
  } else {
    writer.byte(2)
    writeContent(writer, layer.body.directory)
  }
}

function readLayer(reader: ByteReader): Layer {
  const entries = reader.integer()
  const bytes = reader.integer()
  if (oneOf(reader, 1, 2) === 1) return { entries, bytes, body: { kind: 'inline', sealed: copyOf(reader.sized()) } }
  return { entries, bytes, body: { kind: 'directory', directory: readContent(reader) } }
}

function writeContent(writer: ByteWriter, content: Content): void {
  writer.integer(content.size)
  if (content.kind === 'inline') {
    writer.byte(1)
    writer.sized(content.sealed)
  } else {
    writer.byte(2)
    writer.integer(content.level)
    writeMany(writer, content.refs, writeRef)
  }
}

function readContent(reader: ByteReader): Content {
  const size = reader.integer()
  if (oneOf(reader, 1, 2) === 1) return { kind: 'inline', size, sealed: copyOf(reader.sized()) }
  const level = reader.integer()
  if (level > levelMax) throw malformed('manifest')
  return { kind: 'chunks', size, level, refs: readMany(reader, readRef) }
}

function writeRef(writer: ByteWriter, ref: ChunkRef): void {
  writeDigest(writer, ref.digest)
  writer.integer(ref.bytes)
}

function readRef(reader: ByteReader): ChunkRef {
  return { digest: readDigest(reader), bytes: reader.integer() }
}

function writeDigest(writer: ByteWriter, digest: Digest): void {
  if (digest.length !== digestBytes) throw new RepriseError('BUG', 'a digest has 32 bytes')
  writer.raw(digest)
}

function readDigest(reader: ByteReader): Digest {
  return copyOf(reader.raw(digestBytes))
}

/** A view would keep the whole body in memory, and `slice` of a Buffer also returns a view. */
function copyOf(view: Uint8Array): Uint8Array {
  return new Uint8Array(view)
}

function writeMany<T>(writer: ByteWriter, items: readonly T[], write: (writer: ByteWriter, item: T) => void): void {
  writer.integer(items.length)
  for (const item of items) write(writer, item)
}

function readMany<T>(reader: ByteReader, read: (reader: ByteReader) => T): T[] {
  const count = reader.integer()
  // Every item takes at least one byte, so a false count is refused before anything is allocated.
  if (count > reader.remaining) throw malformed('list')
  const items: T[] = []
  for (let i = 0; i < count; i++) items.push(read(reader))
  return items
}

function readAll<T>(bytes: Uint8Array, read: (reader: ByteReader) => T): T[] {
  const reader = new ByteReader(bytes)
  const items: T[] = []
  while (reader.remaining > 0) items.push(read(reader))
  return items
}

function oneOf(reader: ByteReader, ...known: readonly number[]): number {
  const byte = reader.byte()
  if (!known.includes(byte)) throw malformed('manifest')
  return byte
}

function malformed(what: string): RepriseError {
  return new RepriseError('MALFORMED', `the bytes are not a ${what} of this format`)
}
