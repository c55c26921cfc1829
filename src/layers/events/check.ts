// The check before a deploy: whether the current code can read every stored event. It reads types and versions only,
// runs no upcaster and decodes nothing, so it is fast and safe on a production store.

import { unpackEntries } from '../../core/history/entry-run.ts'
import { type MissingPath, missingPaths, upcast } from '../../core/history/fold.ts'
import { checkObject } from '../../core/options.ts'
import { type FeedPosition, feedStart } from '../../core/store/ports.ts'
import { FeedReader } from '../../engine/feed/reader.ts'
import { type Host, hostOf } from '../../engine/host/host.ts'
import { checkFolding, type Engine, systemPrefix } from '../../engine/model/definition.ts'
import type { AggregateDefinition } from './aggregate.ts'
import { layerPrefix } from './envelope.ts'

export interface EventsCheck {
  readonly ok: boolean
  /** Every stored type and version of event, with its count. */
  readonly stored: readonly { readonly type: string; readonly version: number; readonly count: number }[]
  /** Versions without a path to the current one. */
  readonly missing: readonly MissingPath[]
  /** Types that `evolve` does not handle, also after renames. */
  readonly unknown: readonly string[]
}

/** @example if (!(await checkEvents(rp, account)).ok) process.exit(1) */
// biome-ignore lint/suspicious/noExplicitAny: of any state
export async function checkEvents(rp: Engine, definition: AggregateDefinition<any, any, any>): Promise<EventsCheck> {
  checkFolding(definition)
  checkObject('the model of the aggregate', definition.model)
  const { upcasters, evolve } = definition.model
  const counts = new Map<string, { type: string; version: number; count: number }>()
  for await (const { type, version } of storedTypes(hostOf(rp), definition.prefix)) {
    if (type.startsWith(systemPrefix) || type.startsWith(layerPrefix)) continue
    const key = `${version} ${type}`
    const kind = counts.get(key) ?? { type, version, count: 0 }
    kind.count += 1
    counts.set(key, kind)
  }
  const stored = [...counts.values()]
  const missing = missingPaths(stored, upcasters)
  const unknown = new Set<string>()
  for (const { type, version } of stored) {
    if (missing.some((path) => path.type === type && path.version === version)) continue
    const today = finalType(type, version, upcasters)
    if (!Object.hasOwn(evolve, today)) unknown.add(today)
  }
  return { ok: missing.length === 0 && unknown.size === 0, stored, missing, unknown: [...unknown] }
}

/** Follows the renames of upcasters without calling their functions. */
function finalType(type: string, version: number, upcasters: Parameters<typeof upcast>[1]): string {
  const linksOnly = Object.fromEntries(
    Object.entries(upcasters).map(([name, { version: current, from = {} }]) => [
      name,
      {
        version: current,
        from: Object.fromEntries(
          Object.entries(from).map(([at, link]) => [
            at,
            typeof link === 'function' ? (data: unknown) => data : { type: link.type, version: link.version },
          ]),
        ),
      },
    ]),
  )
  return upcast({ type, version, data: null }, linksOnly).type
}

type Typed = { readonly type: string; readonly version: number }

/** If types are hidden (KeyRing.hides), the entries must be opened. */
async function* storedTypes(engine: Host, scope: string): AsyncGenerator<Typed> {
  const reader = new FeedReader(engine.kernel, [scope], { mayBeTrimmed: true })
  for (let after: FeedPosition = feedStart, isEnd = false; !isEnd; ) {
    const page = engine.kernel.sealer.hidesTypes
      ? await reader.page(after)
      : await engine.kernel.store
          .feed(after, { prefixes: [scope] }, 1000)
          .then(({ items, ...rest }) => ({ ...rest, entries: items.flatMap(({ run }): Typed[] => unpackEntries(run)) }))
    yield* page.entries
    after = page.next
    isEnd = page.isEnd
  }
}
