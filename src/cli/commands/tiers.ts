// reprise tiers: the content of each tier, the data that would move to a colder one, and the requests to object stores. Moves
// only with --yes.

import { type Command, flag } from '../command.ts'
import { exit } from '../exit.ts'
import { bytes, count } from '../format.ts'

const tiers: Command = async ({ engine, options, output }) => {
  const dryRun = !flag(options, 'yes')
  const report = await engine.tiers({ dryRun })
  output.result(report, () => {
    output.table(
      ['TIER', 'PLACE', 'CHUNKS', 'SIZE', dryRun ? 'WOULD MOVE' : 'MOVED', 'FAILED', 'REQUESTS'],
      report.tiers.map(({ name, at, requests, ...tier }) => [
        name,
        tier.isOwn ? at : `${at} (read only)`,
        String(tier.chunks),
        bytes(tier.bytes),
        tier.moved === 0 ? '-' : `${count(tier.moved, 'chunk')}, ${bytes(tier.movedBytes)}`,
        String(tier.failed),
        requests
          ? `${requests.puts} put, ${requests.gets} get, ${requests.lists} list; ${bytes(requests.bytesOut)} out, ${bytes(requests.bytesIn)} in`
          : '-',
      ]),
    )
    const { history } = report
    if (history.segments > 0 || history.moved > 0) {
      const moved = `${count(history.moved, 'entry', 'entries')} ${dryRun ? 'would move' : 'moved'}`
      output.note(
        `history: ${count(history.segments, 'segment')}, ${bytes(history.bytes)} in ${history.tier ?? '-'}; ${moved}`,
      )
    }
    for (const { timeline, why } of history.refused) output.note(`history of ${timeline} stays: ${why}`)
    for (const { timeline, because } of report.unreadable) output.note(`quarantined: ${timeline}: ${because}`)
    if (report.tiers.length === 1) output.note('this store has no tiers: set them with tiers in open()')
    else if (dryRun) output.note('nothing was moved; reprise tiers --yes moves them')
  })
  if (report.unreadable.length > 0) return exit.damage
  return report.tiers.some(({ failed }) => failed > 0) ? exit.partly : exit.ok
}

export default tiers
