// Whether a store keeps redundancy is a fact of the store: an attribute of the timeline `reprise/store`, followed by whoever
// opens it, tools included. `open(url, { redundancy })` changes it, and the change says when, by whom and what was before.
// A store that says nothing keeps it: one of an older release gets its redundancy when it is collected the next time.
//
// Nobody else makes it stale: whatever is chosen, a chunk that goes leaves its group, and a line that goes its copy.

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

/** Does as the store says, also if another process has changed it meanwhile. */
export async function followRedundancy(kernel: Kernel): Promise<boolean> {
  const [head] = await kernel.store.head([timelineId(storeTimeline)])
  const isOn = isOnBy(head?.attributes[attribute])
  if (kernel.redundancy && head?.attributes[attribute] !== undefined) kernel.redundancy.isOn = isOn
  return isOn
}

/** Whether somebody has ever said it; otherwise it is as usual. */
export async function isRedundancyNoted({ store }: Pick<Kernel, 'store'>): Promise<boolean> {
  const [head] = await store.head([timelineId(storeTimeline)])
  return head?.attributes[attribute] !== undefined
}

/** Text that cannot be read is as good as nothing. */
function isOnBy(text: unknown): boolean {
  if (typeof text !== 'string') return true
  try {
    return (JSON.parse(text) as Partial<Choice>).isOn !== false
  } catch {
    return true
  }
}
