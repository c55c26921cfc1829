// Sources of intact copies besides the store itself: another store (a replica, a restored copy), a folder of chunks, an export,
// a backup, or the mirror of history. No source is trusted: a chunk must match its digest, a catalog row its manifest
// (engine/storage/redundancy/catalog-copies.ts), and a run must lead to the rest of history (history.ts).
//
// A file is read once: its chunks are copied to a temporary folder, which is removed when the source is closed.

import { createReadStream, createWriteStream } from 'node:fs'
import { mkdtemp, open as openFile, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import type { Digest, TimelineId } from '../../../core/coordinate.ts'
import { isReprise, orElse, RepriseError } from '../../../core/errors.ts'
import type { MirrorRecord } from '../../../core/history/mirror-record.ts'
import type { Blobs, EntryRun, Head, ManifestRecord } from '../../../core/store/ports.ts'
import { MirrorFiles, makeFolder, readMirror } from '../../feed/mirror/folder.ts'
import { erasureOf } from '../../history/erasures.ts'
import { headsIn } from '../../storage/heads.ts'
import type { Kernel } from '../../storage/kernel.ts'
import type { OpenUrl } from '../../storage/open-store.ts'
import { readRecords } from '../transfer/backup-file.ts'
import { readTransfer } from '../transfer/export-file.ts'
import { decodeRun, headerOf, recordOf } from '../transfer/file-checks.ts'

export interface RepairSource {
  /** The caller's name for it, without a password: it is reported and logged. */
  readonly name: string
  /** Null if the source does not have it. The caller verifies the digest. */
  chunk(digest: Digest): Promise<Uint8Array | null>
  lines(timeline: TimelineId): Promise<readonly ManifestRecord[]>
  /** Runs that begin right after this sequence. The caller decides which of them, if any, is the right one. */
  runsAfter(timeline: TimelineId, seq: number): Promise<readonly EntryRun[]>
  /** True: it contains every erasure of this timeline. If not, it may still contain erased entries. */
  isAfterErasures(head: Head): boolean
  close(): Promise<void>
}

/** `openUrl` is the engine's function to open a URL. @example await openSource(kernel, '/mnt/other/chunks', openStore) */
export async function openSource(kernel: Kernel, from: string, openUrl: OpenUrl): Promise<RepairSource> {
  if (/^(sqlite|postgres|postgresql|memory):/i.test(from)) return await ofStore(kernel, from, openUrl)
  if (/^s3:/i.test(from)) return await ofObject(kernel, from, openUrl)
  const path = from.replace(/^file:(\/\/(?=\/))?/, '')
  const found = await stat(path).catch((cause) => {
    throw new RepriseError('NOT_FOUND', `there is no file, folder or store ${from} to repair from`, { from }, cause)
  })
  return found.isDirectory() ? await ofFolder(kernel, from, path, openUrl) : await ofFile(kernel, from, path, openUrl)
}

async function ofStore(kernel: Kernel, url: string, openUrl: OpenUrl): Promise<RepairSource> {
  const store = await openUrl.store(url, kernel.namespace)
  const name = url.replace(/^([a-z]+:\/\/[^:/@]*):[^@/]*@/i, '$1@').replace(/([?&]password=)[^&]*/gi, '$1***')
  const erasures = new Map<string, string | null>()
  for await (const head of headsIn(store)) erasures.set(head.timeline, erasureOf(head))
  if (erasures.size === 0) {
    await store.close()
    const what = `${name} holds nothing in this namespace: name the one of the copy, as in URL?namespace=NAME`
    throw new RepriseError('NOT_FOUND', what, { namespace: kernel.namespace })
  }
  return {
    name,
    runsAfter: (timeline, seq) => runIn(kernel, store, timeline, seq),
    isAfterErasures: (head) => (erasures.get(head.timeline) ?? null) === erasureOf(head),
    chunk: (digest) => chunkIn(kernel, [store.blobs], digest),
    lines: (timeline) => store.checkpoints(timeline),
    close: () => store.close(),
  }
}

async function ofObject(kernel: Kernel, url: string, openUrl: OpenUrl): Promise<RepairSource> {
  const aside = await mkdtemp(join(tmpdir(), 'reprise-repair-'))
  const name = url.replace(/\?.*/, '')
  try {
    const blobs = await openUrl.object(url, join(aside, 'file'), kernel.namespace)
    return blobs ? ofChunks(kernel, name, blobs) : await ofFile(kernel, name, join(aside, 'file'), openUrl)
  } finally {
    await rm(aside, { recursive: true, force: true })
  }
}

async function ofFolder(kernel: Kernel, name: string, path: string, openUrl: OpenUrl): Promise<RepairSource> {
  return ofChunks(kernel, name, await openUrl.folder(path))
}

function ofChunks(kernel: Kernel, name: string, blobs: readonly Blobs[]): RepairSource {
  return {
    name,
    chunk: (digest) => chunkIn(kernel, blobs, digest),
    lines: async () => [],
    runsAfter: async () => [],
    isAfterErasures: () => false,
    close: async () => undefined,
  }
}

async function ofFile(kernel: Kernel, name: string, path: string, openUrl: OpenUrl): Promise<RepairSource> {
  const aside = await mkdtemp(join(tmpdir(), 'reprise-repair-'))
  const close = () => rm(aside, { recursive: true, force: true })
  try {
    const chunks = await openUrl.folder(join(aside, 'chunks'))
    const lines = new Map<string, ManifestRecord[]>()
    const erasures = new Map<string, string | null>()
    const history = join(aside, 'history')
    await makeFolder(history)
    const files = new MirrorFiles(kernel.hash, history, 0)
    const put = (records: readonly MirrorRecord[]) => files.append(records, false)
    for await (const file of exportsIn(path, aside)) await unpack(kernel, file, chunks[0]!, lines, erasures, put)
    await files.close()
    const runs = await readMirror(kernel.hash, history)
    return {
      name,
      chunk: (digest) => chunkIn(kernel, chunks, digest),
      lines: async (timeline) => lines.get(timeline) ?? [],
      runsAfter: async (timeline, seq) => unwrapped(kernel, await runs.runsAfter(timeline, seq)),
      isAfterErasures: (head) => (erasures.get(head.timeline) ?? null) === erasureOf(head),
      close,
    }
  } catch (error) {
    await close()
    throw error
  }
}

/** An export file is one export; a backup holds many, and each is extracted in turn. */
async function* exportsIn(path: string, aside: string): AsyncGenerator<string> {
  const file = await openFile(path, 'r')
  try {
    const one = join(aside, 'one')
    for await (const { from, bytes } of readRecords<object>(file, path)) {
      if (bytes === 0) continue
      await pipeline(createReadStream(path, { start: from, end: from + bytes - 1 }), createWriteStream(one))
      yield one
    }
  } catch (error) {
    if (!isReprise(error, 'NOT_A_SAVEPOINT')) throw error
    yield path
  } finally {
    await file.close()
  }
}

async function unpack(
  kernel: Kernel,
  path: string,
  chunks: Blobs,
  lines: Map<string, ManifestRecord[]>,
  erasures: Map<string, string | null>,
  put: (records: readonly MirrorRecord[]) => Promise<unknown>,
) {
  let timeline = '' as TimelineId
  for await (const { kind, bytes } of readTransfer(path)) {
    if (kind === 'header') {
      const header = headerOf(kernel.codec.decode(bytes))
      timeline = header.timeline as TimelineId
      erasures.set(timeline, erasureOf(header))
    } else if (kind === 'run') await put([{ kind: 'run', timeline, run: decodeRun(bytes) }])
    else if (kind === 'chunk') await chunks.put([{ digest: kernel.hash(kernel.sealer.unwrap(bytes)), bytes }])
    else if (kind === 'checkpoint') {
      const record = recordOf(kernel.codec.decode(bytes))
      const known = lines.get(timeline) ?? []
      lines.set(timeline, [...known, { ...record, body: kernel.sealer.unwrap(record.body) }])
    }
  }
}

async function runIn(
  kernel: Kernel,
  store: Awaited<ReturnType<OpenUrl['store']>>,
  timeline: TimelineId,
  seq: number,
): Promise<readonly EntryRun[]> {
  // The source may be damaged as well, elsewhere or in the same place.
  const [run] = await store.read(timeline, seq, 1).catch(orElse([], 'HISTORY_DAMAGED', 'STORE_DAMAGED'))
  return run?.first === seq + 1 ? unwrapped(kernel, [run]) : []
}

/** The runs in the form that their digests cover. */
export function unwrapped(kernel: Kernel, runs: readonly EntryRun[]): readonly EntryRun[] {
  return runs.map((run) => ({ ...run, bytes: kernel.sealer.unwrap(run.bytes) }))
}

async function chunkIn(kernel: Kernel, places: readonly Blobs[], digest: Digest): Promise<Uint8Array | null> {
  for (const blobs of places) {
    const [stored] = await blobs.get([digest])
    if (stored) return kernel.sealer.unwrap(stored)
  }
  return null
}
