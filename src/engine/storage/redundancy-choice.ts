// Whether a store keeps redundancy is stored in the store: an attribute of the timeline `reprise/store`, which every
// process that opens it follows, tools included. `open(url, { redundancy })` changes it; the change records the time,
// the author and the previous value. A store without the attribute keeps redundancy: a store of an older release gets
// it with its next collection. Redundancy never becomes stale: with every choice, a removed chunk leaves its group,
// and a removed catalog entry loses its copy.

import { timelineId } from '../../core/coordinate.ts'
import type { Kernel } from './kernel.ts'
import { changeNotes } from './key-notes.ts'

const storeTimeline = 'reprise/store'
const attribute = '$redundancy'

interface Choice {
  readonly isOn: boolean
  readonly at: number
  readonly by: string
  readonly before: boolean
}

/** When a store is opened. @example await meetRedundancy(kernel, options.redundancy, false) */
export async function meetRedundancy(kernel: Kernel, wanted: boolean | undefined, isReadOnly: boolean): Promise<void> {
  const stored = await followRedundancy(kernel)
  if (!kernel.redundancy || isReadOnly || wanted === undefined || wanted === stored) return
  const { worker, events } = kernel
  const choice: Choice = { isOn: wanted, at: worker.now(), by: worker.name, before: stored }
  await changeNotes(kernel, { [attribute]: JSON.stringify(choice) })
  kernel.redundancy.isOn = wanted
  const what = wanted
    ? 'redundancy is kept from now on'
    : 'redundancy is no longer kept: the next collection removes it'
  events.emit('report', { kind: 'declared', timeline: null, what, data: { from: stored, to: wanted } })
}

/** Applies the setting of the store, which another process may have changed meanwhile. */
export async function followRedundancy(kernel: Kernel): Promise<boolean> {
  const [head] = await kernel.store.head([timelineId(storeTimeline)])
  const isOn = isOnBy(head?.attributes[attribute])
  if (kernel.redundancy && head?.attributes[attribute] !== undefined) kernel.redundancy.isOn = isOn
  return isOn
}

/** True if the setting was ever stored; otherwise the default applies. */
export async function isRedundancyNoted({ store }: Pick<Kernel, 'store'>): Promise<boolean> {
  const [head] = await store.head([timelineId(storeTimeline)])
  return head?.attributes[attribute] !== undefined
}

/** Unreadable text is treated as no setting. */
function isOnBy(text: unknown): boolean {
  if (typeof text !== 'string') return true
  try {
    return (JSON.parse(text) as Partial<Choice>).isOn !== false
  } catch {
    return true
  }
}
