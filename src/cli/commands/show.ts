// reprise show: where one timeline stands.

import { isWithin } from '../../core/scope.ts'
import { lineageOf } from '../../engine/history.ts'
import { recover } from '../../engine/recover.ts'
import { type Command, text } from '../command.ts'
import { exit } from '../exit.ts'
import { findTimeline } from '../find.ts'
import { bytes, relative, when } from '../format.ts'
import { foldFor } from '../models.ts'
import { toJson } from '../output.ts'
import { shownHead } from './ls.ts'

const show: Command = async ({ engine, args, options, output }) => {
  const head = await findTimeline(engine, args[0]!)
  const [catalog, lineage, forks] = await Promise.all([
    engine.checkpoints(head.timeline),
    lineageOf(engine.kernel, head),
    engine.list({ parent: head.timeline, limit: 100 }),
  ])
  const summary = await summarize()
  const now = engine.kernel.worker.now()
  const newest = catalog[0]
  output.result(
    {
      ...shownHead(head),
      checkpoints: catalog.length,
      lineage: lineage.slice(1).map((each) => each.timeline),
      forks: forks.map((each) => each.timeline),
      summary,
    },
    () => {
      const { bold } = output.colours
      output.line(bold(head.timeline))
      output.facts([
        ['status', head.status || '-'],
        ['coordinate', `${head.timeline}@${head.seq}, epoch ${head.epoch}`],
        ['digest', Buffer.from(head.digest).toString('hex')],
        ['owner', head.owner ? `${head.owner}${head.isOwnerAlive ? '' : ' (gone)'}` : 'nobody'],
        ['history', `${head.floor + 1} to ${head.seq}${head.floor > 0 ? ` (trimmed up to ${head.floor})` : ''}`],
        [
          'checkpoints',
          newest
            ? `${catalog.length}, the newest at ${newest.seq} (${bytes(newest.totalBytes)}, ${relative(newest.createdAt, now)})`
            : 'none',
        ],
        ...(head.base ? [['fork of', `${head.base.timeline}@${head.base.seq}`] as const] : []),
        ...(forks.length > 0 ? [['forks', forks.map((each) => each.timeline).join(', ')] as const] : []),
        ['queue', head.queue ?? '-'],
        ['wakeup', head.wakeup === null ? '-' : relative(head.wakeup, now)],
        ['mail', String(head.mail)],
        ['created', `${when(head.createdAt)} (${relative(head.createdAt, now)})`],
        ['changed', `${when(head.updatedAt)} (${relative(head.updatedAt, now)})`],
        ...Object.entries(head.attributes).map(([key, value]) => [key, String(value)] as const),
        ...Object.entries(summary ?? {}).map(([key, value]) => [key, toJson(value)] as const),
      ])
    },
  )
  return exit.ok

  /** For jobs: what the state says beyond the head. */
  async function summarize(): Promise<Record<string, unknown> | null> {
    if (!isWithin('job/', head.timeline)) return null
    const { fold } = await foldFor(head.timeline, text(options, 'module'))
    const { state } = await recover(engine.kernel, head, fold)
    const job = state.value as {
      done: number
      round: number
      dead: { size: number }
      waiting: { size: number }
      cursor: unknown
    }
    return {
      finished: job.done,
      round: job.round,
      deadLetters: job.dead.size,
      waitingForRetry: job.waiting.size,
      cursor: job.cursor,
    }
  }
}

export default show
