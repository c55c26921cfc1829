// A fork of a series of saves with an edited value: the fork's first save, in the commit that creates the fork. It is
// restored from that save alone, like every series from its newest.

import { timelineId, toHex } from '../../core/coordinate.ts'
import { isReprise, RepriseError } from '../../core/errors.ts'
import { withField } from '../../core/field-edit.ts'
import { baseAt, checkDepth, forkAttributes, taken } from '../../engine/branch/fork.ts'
import { locate } from '../../engine/history/locate.ts'
import { hostOf } from '../../engine/host/host.ts'
import type { ForkEdit } from '../../engine/model/fork-edit.ts'
import type { ForkRequest, Target } from '../../engine/model/model.ts'
import { ChunkHold } from '../../engine/storage/chunk-hold.ts'
import { StateTimeline } from '../../engine/writing/state-timeline.ts'
import { writeValue } from '../../engine/writing/stored-value.ts'
import { type Envelope, type SaveModel, SaveReader } from './reader.ts'

export const foldVersion = 'save/1'

export async function forkSaves({ engine, head }: Target, { seq, to, edit, mark }: ForkRequest, model: SaveModel) {
  const host = hostOf(engine)
  const { kernel } = host
  const id = timelineId(to)
  if (!edit) return await host.forkTimeline({ timeline: head.timeline, seq }, id, { mark })
  const { lineage, point, head: parent } = await locate(kernel, { timeline: head.timeline, seq })
  checkDepth(kernel, lineage)
  const reader = new EditedSaves(kernel, model, parent.timeline)
  const { value, replaces } = await reader.edited(point.seq, edit)
  const hold = await ChunkHold.begin(kernel)
  try {
    const envelope = (): Envelope => ({ format: model.format, savedAt: kernel.clock.now(), kind: 'value', value })
    const { parts, ...sizes } = await writeValue(kernel, hold, null, envelope)
    const made = await StateTimeline.fork(kernel, id, baseAt(lineage, point))
    const data = { format: model.format, bytes: sizes.totalBytes, by: edit.by, replaces }
    const extras = { attributes: forkAttributes(parent, mark), status: 'open', release: true }
    await made.publish({
      ...{ entry: { type: 'saved', data }, parts, foldVersion, ...sizes, hold, extras },
      ...{ baseId: null, trigger: 'fork' },
    })
  } catch (error) {
    throw isReprise(error, 'FENCED', 'CONFLICT') ? taken(id) : error
  } finally {
    hold.end()
  }
  return { timeline: id, seq: point.seq, epoch: 1, digest: toHex(point.digest), parent: parent.timeline }
}

class EditedSaves extends SaveReader<unknown> {
  /** The newest save up to this sequence, with the edits applied. */
  async edited(seq: number, edit: ForkEdit): Promise<{ readonly value: unknown; readonly replaces: number }> {
    const { timeline } = this
    const record = (await this.kernel.store.checkpoints(timeline)).find(
      (each) => each.seq <= seq && each.invalid === null,
    )
    if (!record) {
      const what = `${timeline} has no intact save at or below ${seq}: fork at the position of a save`
      throw new RepriseError('OUT_OF_RANGE', what, { timeline, seq })
    }
    const { value: before, kind } = await this.load(record.id)
    if (kind === 'bytes') {
      const what = `${timeline}: the save at ${record.seq} is a stream of bytes, which cannot be edited; fork it, then save another`
      throw new RepriseError('INVALID_ARGUMENT', what, { timeline, seq })
    }
    const value = editValue(before, edit)
    const reason = this.whyInvalid(value)
    if (reason === null) return { value, replaces: record.seq }
    const what = `${timeline}@${seq}: nothing was forked, because the edited value is not valid: ${reason}`
    throw new RepriseError('INVALID_STATE', what, { timeline, seq, reason })
  }
}

function editValue(before: unknown, { set, unset }: ForkEdit): unknown {
  for (const name of [...Object.keys(set), ...unset]) {
    if (/^value(\.|$)/.test(name) && !unset.includes('value')) continue
    throw new RepriseError('INVALID_ARGUMENT', `a save has no field ${name}: set value, or set or unset value.FIELD`, {
      name,
    })
  }
  let whole: unknown = { value: before }
  for (const [name, to] of Object.entries(set)) whole = withField(whole, name, { to })
  for (const name of unset) whole = withField(whole, name, 'remove')
  return (whole as { readonly value: unknown }).value
}
