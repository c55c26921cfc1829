// reprise ls: lists timelines.

import type { RepriseError } from '../../core/errors.ts'
import type { Attribute, Head, TimelineQuery } from '../../core/store/ports.ts'
import type { Reprise } from '../../engine/api/reprise.ts'
import { hostOf } from '../../engine/host/host.ts'
import { isOfStore } from '../../engine/model/id-prefixes.ts'
import type { Quarantined } from '../../engine/storage/sound-page.ts'
import { reasonOf } from '../../operations/failures.ts'
import { shownAttributes, shownHead, storedStatuses } from '../../operations/heads.ts'
import { type Command, text } from '../command.ts'
import { exit, UsageError } from '../exit.ts'
import { scopeOf, startingWith } from '../find-timeline.ts'
import { relative } from '../format.ts'

/**
 * A page of heads. A status may have changed since the last commit, by which the store finds it (the worker is gone, or has just
 * begun), so pages are read until enough heads have it. `last`: the next page follows it; null: there is none.
 */
async function listed(
  engine: Reprise,
  query: TimelineQuery & { readonly limit: number },
  status: string | undefined,
  onFault: (timeline: string, error: RepriseError) => void,
): Promise<{ readonly heads: readonly Head[]; readonly last: string | null }> {
  const { limit } = query
  const stored = status === undefined ? [{}] : storedStatuses(engine, status).map((each) => ({ status: each }))
  const heads: Head[] = []
  for (let { after } = query; ; ) {
    const next = { ...query, ...(after !== undefined && { after }) }
    const pages = await Promise.all(stored.map((each) => hostOf(engine).list({ ...next, ...each }, onFault)))
    // Stores order ids by their UTF-8 bytes.
    const found = pages.flat().sort((a, b) => Buffer.compare(Buffer.from(a.timeline), Buffer.from(b.timeline)))
    for (const head of found.slice(0, limit)) {
      if (status === undefined || shownHead(engine, head).status === status) heads.push(head)
      after = head.timeline
      if (heads.length === limit) return { heads, last: after }
    }
    if (found.length < limit) return { heads, last: null }
  }
}

const ls: Command = async ({ engine, args, options, output }) => {
  const limit = Number(text(options, 'limit') ?? 100)
  if (!Number.isSafeInteger(limit) || limit < 1) throw new UsageError('--limit must be a whole number of at least 1')
  const status = text(options, 'status')
  const queue = text(options, 'queue')
  const after = text(options, 'after')
  const attributes = attributesOf((options.attribute ?? []) as readonly string[])
  const prefix = args[0] === undefined ? undefined : await scopeOf(engine, args[0])
  const query = {
    limit,
    ...(prefix !== undefined && { prefix }),
    ...(queue !== undefined && { queue }),
    ...(after !== undefined && { after: after as NonNullable<TimelineQuery['after']> }),
    ...(attributes && { attributes }),
  }
  const { kernel } = hostOf(engine)
  const quarantined: Quarantined[] = []
  const { heads, last } = await listed(engine, query, status, (timeline, error) =>
    quarantined.push({ timeline, error }),
  )
  // The store's own timelines are listed only on request: ls reprise/
  const rows = heads
    .filter(({ timeline }) => prefix !== undefined || !isOfStore(timeline))
    .map((head) => ({ head, shown: shownHead(engine, head) }))
  const like = rows.length === 0 && prefix !== undefined ? await startingWith(engine, prefix, 1) : []
  const now = kernel.worker.now()
  for (const { timeline, error } of quarantined) {
    output.note(
      output.errorColours.red(`quarantined: ${timeline}: ${error.message}; reprise verify --repair repairs it`),
    )
  }
  const reasons = await Promise.all(rows.map(({ head }) => reasonOf(engine, head, now)))
  const hasReasons = reasons.some((reason) => reason !== '')
  output.result(
    rows.map(({ shown }) => shown),
    () => {
      if (rows.length === 0) {
        const hint = ': ids are matched by whole segments, and'
        return output.note(`nothing there${like[0] ? `${hint} ${like[0].timeline} only shares this beginning` : ''}`)
      }
      output.table(
        ['TIMELINE', 'STATUS', 'SEQ', 'OWNER', 'CHANGED', 'ATTRIBUTES', ...(hasReasons ? ['REASON'] : [])],
        rows.map(({ head, shown }, i) => [
          head.timeline,
          shown.status || '-',
          String(head.seq),
          head.owner ? `${head.owner}${head.isOwnerAlive ? '' : ' (gone)'}` : '-',
          relative(head.updatedAt, now),
          shownAttributes(head)
            .map(([key, value]) => `${key}=${value}`)
            .join(' '),
          ...(hasReasons ? [reasons[i]!] : []),
        ]),
      )
      if (last !== null) {
        output.note(`more with: reprise ls ${args[0] ?? ''} --after ${last}`.replace('  ', ' '))
      }
      return undefined
    },
  )
  return quarantined.length > 0 ? exit.damage : exit.ok
}

export default ls

function attributesOf(given: readonly string[]): Record<string, Attribute> | undefined {
  if (given.length === 0) return undefined
  return Object.fromEntries(
    given.map((pair) => {
      const at = pair.indexOf('=')
      if (at < 1) throw new UsageError(`--attribute takes KEY=VALUE, not ${pair}`)
      const value = pair.slice(at + 1)
      return [
        pair.slice(0, at),
        value === 'true' ? true : value === 'false' ? false : /^-?\d+(\.\d+)?$/.test(value) ? Number(value) : value,
      ]
    }),
  )
}
