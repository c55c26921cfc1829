// reprise ls: lists timelines.

import type { Attribute, TimelineQuery } from '../../core/store/ports.ts'
import { hostOf } from '../../engine/host/host.ts'
import { isOfStore } from '../../engine/model/first-segment.ts'
import type { Quarantined } from '../../engine/storage/sound-page.ts'
import { reasonOf } from '../../operations/failures.ts'
import { shownAttributes, shownHead } from '../../operations/heads.ts'
import { type Command, text } from '../command.ts'
import { exit, UsageError } from '../exit.ts'
import { scopeOf, startingWith } from '../find.ts'
import { relative } from '../format.ts'

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
    ...(status !== undefined && { status }),
    ...(queue !== undefined && { queue }),
    ...(after !== undefined && { after: after as NonNullable<TimelineQuery['after']> }),
    ...(attributes && { attributes }),
  }
  const { kernel } = hostOf(engine)
  const quarantined: Quarantined[] = []
  const listed = await hostOf(engine).list(query, (timeline, error) => quarantined.push({ timeline, error }))
  // The store's own timelines are listed only on request: ls reprise/
  const heads = prefix === undefined ? listed.filter(({ timeline }) => !isOfStore(timeline)) : listed
  const like = heads.length === 0 && prefix !== undefined ? await startingWith(engine, prefix, 1) : []
  const now = kernel.worker.now()
  for (const { timeline, error } of quarantined) {
    output.note(
      output.errorColours.red(`quarantined: ${timeline}: ${error.message}; reprise verify --repair puts it right`),
    )
  }
  const reasons = await Promise.all(heads.map((head) => reasonOf(engine, head, now)))
  const hasReasons = reasons.some((reason) => reason !== '')
  output.result(
    heads.map((head) => shownHead(engine, head)),
    () => {
      if (heads.length === 0) {
        const hint = ': ids are matched by whole segments, and'
        return output.note(`nothing there${like[0] ? `${hint} ${like[0].timeline} only begins so` : ''}`)
      }
      output.table(
        ['TIMELINE', 'STATUS', 'SEQ', 'OWNER', 'CHANGED', 'ATTRIBUTES', ...(hasReasons ? ['REASON'] : [])],
        heads.map((head, i) => [
          head.timeline,
          head.status || '-',
          String(head.seq),
          head.owner ? `${head.owner}${head.isOwnerAlive ? '' : ' (gone)'}` : '-',
          relative(head.updatedAt, now),
          shownAttributes(head)
            .map(([key, value]) => `${key}=${value}`)
            .join(' '),
          ...(hasReasons ? [reasons[i]!] : []),
        ]),
      )
      if (heads.length === limit) {
        output.note(
          `more with: reprise ls ${args[0] ?? ''} --after ${heads[heads.length - 1]!.timeline}`.replace('  ', ' '),
        )
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
