// reprise saves: saved whole states, newest first, series by series.

import { idBelow } from '../../core/history/scope.ts'
import type { ManifestRecord } from '../../core/store/ports.ts'
import { hostOf } from '../../engine/host/host.ts'
import type { Command } from '../command.ts'
import { exit } from '../exit.ts'
import { bytes, relative } from '../format.ts'

type SaveRow = { readonly series: string; readonly timeline: string } & Pick<
  ManifestRecord,
  'id' | 'seq' | 'createdAt' | 'label' | 'isPinned' | 'totalBytes' | 'addedBytes' | 'verifiedAt' | 'invalid'
>

const saves: Command = async ({ engine, args, output }) => {
  const host = hostOf(engine)
  const now = host.now()
  const scope = args[0] === undefined ? 'save/' : `save/${args[0].replace(/^save\//, '')}`
  const rows: SaveRow[] = []
  for await (const { timeline } of host.each({ prefix: scope })) {
    const series = idBelow('save/', timeline) ?? timeline
    for (const record of await engine.checkpoints(timeline)) {
      const { id, seq, createdAt, label, isPinned, totalBytes, addedBytes, verifiedAt, invalid } = record
      const state = { isPinned, totalBytes, addedBytes, verifiedAt, invalid }
      rows.push({ series, timeline, id, seq, createdAt, label, ...state })
    }
  }
  output.result(rows, () => {
    if (rows.length === 0) return output.note('no saves')
    output.table(
      ['SERIES', 'ID', 'PUT', 'SIZE', 'ADDED', 'STATE', 'LABEL'],
      rows.map((row) => [
        row.series,
        row.id,
        relative(row.createdAt, now),
        bytes(row.totalBytes),
        bytes(row.addedBytes),
        `${row.invalid ? `invalid: ${row.invalid}` : row.verifiedAt ? 'verified' : 'not verified'}${row.isPinned ? ', pinned' : ''}`,
        row.label ?? '',
      ]),
    )
    return undefined
  })
  return exit.ok
}

export default saves
