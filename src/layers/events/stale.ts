// A projection is stale if a rollback undid events that it has applied: its generation records it, its status shows it,
// and the generation is rebuilt. A generation that began after the rollback has never seen the undone events.

import type { FeedPosition } from '../../core/store/ports.ts'
import { isBehind } from '../../core/store/shards.ts'
import type { Entry } from '../../engine/history/history.ts'
import type { Host } from '../../engine/host/host.ts'
import { note, readBuilds } from '../../engine/tools/generations.ts'

/** `position` is the start of the branch that the rollback made. */
export async function noteStale(
  engine: Host,
  catalog: string,
  version: string,
  generation: number,
  { timeline, data }: Entry,
  position: FeedPosition,
): Promise<void> {
  const builds = await readBuilds(engine, catalog, version)
  const began = builds.beganAt(generation)
  const isAfter = began === null || isBehind(began, position)
  if (!isAfter || builds.staleBy(generation) !== null) return
  const { from, to } = data as { readonly from: number; readonly to: number }
  const words = `${timeline} was rolled back from ${from} to ${to}`
  await note(engine, catalog, { [`stale.${version}-${generation}`]: words })
}
