// A summary of one timeline: its head, its catalog, its relatives, and its state for people.

import type { Head } from '../core/store/ports.ts'
import type { Reprise } from '../engine/api/reprise.ts'
import { lineageOf } from '../engine/history/history.ts'
import { recover } from '../engine/history/recover.ts'
import { hostOf } from '../engine/host/host.ts'
import { forkMarkOf } from '../engine/model/fork-edit.ts'
import type { StatusLine } from '../engine/model/journal-row.ts'
import { insteadOf, type Refusals, verbsOf } from '../engine/model/model.ts'
import { lossesOf } from '../engine/storage/losses.ts'
import { consistencies } from '../engine/tools/drill/consistency.ts'
import { needsPerson, shownHead, statusOf } from './heads.ts'

const forksShown = 100
const mailLookedAt = 100

/** `brief`: without its state, and without the verbs that depend on it; its cost does not grow with its history. */
export async function describeTimeline(engine: Reprise, head: Head, { brief = false } = {}) {
  const { kernel, models } = hostOf(engine)
  const model = models.find(head.timeline)
  const status = statusOf(head, model)
  const { id: store, incarnation } = await kernel.identity.load(true)
  const { identity, generation } = kernel.identity.origin(head)
  const [catalog, lineage, forks, losses] = await Promise.all([
    engine.checkpoints(head.timeline),
    lineageOf(kernel, head),
    engine.list({ parent: head.timeline, limit: forksShown }),
    engine.losses(),
  ])
  return {
    catalog,
    shown: {
      kind: model?.kind ?? null,
      ...shownHead(engine, head),
      /** The base of external keys, revisions and positions; `branch` counts rollbacks. */
      identity: { store, incarnation, life: head.life, branch: generation, timeline: identity },
      checkpoints: catalog.length,
      lineage: lineage.slice(1).map((each) => each.timeline),
      forks: forks.map((each) => each.timeline),
      isRun: model?.unfinished !== undefined,
      isUnfinished: model?.unfinished?.includes(status) ?? false,
      needsPerson: needsPerson(head, status, model),
      /** Its losses by repairs that were not given up. */
      lost: lossesOf(losses, [head.timeline]).flatMap(({ id, at, lost }) => {
        return lost.flatMap((loss) => (loss.timeline === head.timeline ? [{ id, at, ...loss }] : []))
      }),
      verbs: brief ? [] : verbsOf(model),
      /** The kind of item that a fork may edit (a step, a row), and whether the input is editable; null: no edits. */
      edits:
        model?.edits && model.fold ? { names: model.edits.names, input: model.edits.inputSeq !== undefined } : null,
      /** The edits made by its fork. */
      edited: editedOf(head),
      /** True if its state can be read here, because its fold is known. */
      hasFold: models.foldOf(head.timeline) !== null,
      /** True if records flow through it, so that it has a graph. */
      hasFlow: model?.flows !== undefined,
      ...(await summarize()),
    },
  }

  /** The state beyond the head, as its model presents it, and the verbs it would refuse. */
  async function summarize(): Promise<{
    readonly summary: Readonly<Record<string, unknown>> | null
    readonly statusLine: StatusLine | null
    readonly refuses: Refusals
  }> {
    const refuses = insteadOf(model)
    if (brief || !model?.fold || (!model.summarize && !model.statusLine))
      return { summary: null, statusLine: null, refuses }
    const { state } = await recover(kernel, head, model.fold)
    return {
      summary: model.summarize?.(state.value, head) ?? null,
      statusLine: model.statusLine?.(state.value, head, await unreadOf(engine, head)) ?? null,
      refuses: { ...refuses, ...model.refuses?.(state.value, head) },
    }
  }
}

function editedOf(
  head: Head,
): { readonly names: readonly string[]; readonly count: number; readonly by: string } | null {
  const mark = forkMarkOf(head)
  return mark && mark.count > 0 ? { names: mark.edited, count: mark.count, by: mark.by ?? 'somebody' } : null
}

/** The status line; null: its model has none, or it requires the user's code. */
export async function statusLineAt(engine: Reprise, head: Head): Promise<StatusLine | null> {
  const { kernel, models } = hostOf(engine)
  const model = models.find(head.timeline)
  if (!model?.fold || !model.statusLine) return null
  const unread = await unreadOf(engine, head)
  return model.statusLine((await recover(kernel, head, model.fold)).state.value, head, unread)
}

/** The kinds of its unread mail, oldest first. */
async function unreadOf(engine: Reprise, { timeline, mail }: Head): Promise<readonly string[]> {
  if (mail === 0) return []
  return (await hostOf(engine).inbox(timeline, mailLookedAt)).messages.map(({ kind }) => kind)
}

/** The catalog for people and programs, without the encoded manifests. */
export async function shownCheckpoints(engine: Reprise, timeline: string) {
  const catalog = await engine.checkpoints(timeline)
  const { kernel } = hostOf(engine)
  const levels = await consistencies(kernel, timeline, catalog)
  return catalog.map(({ body: _, bodyDigest: __, digest, ...rest }) => {
    return { ...rest, digest: Buffer.from(digest).toString('hex'), consistency: levels.get(rest.id)! }
  })
}
