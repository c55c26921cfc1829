// Abandons a rescale: removes the generation it was building. Once the partitions of the live generation have ended, the
// rescale can only be finished.

import { RepriseError } from '../../core/errors.ts'
import { type Host, hostOf } from '../../engine/host/host.ts'
import type { Engine } from '../../engine/model/definition.ts'
import { note } from '../../engine/tools/generations.ts'
import { catalogOf, forget, isEnding, type Layout, layoutVersion, readLayout } from './layout.ts'

export async function giveUpRescale(engine: Host, { name, builds }: Layout): Promise<void> {
  if (builds.building === null) return
  await forget(engine, name, builds.building, builds)
  await note(engine, catalogOf(name), { [`building.${layoutVersion}`]: null })
}

/** For `rp.abandonChange`. Throws CONFLICT if the rescale can only be resumed. */
export async function abandonRescale(rp: Engine, name: string): Promise<void> {
  const engine = hostOf(rp)
  const layout = await readLayout(engine, name)
  if (await isEnding(engine, layout)) {
    const what = `state store ${name}: its old partitions have ended. Call its rescale(rp) again: the rescale continues`
    throw new RepriseError('CONFLICT', what, { name })
  }
  await giveUpRescale(engine, layout)
}
