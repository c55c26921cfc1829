// The model of pipelines, for tools: the ids of their timelines, how their state is shown, and the verbs that work on them.

import type { CheckpointPolicy } from '../../core/checkpoint/checkpoint-policy.ts'
import { RepriseError } from '../../core/errors.ts'
import type { Head } from '../../core/store/ports.ts'
import { hostOf } from '../../engine/host/host.ts'
import type { Fold } from '../../engine/model/definition.ts'
import type { Entry } from '../../engine/model/entry.ts'
import { type JournalRow, journalRow } from '../../engine/model/journal-row.ts'
import type { Actions, Model, Refusals, Target, Verb } from '../../engine/model/model.ts'
import { withoutFailure } from '../../engine/storage/failure-notes.ts'
import { StateTimeline } from '../../engine/writing/state-timeline.ts'
import { flowOf } from './run/flow-view.ts'
import { readPipelineLetters } from './run/inspect.ts'
import { lettersStay } from './run/letters.ts'
import { discardKind, redriveKind, type StopWish, stopKind } from './run/mail.ts'
import { readWhole } from './run/restore.ts'
import { type PipelineState, pipelineFold, sharedAttribute, statusOfStage, usualCheckpoint } from './run/state.ts'

export const pipelinePrefix = 'pipeline/'

const actions: Actions = {
  resume: {
    instead:
      'run its definition again with rp.run(), or name the module that exports it: it resumes from its last checkpoint',
  },
  retry: { instead: 'redrive sends dead letters back; a run that failed is run again' },
  signal: { instead: 'only workflows wait for signals; stop stops a pipeline with a savepoint' },
  rollback: {
    instead: 'sinks would keep later records: run it with { from: CHECKPOINT } to read again from there, or fork it',
    isForGood: true,
  },
  async stop(target) {
    return await stop(target, 'suspend', 'to stop with a savepoint')
  },
  cancel,
  /** A pipeline undoes nothing: records after its last checkpoint were never visible. */
  terminate: cancel,
  async redrive(target, { keys }) {
    const { engine, head } = target
    const held = (await readPipelineLetters(hostOf(engine), head)).map(({ id }) => String(id))
    const redriven = keys ? keys.filter((key) => held.includes(key)) : held
    const missing = (keys ?? []).filter((key) => !held.includes(key))
    if (missing.length > 0 && redriven.length === 0) {
      throw new RepriseError('NOT_FOUND', `no dead letter ${missing.join(', ')} in ${head.timeline}`, { missing })
    }
    checkNotDone(head)
    await ask(target, redriveKind, { ids: redriven.map(Number) })
    const when = head.owner && head.isOwnerAlive ? '' : ' when it is run again'
    return { text: `${redriven.length} will be retried${when}`, facts: { redriven, missing } }
  },
}

/** Refuses mail to a pipeline that has ended: no process would read it. */
function checkNotDone({ timeline, status }: Head): void {
  if (status === 'completed') throw new RepriseError('CONFLICT', lettersStay(timeline), { timeline })
}

/** Sends mail, which the owner of the run reads now or when it runs again. */
async function ask({ engine, head, key }: Target, kind: string, data: unknown): Promise<void> {
  await hostOf(engine).send(head.timeline, kind, data, key === undefined ? {} : { id: key })
}

/** The reason why the run can be neither stopped nor cancelled now, with the error code; null: it can. */
function unstoppable({ timeline, status }: Head): { readonly code: 'ENDED' | 'CONFLICT'; readonly why: string } | null {
  if (status === 'completed') return { code: 'ENDED', why: `${timeline} had already ended: ${status}` }
  if (status !== 'shared') return null
  const why = `processes share ${timeline}, and take its tasks again: stop them, and each task stops with a savepoint`
  return { code: 'CONFLICT', why }
}

const endingVerbs: readonly Verb[] = ['stop', 'cancel', 'terminate']

async function refuse({ head }: Target, verb: Verb): Promise<void> {
  const { timeline, status } = head
  const refusal = endingVerbs.includes(verb) ? unstoppable(head) : null
  if (refusal) throw new RepriseError(refusal.code, refusal.why, { timeline, status })
}

async function stop(target: Target, how: 'suspend' | 'cancel', what: string) {
  const { timeline, owner, isOwnerAlive } = target.head
  await refuse(target, 'stop')
  if (!owner || !isOwnerAlive) {
    return { text: `no process runs ${timeline}: there is nothing to stop`, facts: { asked: [] } }
  }
  await ask(target, stopKind, { how, epoch: target.head.epoch } satisfies StopWish)
  return { text: `requested ${timeline} ${what}; run it again at any time`, facts: { asked: [timeline] } }
}

/**
 * Cancels at once, like `run.cancel()`. A run without an owner is only marked as cancelled: it may have crashed or been
 * stopped.
 */
async function cancel(target: Target) {
  const { timeline, owner, isOwnerAlive } = target.head
  if (owner && isOwnerAlive) return await stop(target, 'cancel', 'to end at once')
  await refuse(target, 'cancel')
  const taken = await StateTimeline.take(hostOf(target.engine).kernel, timeline)
  await taken.release({ status: 'cancelled', attributes: withoutFailure })
  const text = `no process was running ${timeline}: it is cancelled; run it again at any time`
  return { text, facts: { asked: [] } }
}

/** The model of all pipelines, which needs no code of a definition. */
export const pipelineKind: Model = {
  kind: 'pipeline',
  name: null,
  scope: pipelinePrefix,
  fold: pipelineFold as Fold<unknown>,
  policy: 'declared',
  usual: { retain: pipelineFold.retain!, checkpoint: usualCheckpoint },
  unfinished: ['running', 'stopped', 'failed'],
  summarize,
  headOf: (state, { attributes }) => {
    if (attributes[sharedAttribute] === true) return { status: 'shared' }
    const { stage, records, letters } = state as PipelineState
    return { status: statusOfStage[stage], attributes: { records, dead: letters } }
  },
  readCheckpoint: readWhole,
  statusLine,
  refuses,
  refuse,
  beginsUnwritten: true,
  redoes: 'input is read again',
  entryRow,
  flows: ({ engine, head }) => flowOf(hostOf(engine), head),
  actions,
  letters: {
    async read({ engine, head }) {
      return (await readPipelineLetters(hostOf(engine), head)).map(({ id, operator, value, error, at }) => {
        const [name = 'Error', ...rest] = error.split(': ')
        const message = `in ${operator}: ${rest.join(': ')}`
        return { key: String(id), item: value, attempts: 1, at, error: { name, message } }
      })
    },
    final: (head) => (head.status === 'completed' ? lettersStay(head.timeline) : null),
    async discard(target, keys) {
      checkNotDone(target.head)
      await ask(target, discardKind, { ids: keys.map(Number) })
    },
  },
  transfer: {
    stays: (state) => ((state as PipelineState).cursor === null ? null : 'it reads the feed of its own store'),
    stop: async (target) => void (await stop(target, 'suspend', 'to stop with a savepoint')),
  },
}

/** The model of one pipeline, with the checkpoint policy of the run, which is stored with the timeline. */
export function pipelineModel(name: string, checkpoint: CheckpointPolicy = usualCheckpoint): Model {
  const fold = { ...pipelineFold, checkpoint } as Fold<unknown>
  return { ...pipelineKind, name, scope: pipelinePrefix + name, fold }
}

function refuses(state: unknown, head: Head): Refusals {
  const why = unstoppable(head)?.why
  const ending = why === undefined ? {} : Object.fromEntries(endingVerbs.map((verb) => [verb, why]))
  if (head.status === 'completed') return { ...ending, redrive: lettersStay(head.timeline) }
  return (state as PipelineState).letters === 0 ? { ...ending, redrive: 'no dead letters' } : ending
}

/** Describes an entry for people. History has one entry per checkpoint. */
function entryRow({ type, data, seq }: Entry): JournalRow | null {
  if (type !== 'checkpoint') return null
  const { checkpoint, kind, stage, records } = data as {
    readonly checkpoint: number
    readonly kind: string
    readonly stage: PipelineState['stage']
    readonly records: number
  }
  const note = `${kind}, ${records.toLocaleString('en')} records read`
  const title = `checkpoint ${checkpoint}`
  if (stage === 'running') return journalRow(`~${seq}`, 'note', 'is', { title, note })
  return journalRow(`~${seq}`, 'end', 'is', { title: `${title}: ${statusOfStage[stage]}`, note, letsGo: true })
}

/** The status is in the head: a cancelled or failed run writes no checkpoint that would contain it. */
function summarize(state: unknown, { status }: Head) {
  const { stage, checkpoint, sources, tables, recent } = state as PipelineState
  const keys = Object.values(tables).reduce((sum, { cells }) => sum + cells, 0)
  const last = recent.at(-1)
  return {
    stage: status || statusOfStage[stage],
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

function statusLine(state: unknown) {
  const { checkpoint, records, recent, letters } = state as PipelineState
  const last = recent.at(-1)
  const parts = [`checkpoint ${checkpoint}`]
  if (last) parts.push(`took ${Math.round(last.ms)} ms`)
  parts.push(`${records.toLocaleString('en')} records`)
  if (letters > 0) parts.push(`${letters.toLocaleString('en')} ${letters === 1 ? 'dead letter' : 'dead letters'}`)
  return { text: parts.join(', ') }
}
