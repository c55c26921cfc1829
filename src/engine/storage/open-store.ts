// Opens a store by its URL. The only file that knows the existing stores; each is imported when its URL is opened, so
// that no unused driver is loaded.

import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { TimelineId } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import { checkOptions, checkText } from '../../core/options.ts'
import type { PageSource } from '../../core/shipping/page-source.ts'
import type { Objects } from '../../core/store/objects.ts'
import type { Blobs, EntryRun, Head, ManifestRecord, Renewal, Store } from '../../core/store/ports.ts'
import { mapTimeline, membershipIn } from '../../core/store/shards.ts'
import { runtime } from '../../lib/runtime/index.ts'
import { sha256 } from '../base/platform.ts'
import { type ChunkFolder, type PlacedStore, withChunks } from './chunk-place.ts'

/** A place that does not answer for this long is treated as unreachable; it is retried. */
const shipPatienceMs = 10_000

/** Where a store is and how it is opened (open.ts), and options for tools. */
export interface StoreOptions {
  readonly namespace?: string
  readonly blobs?: string
  readonly readOnly?: boolean
  /** With readOnly: refuse a damaged store, as opening it for writing does. */
  readonly refusesDamage?: boolean
  /** The content of the folder `blobs` is lost permanently: accept the folder as it is. */
  readonly areChunksLost?: boolean
  /** SQLite: how long to wait for the write lock. */
  readonly busyMs?: number
  /** Open one shard of a set without the others; otherwise it is refused. */
  readonly mayBeShard?: boolean
  /** SQLite: a person has put an older copy in place, so entries that it lacks are not damage. Ends with `acceptPutBack`. */
  readonly isPutBack?: boolean
}

/** Each namespace has a new incarnation: from here on every process may open an older copy. */
export async function acceptPutBack(url: string): Promise<void> {
  const files = filesIn(url)
  if (files.length === 0) return
  const { acceptPutBack } = await import('../../stores/sqlite/index.ts')
  for (const file of files) acceptPutBack(file)
}

/** For tools that wrap the store. */
export async function openStore(url: string, options: StoreOptions): Promise<Store> {
  return (await openPlaced(url, options)).store
}

/** Also returns whether its chunks are its own. */
export async function openPlaced(url: string, options: StoreOptions): Promise<PlacedStore> {
  // The checks come first, so that a refusal leaves nothing behind; the store is opened last.
  const namespace = checkNamespace(options.namespace ?? 'default')
  if (/[?&]namespace=/.test(url)) {
    const what = 'a store URL must not contain a namespace: pass the option { namespace } or --namespace'
    throw new RepriseError('INVALID_ARGUMENT', what, {})
  }
  const scheme = schemeOf(url)
  const folder = options.blobs ? await openChunkFolder(options.blobs, namespace) : null
  const store = await openByScheme(scheme, url, namespace, options)
  try {
    if (scheme !== 'shards' && !options.mayBeShard) await refuseShard(store, url)
    const placed = await withChunks(store, sha256, folder, options.areChunksLost ?? false)
    return folder?.meter ? { ...placed, requests: folder.meter } : placed
  } catch (error) {
    await store.close()
    throw error
  }
}

/**
 * A single shard holds only some of the timelines, and chunks that only other shards name: a write could create a
 * second timeline of the same id, and a sweep would remove chunks in use. Throws SHARDS_DIFFER.
 */
async function refuseShard(store: Store, url: string): Promise<void> {
  const [map] = await store.head([mapTimeline])
  if (!map) return
  const { index, count } = membershipIn(map)
  const what = `${withoutSecrets(url)} is shard ${index} of a set of ${count}: open the complete set with shards:…`
  throw new RepriseError('SHARDS_DIFFER', what, { shard: index, count })
}

const knownRenew = new Set(['namespace', 'busyMs', 'dryRun'])

/**
 * Rewrites a store whose file no longer opens from its intact parts; the old file stays beside it. With `dryRun`, works
 * on a copy and reports the losses. Null: this kind of store has no file.
 * @example const renewal = await renewStore('sqlite:.reprise/reprise.db', { dryRun: true })
 */
export async function renewStore(
  url: string,
  options: Pick<StoreOptions, 'namespace' | 'busyMs'> & { readonly dryRun?: boolean } = {},
): Promise<Renewal | null> {
  checkText('the url of renewStore()', url)
  checkOptions('renewStore', options, knownRenew)
  const file = /^sqlite:(?:\/\/(?=\/))?(.+)$/i.exec(url)?.[1]
  if (file === undefined) return null
  const namespace = checkNamespace(options.namespace ?? 'default')
  const { renewSqlite } = await import('../../stores/sqlite/index.ts')
  const { busyMs, dryRun = false } = options
  return await renewSqlite(file, { namespace, hash: sha256, dryRun, ...(busyMs !== undefined && { busyMs }) })
}

async function openByScheme(
  scheme: string | undefined,
  url: string,
  namespace: string,
  options: StoreOptions,
): Promise<Store> {
  switch (scheme) {
    case 'memory': {
      const { openMemory } = await import('../../stores/memory/index.ts')
      return openMemory({ namespace, hash: sha256, readOnly: options.readOnly ?? false })
    }
    case 'sqlite': {
      const { openSqlite } = await import('../../stores/sqlite/index.ts')
      const { readOnly = false, refusesDamage = false, isPutBack = false, busyMs } = options
      const file = url.slice('sqlite:'.length).replace(/^\/\/(?=\/)/, '')
      if (file === '') {
        const what = 'sqlite: needs the path of a file, such as sqlite:.reprise/reprise.db'
        throw new RepriseError('INVALID_ARGUMENT', what, {})
      }
      // SQLite's own name for a database in memory; here it would become a file of that name.
      if (file === ':memory:') {
        throw new RepriseError(
          'INVALID_ARGUMENT',
          'sqlite::memory: is not a file: for a store in memory, open memory:',
          {},
        )
      }
      return await openSqlite(file, {
        namespace,
        hash: sha256,
        readOnly,
        refusesDamage,
        isPutBack,
        ...(busyMs !== undefined && { busyMs }),
      })
    }
    case 'postgres':
    case 'postgresql': {
      const { openPostgres } = await import('../../stores/postgres/index.ts')
      const { plain, schema } = takeSchema(url)
      const { readOnly = false } = options
      return await openPostgres(plain, { namespace, hash: sha256, readOnly, ...(schema !== null && { schema }) })
    }
    case 'shards': {
      const { openSharded } = await import('../../stores/sharded/index.ts')
      // Sorted, so that all processes that create the set at once number its shards alike, in whichever order they were
      // listed.
      const addresses = shardsIn(url).sort()
      const sourceOf = (each: string) => ({
        name: withoutSecrets(each),
        open: () => openByScheme(schemeOf(each), each, namespace, options),
        ...(fileOf(each) !== null && { exists: () => existsSync(fileOf(each)!) }),
      })
      const openAnother = (address: string) => sourceOf(shardsIn(`shards:${address}`)[0]!)
      return await openSharded(addresses.map(sourceOf), { readOnly: options.readOnly ?? false, openAnother })
    }
    default:
      throw new RepriseError('INVALID_ARGUMENT', 'a store URL must start with sqlite:, postgres:, memory: or shards:', {
        given: scheme ?? url.slice(0, 20),
      })
  }
}

function schemeOf(url: string): string | undefined {
  return /^([a-z0-9+]+):/i.exec(url)?.[1]?.toLowerCase()
}

/** One address for several stores. @example shardsUrl(['sqlite:a.db', 'sqlite:b.db']) // 'shards:sqlite:a.db,sqlite:b.db' */
export function shardsUrl(shards: readonly string[]): string {
  if (!Array.isArray(shards) || shards.length === 0 || !shards.every((each) => typeof each === 'string')) {
    throw new RepriseError('INVALID_ARGUMENT', 'shards must be a list of the addresses of stores', {})
  }
  return `shards:${shards.join(',')}`
}

/** A comma ends an address if another one follows; spaces around it are ignored. */
function shardsIn(url: string): string[] {
  const text = url.slice('shards:'.length).trim()
  const shards = text.split(/\s*,\s*(?=(?:sqlite|postgres|postgresql|memory):)/i)
  const wrong = shards.find((each) => !/^(sqlite|postgres|postgresql|memory):/i.test(each))
  if (wrong === undefined) return shards
  throw new RepriseError(
    'INVALID_ARGUMENT',
    'each shard must be the address of a store: sqlite:, postgres: or memory:',
    {
      given: withoutSecrets(wrong).slice(0, 80),
    },
  )
}

export function withoutSecrets(url: string): string {
  // Up to the last @: a password may contain one.
  return url.replace(/:\/\/[^/?#]*@/, '://').replace(/\?.*/s, '')
}

/** The files in an address of one store or several. */
export function filesIn(url: string): string[] {
  const all = schemeOf(url) === 'shards' ? shardsIn(url) : [url]
  return all.flatMap((each) => /^sqlite:(?:\/\/(?=\/))?(.+)$/i.exec(each)?.[1] ?? [])
}

/** `postgres://…?schema=name` is our own parameter, not the driver's. */
function takeSchema(url: string): { readonly plain: string; readonly schema: string | null } {
  const parsed = URL.canParse(url) ? new URL(url) : null
  const schema = parsed?.searchParams.get('schema') ?? null
  parsed?.searchParams.delete('schema')
  return { plain: schema === null ? url : parsed!.href, schema }
}

export async function openChunkFolder(url: string, namespace: string): Promise<ChunkFolder> {
  if (isObjectStore(url)) {
    const { openS3Place } = await import('../../stores/s3/place.ts')
    const { joinUrl } = await import('../../stores/s3/location.ts')
    const place = joinUrl(url, namespace)
    return { path: place, ...(await openS3Place(place, { hash: sha256 })) }
  }
  const { makeDirectoryBlobs, openDirectoryBlobs } = await import('../../stores/directory-blobs.ts')
  const { readMark, readOwner, writeMark, writeOwner, writeShared } = await import('../../stores/directory-marks.ts')
  const folder = join(requireFiles(folderOf(url)), namespace)
  return {
    path: folder,
    blobs: await openDirectoryBlobs(folder),
    exists: async () => existsSync(folder),
    make: () => makeDirectoryBlobs(folder),
    mark: () => readMark(folder),
    setMark: (mark) => writeMark(folder, mark),
    owner: () => readOwner(folder),
    setOwner: (owner) => writeOwner(folder, owner),
    setShared: () => writeShared(folder),
  }
}

/** Files as objects of an object store, and back. */
export const objectFiles = {
  async upload(path: string, url: string, onlyNew = false): Promise<void> {
    const { uploadFile } = await import('../../stores/s3/files.ts')
    await uploadFile(path, url, { onlyNew })
  },
  async download(url: string, path: string): Promise<void> {
    const { downloadFile } = await import('../../stores/s3/files.ts')
    await downloadFile(url, path)
  },
  async exists(url: string): Promise<boolean> {
    const { objectExists } = await import('../../stores/s3/files.ts')
    return await objectExists(url)
  },
}

/** The objects that a cache level reads and writes. */
export interface ObjectEntries {
  get(key: string, signal: AbortSignal): Promise<AsyncIterable<Uint8Array> | null>
  put(key: string, body: AsyncIterable<Uint8Array>, onlyNew: boolean, signal: AbortSignal): Promise<void>
}

/** Cache entries as objects. Retried for a second at most: a cache is not worth a longer wait. */
export async function openObjectEntries(url: string, timeoutMs: number): Promise<ObjectEntries> {
  const { S3Entries } = await import('../../stores/s3/entries.ts')
  return await S3Entries.open(url, { patienceMs: 1000, timeoutMs })
}

/** The destination of shipping: a folder, or an object store that honours conditions. Throws STORE_UNSUPPORTED. */
export async function openShipPlace(url: string, { mustExist = false } = {}): Promise<Objects> {
  if (!isObjectStore(url)) {
    const { DirectoryObjects } = await import('../../stores/directory-objects.ts')
    return new DirectoryObjects(requireFiles(folderOf(url)))
  }
  const { S3Client } = await import('../../stores/s3/client.ts')
  const { locate } = await import('../../stores/s3/location.ts')
  const { probeConditions } = await import('../../stores/s3/objects.ts')
  const objects = await S3Client.open(await locate(url), { patienceMs: shipPatienceMs })
  // A reader needs no fence.
  if (mustExist || (await probeConditions(objects))) return objects
  const what = `${objects.name} ignores If-None-Match: two shippers could mix their records there unnoticed`
  throw new RepriseError('STORE_UNSUPPORTED', what, { place: objects.name })
}

/** The pages of a store that is one file. Throws STORE_UNSUPPORTED. */
export async function openPages(url: string): Promise<PageSource> {
  const file = fileOf(url)
  if (file === null) {
    const what = 'only SQLite stores can be shipped: PostgreSQL has its own log archiving and restore tools'
    throw new RepriseError('STORE_UNSUPPORTED', what, { scheme: url.split(':')[0] })
  }
  const { openPageSource } = await import('../../stores/sqlite/shipping/source.ts')
  return await openPageSource(file, sha256)
}

/** Point-in-time recovery of PostgreSQL servers. */
export async function openServerArchive() {
  const { takeBase } = await import('../../stores/postgres/archive/base.ts')
  const { recoverServer } = await import('../../stores/postgres/archive/recover.ts')
  return { takeBase, recoverServer }
}

/** The path of a store that is one file. Null: a store of another kind. */
export function fileOf(url: string): string | null {
  return /^sqlite:(?:\/\/(?=\/))?(.+)$/i.exec(url)?.[1] ?? null
}

export interface OpenUrl {
  /** `own`: the namespace under repair; `?namespace=` in the URL names another. */
  store(
    url: string,
    own: string,
  ): Promise<{
    readonly blobs: Blobs
    checkpoints(timeline: TimelineId): Promise<readonly ManifestRecord[]>
    read(timeline: TimelineId, after: number, bytesMax: number): Promise<readonly EntryRun[]>
    timelines(query: { readonly limit: number; readonly after?: TimelineId }): Promise<readonly Head[]>
    close(): Promise<void>
  }>
  /** For an object store: null if it is an export or a backup, which is downloaded to that file; otherwise the chunks there. */
  object(url: string, path: string, own: string): Promise<readonly Blobs[] | null>
  /** The namespaces of a folder of chunks, each with its chunks; or the folder itself if it is one. */
  folder(path: string): Promise<readonly Blobs[]>
}

/** The places that a repair reads besides the store. */
export const otherPlaces: OpenUrl = {
  store(url, own) {
    // Our own parameter: a copy may have been restored under another name.
    const named = /[?&]namespace=([^&]*)/.exec(url)?.[1]
    const plain = named === undefined ? url : url.replace(/([?&])namespace=[^&]*&?/, '$1').replace(/[?&]$/, '')
    return openStore(plain, { readOnly: true, namespace: named ?? own })
  },
  async object(url, path, own) {
    if (await objectFiles.exists(url)) {
      await objectFiles.download(url, path)
      return null
    }
    const { openS3Place } = await import('../../stores/s3/place.ts')
    const { joinUrl } = await import('../../stores/s3/location.ts')
    // The place itself, or the one passed as `blobs`.
    const places = await Promise.all([url, joinUrl(url, own)].map((each) => openS3Place(each, { hash: sha256 })))
    const blobs = places.map((place) => place.blobs)
    const rows = await Promise.all(blobs.map((each) => each.list(null, 1)))
    const found = blobs.filter((_, i) => rows[i]!.length > 0)
    if (found.length > 0) return found
    const what = `${url.replace(/\?.*/, '')} is neither an export or a backup, nor a place that holds chunks`
    throw new RepriseError('NOT_FOUND', what, {})
  },
  async folder(path) {
    const { openDirectoryBlobs, chunkFoldersIn } = await import('../../stores/directory-blobs.ts')
    const folders = await chunkFoldersIn(path)
    if (folders.length === 0) {
      throw new RepriseError('NOT_FOUND', `${path} contains no chunks: name the folder of the option blobs`, { path })
    }
    return await Promise.all(folders.map((folder) => openDirectoryBlobs(folder)))
  },
}

/** Throws INVALID_ARGUMENT. */
export function checkNamespace(namespace: string): string {
  if (!/^[a-z0-9][a-z0-9._-]{0,62}$/i.test(namespace)) {
    const what = 'a namespace must have 1 to 63 letters, digits, dots, dashes and underscores'
    throw new RepriseError('INVALID_ARGUMENT', what, { given: String(namespace).slice(0, 80) })
  }
  return namespace
}

/** Throws INVALID_ARGUMENT if chunks cannot be stored there. */
export function checkBlobs(blobs: string): void {
  if (!isObjectStore(blobs)) folderOf(blobs)
}

/** An address such as s3://bucket/prefix. */
export function isObjectStore(url: string): boolean {
  return /^s3:\/\//i.test(url)
}

/** Throws STORE_UNSUPPORTED on a runtime whose files do not outlive it. */
function requireFiles(path: string): string {
  if (runtime.files) return path
  const what = `${runtime.name} has no files, so it cannot open the folder ${path}: use an object store (s3://bucket/prefix)`
  throw new RepriseError('STORE_UNSUPPORTED', what, { runtime: runtime.name })
}

/** The path in './chunks' or 'file:./chunks'. Throws INVALID_ARGUMENT. */
function folderOf(blobs: string): string {
  const path = /^file:(?:\/\/(?=\/))?(.+)$/.exec(blobs)?.[1]
  if (path) return path
  // One letter and a colon is a drive.
  if (typeof blobs === 'string' && blobs !== '' && !/^[a-z][a-z0-9+.-]+:/i.test(blobs)) return blobs
  const what = 'blobs must be a folder or an object store: ./chunks, file:./chunks or s3://bucket/prefix'
  throw new RepriseError('INVALID_ARGUMENT', what, { given: String(blobs).slice(0, 80) })
}
