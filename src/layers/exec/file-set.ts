// A tree of files as the parts of one checkpoint. The value is the index: { at, bytes, files, segments }. The stream holds
// the bytes in segments that are chunked separately: one for each large file, one for each group of small ones. A segment of
// unchanged files is referenced by its chunks and not read again.

import { createHash } from 'node:crypto'
import type { ChunkRef, Content, Manifest } from '../../core/checkpoint/manifest.ts'
import { isReprise, RepriseError } from '../../core/errors.ts'
import { checkPaths, unsafe } from '../../core/file-tree-path.ts'
import type { ManifestRecord } from '../../core/store/ports.ts'
import { DirectoryStack } from '../../engine/base/file-tree/directory-stack.ts'
import type { Folder } from '../../engine/base/file-tree/folder.ts'
import type { Wanted } from '../../engine/base/file-tree/restore.ts'
import { isSameStamp, type Stamp, type Survey, stampOf } from '../../engine/base/file-tree/survey.ts'
import { ChunkWriter, type StreamSegment } from '../../engine/checkpoint/chunk-writer.ts'
import type { StateIo } from '../../engine/model/state-io.ts'
import { stateIo } from '../../engine/snapshot/kernel-io.ts'
import { ChunkInput } from '../../engine/snapshot/restore-input.ts'
import type { ChunkHold } from '../../engine/storage/chunk-hold.ts'
import type { Kernel } from '../../engine/storage/kernel.ts'
import { finishValue, type StoredParts, streamPart } from '../../engine/writing/stored-value.ts'

export interface CapturedFile {
  readonly path: string
  readonly mode: number
  readonly bytes: number
  readonly modifiedMs: number
  /** Digest of all its bytes, in hexadecimal; '' for a link. */
  readonly sha256: string
  /** Target of a link. */
  readonly target?: string
  /** Location of its bytes; undefined if it has no bytes. */
  readonly segment?: number
  readonly offset?: number
}

export interface CapturedTree {
  /** The time since which nothing was written, by the clock of this machine. */
  readonly at: number
  readonly bytes: number
  readonly files: readonly CapturedFile[]
  readonly segments: readonly { readonly bytes: number; readonly chunks: number }[]
}

/** Information of one capture for the next: bytes that need not be read again. */
export interface KnownFiles {
  readonly stamps: ReadonlyMap<string, Stamp>
  readonly files: ReadonlyMap<string, CapturedFile>
  readonly segments: readonly StreamSegment[]
  readonly paths: readonly (readonly string[])[]
}

export interface WrittenTree extends StoredParts {
  readonly tree: CapturedTree
  readonly known: KnownFiles
}

/** A file changed during the read: the capture is discarded. */
export class ChangedWhileRead extends Error {
  readonly path: string

  constructor(path: string) {
    super(`${path} changed while it was read`)
    this.path = path
  }
}

/** Smaller files share a segment. */
const smallBytes = 256 * 1024
const packBytes = 8 * 1024 * 1024

export async function writeTree(
  kernel: Kernel,
  hold: ChunkHold,
  root: Folder,
  survey: Survey,
  at: number,
  { held, known }: { readonly held: ReadonlySet<string>; readonly known: KnownFiles | null },
): Promise<WrittenTree> {
  const writer = new ChunkWriter(stateIo(kernel, hold), held)
  const files = new Map<string, CapturedFile>()
  const segments: StreamSegment[] = []
  const plan = planOf(survey)
  const way = new DirectoryStack(root)
  try {
    for (const paths of plan) {
      const segment = segments.length
      const kept = keptSegment(paths, survey, known)
      if (kept !== null) {
        for (const path of paths) files.set(path, { ...known!.files.get(path)!, segment })
        segments.push(known!.segments[kept]!)
      } else segments.push(await writer.segment(readAll(way, paths, survey, segment, files)))
    }
  } finally {
    await way.close()
  }
  for (const [path, { target, mode, bytes, modifiedNs }] of survey.files) {
    const modifiedMs = Number(modifiedNs) / 1e6
    if (target !== null) files.set(path, { path, mode: 0, bytes: 0, modifiedMs: 0, sha256: '', target })
    else if (bytes === 0) files.set(path, { path, mode, bytes, modifiedMs, sha256: emptySha256 })
  }
  const tree: CapturedTree = {
    at,
    bytes: segments.reduce((sum, { size }) => sum + size, 0),
    files: [...survey.files.keys()].map((path) => files.get(path)!),
    segments: segments.map(({ size, refs }) => ({ bytes: size, chunks: refs.length })),
  }
  const streamed = segments.length > 0 ? await writer.join(segments) : null
  return {
    tree,
    known: { stamps: survey.files, files, segments, paths: plan },
    ...(await finishValue(kernel, hold, writer, streamed, tree)),
  }
}

const emptySha256 = createHash('sha256').digest('hex')

/** Groups files into segments: small ones in order of paths, as many as fit; each large one has its own. */
function planOf({ files }: Survey): string[][] {
  const plan: string[][] = []
  let pack: string[] = []
  let packed = 0
  for (const [path, { bytes, target }] of files) {
    if (target !== null || bytes === 0) continue
    if (bytes >= smallBytes) plan.push([path])
    else {
      if (packed + bytes > packBytes) {
        plan.push(pack)
        pack = []
        packed = 0
      }
      pack.push(path)
      packed += bytes
    }
  }
  if (pack.length > 0) plan.push(pack)
  return plan
}

/** The segment of the last capture that has exactly these files, all unchanged. */
function keptSegment(paths: readonly string[], survey: Survey, known: KnownFiles | null): number | null {
  const index = known?.files.get(paths[0]!)?.segment
  const before = index === undefined ? undefined : known?.paths[index]
  if (!before || before.length !== paths.length) return null
  const isSame = paths.every(
    (path, i) => before[i] === path && isSameStamp(known?.stamps.get(path), survey.files.get(path)),
  )
  return isSame ? index! : null
}

/** The bytes of these files, one after another, with each stamp checked before and after. */
async function* readAll(
  way: DirectoryStack,
  paths: readonly string[],
  survey: Survey,
  segment: number,
  files: Map<string, CapturedFile>,
): AsyncGenerator<Uint8Array> {
  let offset = 0
  for (const path of paths) {
    const names = path.split('/')
    const folder = await way.to(names.slice(0, -1), false)
    const file = await folder?.openFile(names.at(-1)!)
    if (!file) throw new ChangedWhileRead(path)
    const stamp = survey.files.get(path)!
    const { mode, bytes, modifiedNs } = stamp
    const hash = createHash('sha256')
    try {
      const check = async () => {
        if (!isSameStamp(stampOf(await file.stat({ bigint: true })), stamp)) throw new ChangedWhileRead(path)
      }
      await check()
      let read = 0
      for await (const piece of file.createReadStream({ autoClose: false, highWaterMark: 1024 * 1024 })) {
        read += (piece as Buffer).length
        if (read > bytes) throw new ChangedWhileRead(path)
        hash.update(piece as Buffer)
        yield piece as Buffer
      }
      if (read !== bytes) throw new ChangedWhileRead(path)
      await check()
    } finally {
      await file.close()
    }
    const modifiedMs = Number(modifiedNs) / 1e6
    files.set(path, { path, mode, bytes, modifiedMs, sha256: hash.digest('hex'), segment, offset })
    offset += bytes
  }
}

/** The files of a capture, for a restore. They may come from an import, so all of it is validated. */
export async function wantedFiles(
  kernel: Kernel,
  tree: CapturedTree,
  stream: Content | null,
): Promise<ReadonlyMap<string, Wanted>> {
  checkPaths(
    tree.files.map(({ path }) => path),
    kernel.limits,
  )
  const reader = await SegmentReader.open(stateIo(kernel), tree, stream)
  const wanted = new Map<string, Wanted>()
  for (const file of tree.files) {
    const { path, mode, bytes, modifiedMs, sha256, target } = file
    if (target !== undefined) wanted.set(path, { kind: 'link', target })
    else wanted.set(path, { kind: 'large', mode, bytes, modifiedMs, sha256, pieces: () => reader.read(file) })
  }
  return wanted
}

/** Reads files by their position in the stream. Segments of small files are read whole; the last one is kept in memory. */
class SegmentReader {
  readonly #input: ChunkInput
  readonly #segments: readonly { readonly bytes: number; readonly refs: readonly ChunkRef[] }[]
  #held: { readonly segment: number; readonly plain: Uint8Array } | null = null

  constructor(input: ChunkInput, segments: SegmentReader['segments']) {
    this.#input = input
    this.#segments = segments
  }

  get segments() {
    return this.#segments
  }

  static async open(io: StateIo, tree: CapturedTree, stream: Content | null): Promise<SegmentReader> {
    const input = new ChunkInput(io)
    const refs = stream ? await input.streamRefs(stream, streamPart) : []
    let at = 0
    const segments = tree.segments.map(({ bytes, chunks }) => {
      at += chunks
      return { bytes, refs: refs.slice(at - chunks, at) }
    })
    if (at !== refs.length) throw damaged(`its index names ${at} chunks, and it has ${refs.length}`)
    return new SegmentReader(input, segments)
  }

  async *read({ path, bytes, sha256, segment, offset = 0 }: CapturedFile): AsyncGenerator<Uint8Array> {
    const hash = createHash('sha256')
    let size = 0
    if (bytes > 0) {
      for await (const piece of this.#pieces(path, bytes, segment, offset)) {
        size += piece.length
        hash.update(piece)
        yield piece
      }
    }
    if (size !== bytes) throw damaged(`${path} has ${size} bytes where ${bytes} were promised`)
    if (hash.digest('hex') !== sha256) throw damaged(`${path} does not match its digest`)
  }

  async *#pieces(path: string, bytes: number, segment: number | undefined, offset: number): AsyncGenerator<Uint8Array> {
    const found = this.#segments[segment ?? -1]
    if (!found || !Number.isSafeInteger(offset) || offset < 0 || offset + bytes > found.bytes) {
      throw unsafe(path, 'its record does not describe a file')
    }
    if (bytes === found.bytes) {
      yield* this.#input.readPlain(found.refs, streamPart)
      return
    }
    if (found.bytes > packBytes) throw unsafe(path, 'it shares a segment that is too large to be shared')
    if (this.#held?.segment !== segment) {
      const plain: Uint8Array[] = []
      for await (const piece of this.#input.readPlain(found.refs, streamPart)) plain.push(piece)
      this.#held = { segment: segment!, plain: Buffer.concat(plain) }
    }
    yield this.#held!.plain.subarray(offset, offset + bytes)
  }
}

/** For verify and drills: reads every file as a restore would. */
export async function checkCapture(
  _record: ManifestRecord,
  { parts }: Pick<Manifest, 'parts'>,
  io: StateIo,
): Promise<void> {
  const [main, bytes] = [parts.find(({ name }) => name === null), parts.find(({ name }) => name === streamPart)]
  if (main?.kind !== 'value') throw damaged('it has no index')
  const { plain } = await new ChunkInput(io).readContent(main.content, null)
  const { value } = io.codec.decode(plain) as { readonly value: CapturedTree }
  const reader = await SegmentReader.open(io, value, bytes?.kind === 'stream' ? bytes.content : null)
  for (const file of value.files) {
    if (file.target !== undefined) continue
    for await (const _piece of reader.read(file));
  }
}

export function isDamage(error: unknown): error is RepriseError {
  return isReprise(
    error,
    'CHUNK_MISSING',
    'CHUNK_DAMAGED',
    'CHECKPOINT_DAMAGED',
    'MALFORMED',
    'UNSAFE_PATH',
    'UNRECOVERABLE',
  )
}

function damaged(what: string): RepriseError {
  return new RepriseError('CHECKPOINT_DAMAGED', `the capture cannot be used: ${what}`, {})
}
