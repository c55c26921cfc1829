// Opens the store for a command: never creates one by accident, never waits forever. Every call has a limit of 10 seconds, so
// a dead database is reported with a code and a remedy.

import { existsSync, readFileSync } from 'node:fs'
import type { Duration } from '../core/duration.ts'
import { RepriseError } from '../core/errors.ts'
import type { Blobs, Commit, Renewal, RequestBox, Salvage, ShardSet, Store, Upkeep } from '../core/store/ports.ts'
import { headsInReach, headsOfMoment } from '../core/store/shard-set.ts'
import type { FieldOf, SynchronousOf } from '../core/store/store-wrapper.ts'
import { createEngine, keepLog, openStore, renewStore } from '../engine/api/open.ts'
import { defaultPatience } from '../engine/api/open-options.ts'
import type { Reprise } from '../engine/api/reprise.ts'
import { hostOf } from '../engine/host/host.ts'
import { watchLostHeads } from '../engine/ownership/lost-head.ts'
import type { Kernel } from '../engine/storage/kernel.ts'
import { meetKeys } from '../engine/storage/key-notes.ts'
import { filesIn } from '../engine/storage/open-store.ts'
import { meetRedundancy } from '../engine/storage/redundancy-choice.ts'
import type { KeyRing } from '../engine/storage/seal/seal.ts'
import { refuseUnfinished } from '../engine/storage/store-change.ts'
import { meetTiers } from '../engine/storage/tier-policy.ts'
import { patientTimer } from '../stores/patient-timer.ts'
import { duration, type Options } from './command.ts'

export interface StoreOptions {
  readonly url?: string | undefined
  readonly namespace?: string | undefined
  /** A folder. Default: $REPRISE_BLOBS. */
  readonly blobs?: string | undefined
  /** A file. Default: $REPRISE_KEYS. */
  readonly keys?: string | undefined
  /** Creates the store on first use: an earlier failure leaves nothing behind. */
  readonly create?: boolean
  /** Writes nothing, and does not wait for writers. */
  readonly readOnly?: boolean
  /** Writes nothing: a missing store is replaced with an empty one in memory. */
  readonly isDryRun?: boolean
  /** The content of the folder of chunks is lost permanently: the store is opened without it. */
  readonly areChunksLost?: boolean
  /** Also opens a store whose restore has not finished. Default: false. */
  readonly evenUnfinished?: boolean
  readonly timeoutMs?: number
  readonly worker?: string
  /** How long work continues without the store, such as 5m. Default: the limit of a call. */
  readonly patience?: Duration | undefined
}

const answerWithinMs = 10_000
const defaultUrl = 'sqlite:.reprise/reprise.db'

/** For commands that execute work. */
export function patienceOf(options: Options): Duration {
  return duration(options, 'away-for') ?? defaultPatience
}

export function urlOf(options: StoreOptions): string {
  return options.url ?? process.env.REPRISE_URL ?? defaultUrl
}

/** For people: without the password. */
export function shownUrl(url: string): string {
  // Up to the last @: a password may contain one.
  return url.replace(/(:\/\/[^:/@]*):[^/?#]*@/g, '$1:***@')
}

/** True if no store is named, and the default one does not exist. */
export function isMissingStore(): boolean {
  return !process.env.REPRISE_URL && filesIn(urlOf({ url: undefined })).some((file) => !existsSync(file))
}

export async function openEngine(options: StoreOptions): Promise<Reprise> {
  const named = urlOf(options)
  const files = filesIn(named)
  const file = files.find((each) => !existsSync(each)) ?? files[0]
  const isMissing = file !== undefined && !existsSync(file)
  const url = isMissing && options.isDryRun ? 'memory:' : named
  if (isMissing && !options.create) {
    throw new RepriseError('NOT_FOUND', `there is no store at ${file}; run something first, or name one with --url`, {
      url,
    })
  }
  const keys = keysOf(options)
  const { namespace, readOnly = false, timeoutMs = answerWithinMs } = options
  // A wait for the lock of a file reports its holder before the store counts as unresponsive.
  const busyMs = timeoutMs / 2
  const blobs = options.blobs ?? process.env.REPRISE_BLOBS
  const where = { ...(namespace && { namespace }), ...(blobs && { blobs }) }
  const { areChunksLost = false } = options
  const wanted = { ...where, readOnly, refusesDamage: readOnly, busyMs, areChunksLost }
  const open = () => within(openStore(url, wanted), timeoutMs, `${shownUrl(url)} did not open`)
  const isLater = isMissing && !options.isDryRun
  const meet = async (kernel: Kernel) => {
    await meetKeys(kernel, readOnly)
    if (!options.evenUnfinished) await refuseUnfinished(kernel)
    await meetRedundancy(kernel, undefined, readOnly)
    await meetTiers(kernel, undefined, readOnly)
  }
  // A store created on first use is checked then: the first run also records its key.
  const openAndMeet = async () => {
    const made = await open()
    await meet({ ...hostOf(engine).kernel, store: made })
    return made
  }
  const store = isLater ? openLater(openAndMeet) : await open()
  const worker = options.worker ?? 'cli'
  const engine: Reprise = createEngine(
    { store: withTimeouts(store, timeoutMs), ...(namespace && { namespace }) },
    { worker, patience: options.patience ?? (file === undefined ? timeoutMs : busyMs), ...(keys && { keys }) },
  )
  try {
    if (!isLater) await meet(hostOf(engine).kernel)
    if (!readOnly && !options.isDryRun) keepLog(engine)
    if (!readOnly && !options.isDryRun && !isMissing) await watchLostHeads(hostOf(engine).kernel)
    return engine
  } catch (error) {
    // A following repair needs exclusive access to the file.
    await engine.close().catch(() => undefined)
    throw error
  }
}

/** The named key ring; null: none. */
export function keysOf(options: Pick<StoreOptions, 'keys'>): KeyRing | null {
  const file = options.keys ?? process.env.REPRISE_KEYS
  return file ? readKeys(file) : null
}

/** Null: there is no file to rewrite. */
export async function renewNamed(options: StoreOptions, dryRun: boolean): Promise<Renewal | null> {
  const { namespace } = options
  return await renewStore(urlOf(options), { dryRun, ...(namespace && { namespace }) })
}

/** A key ring, with keys in base64. */
interface KeyFile {
  readonly current: string
  readonly keys: Readonly<Record<string, string>>
  readonly hides?: KeyRing['hides']
  readonly hashing?: { readonly key: string; readonly attributes?: readonly string[] }
}

/** Keys are never passed on the command line: other users can read it. */
function readKeys(file: string): KeyRing {
  try {
    const { current, keys, hides, hashing } = JSON.parse(readFileSync(file, 'utf8')) as KeyFile
    const bytes = (key: string) => new Uint8Array(Buffer.from(key, 'base64'))
    return {
      current,
      keys: Object.fromEntries(Object.entries(keys).map(([id, key]) => [id, bytes(key)])),
      ...(hides && { hides }),
      ...(hashing && { hashing: { ...hashing, key: bytes(hashing.key) } }),
    }
  } catch (error) {
    const what = `${file} does not hold keys: it is JSON, { "current": "id", "keys": { "id": "32 bytes in base64" } }`
    throw new RepriseError('INVALID_ARGUMENT', what, { file }, error)
  }
}

/** A store that is created by the first call to it. */
function openLater(open: () => Promise<Store>): Store {
  let opening: Promise<Store> | null = null
  let made: Store | null = null
  const opened = () => {
    opening ??= open().then((store) => {
      made = store
      return store
    })
    return opening
  }
  /** A port of that store: its own members, and calls that wait for the others. */
  const later = <Port extends object>(pick: (store: Store) => Port | null, own: Partial<Port>): Port => {
    const call =
      (name: PropertyKey) =>
      async (...given: unknown[]) => {
        // Not every store has every method: then the call returns undefined, as with `?.`
        const target = pick(await opened()) ?? {}
        const method = Reflect.get(target, name) as ((...given: unknown[]) => unknown) | undefined
        return method && Reflect.apply(method, target, given)
      }
    return new Proxy(own as Port, {
      get: (_, name) => (name === 'then' || name in own ? Reflect.get(own, name) : call(name)),
    })
  }
  const salvage = later<Salvage>((store) => store.upkeep.salvage, {})
  const shards: Pick<ShardSet, SynchronousOf<ShardSet>> & Partial<ShardSet> = {
    hasLostClaims: () => made?.shards?.hasLostClaims() ?? false,
    placeOf: (timeline) => made?.shards?.placeOf(timeline) ?? 0,
    aheadMs: (timeline) => made?.shards?.aheadMs(timeline) ?? 0,
    headsInReach: async (timelines) => await headsInReach(await opened(), timelines),
    moment: async (timelines) => await headsOfMoment(await opened(), timelines),
  }
  const requests: RequestBox = {
    get dialect() {
      return made?.requests?.dialect ?? 'sqlite'
    },
    place: async (isFresh, execute) =>
      (await (await opened()).requests?.place(isFresh, execute)) ?? { table: '', name: '' },
    enlist: async (request, execute, places) =>
      (await (await opened()).requests?.enlist(request, execute, places)) ?? null,
    take: async (claim) => (await (await opened()).requests?.take(claim)) ?? [],
    list: async (query) => (await (await opened()).requests?.list(query)) ?? [],
    async fill(rows) {
      const box = (await opened()).requests
      if (!box)
        throw new RepriseError('STORE_UNSUPPORTED', 'this kind of store does not store requests of applications')
      await box.fill(rows)
    },
    release: async (numbers) => (await opened()).requests?.release(numbers),
    mark: async (number, as) => (await opened()).requests?.mark(number, as),
  }
  const own: Pick<Store, SynchronousOf<Store> | FieldOf<Store>> & Partial<Store> = {
    blobs: later<Blobs>((store) => store.blobs, { batchBytes: undefined, isDurable: undefined }),
    upkeep: later<Upkeep>((store) => store.upkeep, { salvage }),
    shards: later<ShardSet>((store) => store.shards, shards),
    requests,
    get lanes() {
      return made?.lanes ?? 1
    },
    get countsCheckpoints() {
      return made?.countsCheckpoints ?? false
    },
    close: async () => (await opening)?.close(),
    listen: (wake) => listenLater(opened(), wake),
  }
  return later<Store>((store) => store, own)
}

function listenLater(opened: Promise<Store>, wake: Parameters<Store['listen']>[0]): () => void {
  let isOver = false
  let end = () => {}
  opened.then(
    (store) => {
      if (!isOver) end = store.listen(wake)
    },
    // Callers of the other methods receive the error.
    () => {},
  )
  return () => {
    isOver = true
    end()
  }
}

/** Methods that scan the whole store take as long as its size requires. */
const untimed = new Set<PropertyKey>(['listen', 'tidy', 'rewrite', 'compact', 'inspect', 'renew'])

function withTimeouts(store: Store, timeoutMs: number): Store {
  const guard = <T extends object>(target: T, name: string): T =>
    new Proxy(target, {
      get(held, property) {
        const member: unknown = Reflect.get(held, property, held)
        if (typeof member === 'object' && member !== null) return guard(member, String(property))
        if (typeof member !== 'function') return member
        if (untimed.has(property)) return member.bind(held)
        return (...given: unknown[]) => {
          // A commit with the user's SQL takes as long as that SQL; the store limits each of its statements.
          if (property === 'commit' && hasUserSql(given[0])) return Reflect.apply(member, held, given)
          const answer: unknown = Reflect.apply(member, held, given)
          return answer instanceof Promise
            ? within(answer, timeoutMs, `the store did not answer (${name}.${String(property)})`)
            : answer
        }
      },
    })
  return guard(store, 'store')
}

function hasUserSql(commits: unknown): boolean {
  return (commits as readonly Commit[]).some(({ userSql }) => userSql !== undefined)
}

function within<T>(pending: Promise<T>, timeoutMs: number, what: string): Promise<T> {
  return new Promise((resolve, reject) => {
    // Threads and jobs compute in this process too: a store is not unreachable because this process was too busy to read its
    // reply.
    const end = patientTimer(timeoutMs, () => {
      reject(new RepriseError('STORE_UNREACHABLE', `${what} within ${timeoutMs / 1000} s`, { timeoutMs }))
    })
    pending.then(resolve, reject).finally(end)
  })
}
