// Forks as the model of the parent does: with the kernel's fork or the model's own, and with edits if the model accepts them.

import { type Coordinate, type TimelineId, timelineId, toHex } from '../../core/coordinate.ts'
import { isReprise, RepriseError } from '../../core/errors.ts'
import type { Head } from '../../core/store/ports.ts'
import { siblingOf } from '../branch/fork.ts'
import { locate, type TimelinePoint } from '../history/locate.ts'
import { recover } from '../history/recover.ts'
import { retryWithFreshHead } from '../history/retry-with-fresh-head.ts'
import type { Host } from '../host/host.ts'
import type { Engine } from '../model/definition.ts'
import {
  type EditedFork,
  editOf,
  type ForkEdit,
  type ForkMark,
  type ForkOptions,
  forkMarkOf,
  markOf,
} from '../model/fork-edit.ts'
import { checkSameKind } from '../model/id-prefixes.ts'
import { actionOf, type Model } from '../model/model.ts'

export type Forked = Coordinate & { readonly parent: string }

export async function forkAsModel(
  engine: Engine,
  host: Host,
  { model, head }: { readonly model: Model | null; readonly head: Head },
  where: TimelinePoint,
  to: string,
  options: ForkOptions,
): Promise<Forked> {
  const edit = editOf(options)
  const mark = markOf(host.kernel, head.timeline, edit, options.key)
  const id = timelineId(to.includes('/') ? to : siblingOf(where.timeline, to))
  checkSameKind(head.timeline, id)
  const before = () => forkedBefore(host, id, head.timeline, mark)
  const made = await before()
  if (made) return made
  if (edit) checkEdit(model, head.timeline, edit)
  const edited = edit ? await retryWithFreshHead(() => entriesFor(host, model!, where, edit)) : { entries: [] }
  const place = edited.seq === undefined ? where : { timeline: where.timeline, seq: edited.seq }
  try {
    if (!model?.actions?.fork) {
      const begin = () => ({ entries: edited.entries })
      return await host.forkTimeline(place, id, { ...(edit && { begin }), mark })
    }
    // A coordinate may be on an archived branch: the fork reads that one.
    const { head: parent } = await locate(host.kernel, place)
    const act = actionOf(model, 'fork', head.timeline)
    return await act({ engine, head: parent }, { seq: place.seq, to: id, entries: edited.entries, edit, mark })
  } catch (error) {
    // Another process executed the same request first.
    const other = isReprise(error, 'EXISTS') ? await before() : null
    if (other) return other
    throw error
  }
}

/** The fork that an earlier attempt of this very request made. */
async function forkedBefore(
  { kernel }: Host,
  id: TimelineId,
  parent: string,
  mark: ForkMark | null,
): Promise<Forked | null> {
  if (mark?.asked === undefined) return null
  const [head] = await kernel.store.head([id])
  if (!head?.base || forkMarkOf(head)?.asked !== mark.asked) return null
  // The fork was made under the first epoch, regardless of later owners.
  return { timeline: id, seq: head.base.seq, epoch: 1, digest: toHex(head.base.digest), parent }
}

function checkEdit(model: Model | null, timeline: string, edit: ForkEdit): void {
  const kind = model ? `a ${model.kind}` : 'a timeline whose definition is not known here'
  const refuse = (why: string) => new RepriseError('INVALID_ARGUMENT', `${timeline} is ${kind}: ${why}`, { timeline })
  if (!model?.edits) throw refuse('its forks accept no edits; fork it, then act on the fork')
  if (!model.fold) throw refuse('edits need its definition; name the module that exports it')
  if ('input' in edit && model.edits.inputSeq === undefined) throw refuse('it has no input')
}

async function entriesFor(host: Host, model: Model, where: TimelinePoint, edit: ForkEdit): Promise<EditedFork> {
  const { of } = model.edits!
  if (!of) return { entries: [] }
  const { head, point } = await locate(host.kernel, where)
  const { state } = await recover(host.kernel, head, model.fold!, { to: point.seq })
  return of(state.value, edit, head.timeline)
}
