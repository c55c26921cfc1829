// reprise show: the status of one timeline.

import type { Head } from '../../core/store/ports.ts'
import type { Reprise } from '../../engine/api/reprise.ts'
import { segmentsBelow } from '../../engine/history/segments.ts'
import { hostOf } from '../../engine/host/host.ts'
import { droppedMail } from '../../engine/host/shaped-mail.ts'
import type { FlowTask } from '../../engine/model/flow-metrics.ts'
import { editWords } from '../../engine/model/fork-edit.ts'
import { describeTimeline } from '../../operations/describe.ts'
import {
  dueWords,
  errorWords,
  type FailingTimeline,
  failingTimelines,
  failureWords,
} from '../../operations/failures.ts'
import { shownAttributes } from '../../operations/heads.ts'
import type { Command } from '../command.ts'
import { exit } from '../exit.ts'
import { findTimeline } from '../find-timeline.ts'
import { bytes, count, relative, when } from '../format.ts'
import { toJson } from '../output.ts'

/** The newest messages that the timeline could not use; `reprise log --kind mail-dropped` has all of them. */
const droppedShown = 5

const show: Command = async ({ engine, args, output }) => {
  const head = await findTimeline(engine, args[0]!)
  const { shown, catalog } = await describeTimeline(engine, head)
  const { kind, status, forks, summary, failure, identity, lost } = shown
  const now = hostOf(engine).now()
  const due = dueWords(head, now)
  const newest = catalog[0]
  const edited = editWords(head)
  const below = await historyBelow(engine, head)
  const parts = await failingParts(engine, head)
  const dropped = await engine.log({ timeline: head.timeline, kind: droppedMail, limit: droppedShown })
  const flow = (await hostOf(engine).models.find(head.timeline)?.flows?.({ engine, head })) ?? null
  const stages = flow?.stages ?? []
  const more = {
    ...(stages.length > 0 && { stages }),
    ...(parts.length > 0 && { failingParts: parts }),
    ...(dropped.length > 0 && { dropped }),
  }
  output.result({ ...shown, ...more }, () => {
    const { bold } = output.colours
    output.line(bold(head.timeline))
    output.facts([
      ['kind', kind ?? 'unknown here'],
      ['status', status || '-'],
      ...(failure ? [['reason', failureWords(failure, now)] as const] : []),
      ...(due === null ? [] : [['reason', due] as const]),
      ...parts.map((part) => ['reason', `${part.timeline} ${failureWords(part, now)}`] as const),
      ...lost.map(({ id, where, what }) => ['lost', `${where}: ${what} (${id})`] as const),
      ['coordinate', `${head.timeline}@${head.seq}, epoch ${head.epoch}`],
      ['digest', Buffer.from(head.digest).toString('hex')],
      ['life', `${identity.life}, branch ${identity.branch} (identity ${identity.timeline})`],
      ['store', identity.store === '' ? 'no id yet' : `${identity.store}, incarnation ${identity.incarnation}`],
      ['owner', head.owner ? `${head.owner}${head.isOwnerAlive ? '' : ' (gone)'}` : 'nobody'],
      ['history', `${head.floor + 1} to ${head.seq}${below}`],
      [
        'checkpoints',
        newest
          ? `${catalog.length}, the newest at ${newest.seq} (${bytes(newest.totalBytes)}, ${relative(newest.createdAt, now)})`
          : 'none',
      ],
      ...(head.base ? [['fork of', `${head.base.timeline}@${head.base.seq}`] as const] : []),
      ...(edited === null ? [] : [['edited', edited] as const]),
      ...(forks.length > 0 ? [['forks', forks.join(', ')] as const] : []),
      ['queue', head.queue ?? '-'],
      ['wakeup', head.wakeup === null ? '-' : relative(head.wakeup, now)],
      ['mail', String(head.mail)],
      ...dropped.map(({ at, what }) => ['dropped', `${relative(at, now)}: ${what}`] as const),
      ['created', `${when(head.createdAt)} (${relative(head.createdAt, now)})`],
      ['changed', `${when(head.updatedAt)} (${relative(head.updatedAt, now)})`],
      ...shownAttributes(head).map(([key, value]) => [key, String(value)] as const),
      ...stages.map((task) => [task.name, taskWords(task)] as const),
      ...Object.entries(summary ?? {}).map(([key, value]) => [key, endWords(value, now) ?? toJson(value)] as const),
    ])
  })
  return exit.ok
}

/** Partitions, shards and tasks of a timeline do its work, and have the reason where they fail. */
async function failingParts(engine: Reprise, { timeline }: Head): Promise<FailingTimeline[]> {
  const isPart = (id: string) => /^(@|\/@?\d)/.test(id.slice(timeline.length)) && id.startsWith(timeline)
  return (await failingTimelines(engine)).filter((each) => isPart(each.timeline))
}

/** @example numbered, keyBy#2 (keyBy#1 sends each record to one of 4 instances): 12,000/s, busy 80 %, backpressured 10 % */
function taskWords({ parts, why, perSecond, busy, backpressured, aligning, ...task }: FlowTask): string {
  const percent = (share: number) => `${Math.round(share * 100)} %`
  const figures = [`${Math.round(perSecond).toLocaleString('en-US')}/s`, `busy ${percent(busy)}`]
  if (backpressured >= 0.005) figures.push(`backpressured ${percent(backpressured)}`)
  if (aligning >= 0.005) figures.push(`aligning ${percent(aligning)}`)
  if (task.waitingChannels > 0) {
    figures.push(`${task.waitingChannels} of ${count(task.channels, 'channel')} wait for a barrier`)
  }
  if (task.watermark !== null) figures.push(`watermark ${new Date(task.watermark).toISOString()}`)
  return `${parts.length > 0 ? `${parts.join(', ')} ` : ''}(${why}): ${figures.join(', ')}`
}

/** The end of a run that failed, without its stack: --json has that. Null: it is something else. */
function endWords(value: unknown, now: number): string | null {
  const { kind, error, at } = (value ?? {}) as Readonly<Record<string, unknown>>
  const words = typeof kind === 'string' && typeof at === 'number' ? errorWords(error) : null
  return words === null ? null : `${kind} ${relative(at as number, now)}: ${words}`
}

/** The history up to the floor, for a line of the table. */
async function historyBelow(engine: Reprise, head: Head): Promise<string> {
  if (head.floor === 0) return ''
  const [oldest] = await segmentsBelow(hostOf(engine).kernel, head)
  if (!oldest) return ` (trimmed up to ${head.floor})`
  const gone = oldest.from.seq > 0 ? `; trimmed up to ${oldest.from.seq}` : ''
  return ` (${oldest.from.seq + 1} to ${head.floor} in a colder place${gone})`
}

export default show
