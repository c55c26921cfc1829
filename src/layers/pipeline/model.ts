// What tools know of pipelines: where they lie, how their state reads, and what can be done to them.

import type { Head } from '../../core/ports.ts'
import type { Fold } from '../../engine/definition.ts'
import { hostOf } from '../../engine/host.ts'
import type { Actions, Model } from '../../engine/model.ts'
import { redriveKind, stopKind } from './run/mail.ts'
import { type PipelineState, pipelineFold } from './run/state.ts'

export const pipelinePrefix = 'pipeline/'

const actions: Actions = {
  resume: {
    instead:
      'run its definition again with rp.run(), or name the module that exports it: it goes on from its last checkpoint',
  },
  retry: { instead: 'redrive sends dead letters back; a run that failed is run again' },
  signal: { instead: 'only workflows wait for signals; cancel stops a pipeline with a savepoint' },
  rollback: {
    instead:
      'sinks would keep what they got after that place: run it with { from: CHECKPOINT } to read it again from there, or fork it',
  },
  async cancel({ engine, head }) {
    return await ask(head, 'to stop with a savepoint', () =>
      hostOf(engine).send(head.timeline, stopKind, { how: 'suspend' }),
    )
  },
  async terminate({ engine, head }) {
    return await ask(head, 'to stop at once', () => hostOf(engine).send(head.timeline, stopKind, { how: 'cancel' }))
  },
  async redrive({ engine, head }, { keys }) {
    const ids = keys?.map(Number)
    await hostOf(engine).send(head.timeline, redriveKind, ids ? { ids } : {})
    const when = head.owner && head.isOwnerAlive ? '' : ' when it is run again'
    return { said: `${ids ? ids.length : 'all'} dead letters will be tried again${when}`, facts: { ids: ids ?? null } }
  },
}

async function ask(head: Head, what: string, send: () => Promise<unknown>) {
  if (!head.owner || !head.isOwnerAlive) {
    return { said: `nobody is running ${head.timeline}: there is nothing to stop`, facts: { asked: [] } }
  }
  await send()
  return { said: `asked ${head.timeline} ${what}; run it again whenever you like`, facts: { asked: [head.timeline] } }
}

/** Pipelines as a kind: what can be known without their code. */
export const pipelineKind: Model = {
  kind: 'pipeline',
  name: null,
  scope: pipelinePrefix,
  fold: pipelineFold as Fold<unknown>,
  policy: 'fixed',
  unfinished: ['running', 'suspended'],
  summarize,
  actions,
  transfer: {
    stays: (state) =>
      (state as PipelineState).cursor === null ? null : 'it reads the feed of its own store, and stands in it',
    async stop({ engine, head }) {
      if (head.owner && head.isOwnerAlive) await hostOf(engine).send(head.timeline, stopKind, { how: 'suspend' })
    },
  },
}

export function pipelineModel(name: string): Model {
  return { ...pipelineKind, name, scope: pipelinePrefix + name }
}

function summarize(state: unknown) {
  const { stage, records, letters, checkpoint, sources, tables, recent } = state as PipelineState
  const keys = Object.values(tables).reduce((sum, { cells }) => sum + cells, 0)
  const last = recent.at(-1)
  return {
    stage,
    records,
    deadLetters: letters,
    checkpoint,
    keys,
    positions: Object.fromEntries(
      Object.entries(sources).map(([name, positions]) => [name, Object.fromEntries(positions)]),
    ),
    ...(last && {
      lastCheckpointMs: Math.round(last.ms),
      lastCheckpointBytes: last.bytes,
      longestStallMs: last.longestStallMs,
    }),
  }
}
