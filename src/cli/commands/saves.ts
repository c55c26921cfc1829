// reprise saves: saved whole states, newest first, series by series.

import type { TimelineId } from '../../core/coordinate.ts'
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
  const now = hostOf(engine).now()
  const scope = args[0] === undefined ? 'save/' : `save/${args[0].replace(/^save\//, '')}`
  const rows: SaveRow[] = []
  for (let after: TimelineId | undefined; ; ) {
    const page = await engine.list({ prefix: scope, limit: 200, ...(after !== undefined && { after }) })
    for (const head of page) {
      for (const record of await engine.checkpoints(head.timeline)) {
        const { id, seq, createdAt, label, isPinned, totalBytes, addedBytes, verifiedAt, invalid } = record
        rows.push({
          series: idBelow('save/', head.timeline) ?? head.timeline,
          timeline: head.timeline,
          id,
          seq,
          createdAt,
          label,
          isPinned,
          totalBytes,
          addedBytes,
          verifiedAt,
          invalid,
        })
      }
    }
    after = page.at(-1)?.timeline
    if (page.length < 200) break
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
