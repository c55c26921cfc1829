// Deletes dependents in the background: an object whose owners are all gone is deleted. Owners are matched by uid, so a new
// object of the same name is not an owner. Several processes may run a collector at once: each deletion names the intended
// uid.

import { isReprise, RepriseError } from '../../core/errors.ts'
import { checkList, checkOptions, namesOf } from '../../core/options.ts'
import { growingPause } from '../../core/retry/pause.ts'
import { checkFunctions } from '../../core/synchronous.ts'
import { realTime, sleep } from '../../lib/waiting.ts'
import type { ResourceHandle } from './handle.ts'
import type { OwnerReference } from './rules/object.ts'
import type { Watch } from './watch.ts'

export interface GarbageOptions {
  /** Called for each failed deletion; the deletion is retried. */
  readonly onProblem?: (error: unknown) => void
  readonly signal?: AbortSignal
}

const known = namesOf<GarbageOptions>()('onProblem signal')

export interface GarbageCollector {
  /** Resolves when the collector is idle. */
  stop(): Promise<void>
  [Symbol.asyncDispose](): Promise<void>
}

interface Dependent {
  readonly handle: ResourceHandle
  readonly name: string
  readonly uid: string
  readonly owners: readonly OwnerReference[]
}

const longestPauseMs = 5000

/**
 * Follows these kinds. Dependents of owners of other kinds are kept.
 * @example const garbage = garbageCollector([deployments, pods])
 * /
 */
export function garbageCollector(
  kinds: readonly Pick<ResourceHandle, 'kind'>[],
  options: GarbageOptions = {},
): GarbageCollector {
  checkOptions('garbageCollector', options, known)
  checkFunctions('garbageCollector', options, [], ['onProblem'])
  checkList('the kinds of garbageCollector()', kinds)
  const handles = new Map(kinds.map((handle) => [handle.kind, handle as ResourceHandle]))
  if (handles.size === 0) throw new RepriseError('INVALID_ARGUMENT', 'garbageCollector: kinds to follow are required')
  const closing = new AbortController()
  const close = () => closing.abort()
  if (options.signal?.aborted) close()
  options.signal?.addEventListener('abort', close, { once: true })
  const collection = new Collection(handles, closing.signal, options.onProblem ?? (() => undefined))
  const done = Promise.all([...handles.values()].map((handle) => collection.follow(handle)))
  const end = async () => {
    close()
    options.signal?.removeEventListener('abort', close)
    await done
  }
  return { stop: end, [Symbol.asyncDispose]: end }
}

class Collection {
  readonly #handles: ReadonlyMap<string, ResourceHandle>
  readonly #signal: AbortSignal
  readonly #onProblem: (error: unknown) => void
  /** By the owner's uid, then by the dependent's kind and name. */
  readonly #owned = new Map<string, Map<string, Dependent>>()
  /** Dependents, by kind and name. */
  readonly #dependents = new Map<string, Dependent>()

  constructor(handles: ReadonlyMap<string, ResourceHandle>, signal: AbortSignal, onProblem: (error: unknown) => void) {
    this.#handles = handles
    this.#signal = signal
    this.#onProblem = onProblem
  }

  async follow(handle: ResourceHandle): Promise<void> {
    for (let failures = 0; !this.#signal.aborted; ) {
      try {
        await this.#watch(handle.watch({ signal: this.#signal }), handle)
        return
      } catch (error) {
        if (this.#signal.aborted || isReprise(error, 'CLOSED')) return
        // The watch fell behind: the current objects replace the missed events.
        if (isReprise(error, 'REVISION_GONE')) continue
        this.#onProblem(error)
        failures += 1
        await sleep(realTime, growingPause(failures, 50, longestPauseMs), { signal: this.#signal })
      }
    }
  }

  async #watch(watch: Watch, handle: ResourceHandle): Promise<void> {
    for await (const event of watch) {
      if (event.type === 'bookmark') continue
      const { name, uid, owners } = event.object
      const id = `${handle.kind} ${name}`
      this.#forget(id)
      if (event.type === 'deleted') {
        for (const dependent of this.#owned.get(uid)?.values() ?? []) await this.#consider(dependent)
      } else if (owners.length > 0) {
        const dependent = { handle, name, uid, owners }
        this.#dependents.set(id, dependent)
        for (const owner of owners) {
          const owned = this.#owned.get(owner.uid) ?? new Map<string, Dependent>()
          this.#owned.set(owner.uid, owned.set(id, dependent))
        }
        await this.#consider(dependent)
      }
    }
  }

  #forget(id: string): void {
    for (const { uid } of this.#dependents.get(id)?.owners ?? []) {
      const owned = this.#owned.get(uid)
      owned?.delete(id)
      if (owned?.size === 0) this.#owned.delete(uid)
    }
    this.#dependents.delete(id)
  }

  /** An owner is created before its dependents, so an owner that cannot be read now was permanently deleted. */
  async #consider({ handle, name, uid, owners }: Dependent): Promise<void> {
    for (const owner of owners) {
      const kind = this.#handles.get(owner.kind)
      // An owner that this process still has is not deleted yet: its deletion arrives as an event of its own.
      if (!kind || kind.peek(owner.name)?.uid === owner.uid) return
      if ((await kind.get(owner.name))?.uid === owner.uid) return
    }
    try {
      await handle.delete(name, { uid })
    } catch (error) {
      // The object was already deleted, or is a different one with the same name.
      if (!isReprise(error, 'NOT_FOUND', 'CONFLICT')) throw error
    }
  }
}
