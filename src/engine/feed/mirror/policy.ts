// The location of a store's mirror, recorded in the store itself: an attribute of the timeline `reprise/store`, so that every
// process that opens the store continues the mirror, and a tool that cannot reach the location reports it.

import { resolve } from 'node:path'
import { timelineId } from '../../../core/coordinate.ts'
import { RepriseError } from '../../../core/errors.ts'
import type { Kernel } from '../../storage/kernel.ts'
import { changeNotes } from '../../storage/key-notes.ts'
import { makeFolder } from './folder.ts'

const storeTimeline = timelineId('reprise/store')
const attribute = '$mirror'

interface Choice {
  readonly path: string | null
  readonly at: number
  readonly by: string
  readonly before: string | null
}

/** The path of the folder; null: there is no mirror. */
export async function mirrorOf({ store }: Pick<Kernel, 'store'>): Promise<string | null> {
  const [head] = await store.head([storeTimeline])
  const text = head?.attributes[attribute]
  if (typeof text !== 'string') return null
  try {
    return (JSON.parse(text) as Partial<Choice>).path ?? null
  } catch {
    return null
  }
}

/**
 * Records the requested mirror, and returns its location.
 * @example await meetMirror(kernel, 'file:/mnt/other/app.mirror', false)
 */
export async function meetMirror(
  kernel: Kernel,
  wanted: string | false | undefined,
  isReadOnly: boolean,
): Promise<string | null> {
  const stored = await mirrorOf(kernel)
  const path = wanted === undefined ? stored : wanted === false ? null : mirrorPath(wanted)
  if (path === stored || isReadOnly) return stored
  if (path !== null) await make(path)
  const { worker, events } = kernel
  const choice: Choice = { path, at: worker.now(), by: worker.name, before: stored }
  await changeNotes(kernel, { [attribute]: JSON.stringify(choice) })
  const what = path === null ? 'history is no longer mirrored' : `history is mirrored to ${path} from now on`
  events.emit('report', { kind: 'declared', timeline: null, what, data: { from: stored, to: path } })
  return path
}

/** For the report of an erasure. */
export async function mirrorRemains(kernel: Pick<Kernel, 'store'>): Promise<readonly string[]> {
  const path = await mirrorOf(kernel)
  return path === null ? [] : [`the mirror of history at ${path}, until its writer has rebuilt it`]
}

/** The folder is created only here: later on, a missing folder means a disk that is not mounted. */
async function make(path: string): Promise<void> {
  await makeFolder(path).catch((cause) => {
    const what = `the folder ${path} for the mirror of history cannot be made: ${(cause as Error).message}`
    throw new RepriseError('INVALID_ARGUMENT', what, { mirror: path }, cause)
  })
}

/** Throws INVALID_ARGUMENT if the URL names no folder. */
export function mirrorPath(url: string): string {
  const path = /^file:(?:\/\/(?=\/))?(.+)$/.exec(String(url))?.[1]
  if (path) return resolve(path)
  const what = 'mirror must be a folder, best on another disk, such as file:/mnt/other/app.mirror'
  throw new RepriseError('INVALID_ARGUMENT', what, { given: String(url).slice(0, 80) })
}
