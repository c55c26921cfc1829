// The models of jobs and consumers, for tools: where their timelines are, how their state reads, and which actions
// exist.

import { RepriseError } from '../../core/errors.ts'
import { idBelow, liveIdOf } from '../../core/history/scope.ts'
import type { Head } from '../../core/store/ports.ts'
import { hostOf } from '../../engine/host/host.ts'
import type { Engine, Fold } from '../../engine/model/definition.ts'
import type { Actions, HeadAgain, Model, Refusals, Surroundings, Target } from '../../engine/model/model.ts'
import { entryRow, statusLine } from './journal-rows.ts'
import { discardLetters, readLetters, redriveLetters, stopJob } from './letters.ts'
import { type JobState, jobFold, summary as summaryOf } from './state.ts'

export const jobPrefix = 'job/'

const actions: Actions = {
  resume: { instead: 'run its definition again, or name the module that exports it: it resumes where it stopped' },
  signal: { instead: 'only workflows wait for signals; stop stops a job' },
  terminate: { instead: 'stop finishes the items in flight and stops; kill -9 is safe too' },
  retry,
  stop,
  cancel: stop,
  async redrive({ engine, head, key: once }, { keys, items = {} }) {
    const sent: string[] = []
    for (const timeline of await familyOf(engine, head)) {
      const held = new Set((await readLetters(engine, timeline)).map((letter) => letter.key))
      const here = keys ? keys.filter((key) => held.has(key)) : [...held]
      if (here.length === 0) continue
      const edits = Object.fromEntries(here.flatMap((key) => (Object.hasOwn(items, key) ? [[key, items[key]]] : [])))
      await redriveLetters(engine, timeline, here, edits, once)
      sent.push(...here)
    }
    const missing = (keys ?? []).filter((key) => !sent.includes(key))
    if (missing.length > 0 && sent.length === 0) {
      throw new RepriseError('NOT_FOUND', `no dead letter ${missing.join(', ')} in ${nameOf(head)}`, { missing })
    }
    return { text: `${sent.length} will be retried`, facts: { redriven: sent, missing } }
  },
}

/** Items in flight finish; the rest waits until a person resumes it. */
async function stop({ engine: rp, head, key }: Target, { reason }: { readonly reason: string }) {
  const engine = hostOf(rp)
  const heads = await Promise.all((await familyOf(engine, head)).map((id) => engine.head(id)))
  const live = heads.filter((each) => each !== null)
  if (live.length > 0 && live.every(({ status }) => status === 'completed')) {
    throw new RepriseError('ENDED', `${nameOf(head)} had already ended: ${head.status}`, {
      timeline: head.timeline,
      status: head.status,
    })
  }
  const working = live.filter(isWorkedOn)
  for (const each of working) await stopJob(engine, each.timeline, reason, key)
  const due = live.filter((each) => !isWorkedOn(each) && each.wakeup !== null)
  for (const each of due) await engine.change(each, { status: 'stopped', wakeup: null })
  const name = nameOf(head)
  const text =
    working.length > 0
      ? `${name} will stop; resume it at any time`
      : due.length > 0
        ? `no process runs ${name}: it stays stopped until it is resumed`
        : `no process runs ${name}: there is nothing to stop`
  return { text, facts: { asked: working.map((each) => each.timeline) } }
}

/** A job that stopped or failed is due at once; finished items are not repeated. */
async function retry({ engine: rp, head }: Target) {
  const engine = hostOf(rp)
  const heads = await Promise.all((await familyOf(engine, head)).map((id) => engine.head(id)))
  const left = heads.filter((each) => each !== null && each.status !== 'completed' && !isWorkedOn(each)) as Head[]
  const name = nameOf(head)
  if (left.length === 0) {
    const what = `${name} neither stopped nor failed (${head.status}): redrive retries its dead letters`
    throw new RepriseError('INVALID_ARGUMENT', what, { timeline: head.timeline, status: head.status })
  }
  for (const each of left) await engine.change(each, { wakeup: engine.now(each.timeline) })
  engine.dispatcher.wake()
  return {
    text: `${name} is due: a worker that has it resumes it (reprise work FILE)`,
    facts: { timeline: head.timeline, due: left.map((each) => each.timeline) },
  }
}

function isWorkedOn({ owner, isOwnerAlive }: Head): boolean {
  return owner !== null && isOwnerAlive
}

/** The model of jobs without their code. */
export const jobKind: Model = {
  kind: 'job',
  name: null,
  scope: jobPrefix,
  fold: jobFold() as Fold<unknown>,
  policy: 'declared',
  unfinished: ['running', 'stopped', 'failed'],
  summarize,
  headOf,
  statusLine,
  refuses,
  entryRow,
  family: familyOf,
  actions,
  letters: {
    read: ({ engine, head }) => readLetters(engine, head.timeline),
    discard: ({ engine, head, key }, keys) => discardLetters(engine, head.timeline, keys, key),
  },
  transfer: {
    stop: ({ engine, head }) => stopJob(engine, head.timeline, 'it is moved'),
    // Requests are for the original.
    copiesMail: () => false,
  },
}

/**
 * The policy is always stored: jobs and consumers share their ids, and a tool must not prune by a policy that was not
 * declared.
 */
export function jobModel(kind: 'job' | 'consumer', name: string, fold: Fold<JobState>): Model {
  const model: Model = { ...jobKind, kind, name, scope: jobPrefix + name, fold: fold as Fold<unknown> }
  return kind === 'job' ? model : { ...model, transfer: { stays: 'a consumer reads only the feed of its own store' } }
}

/**
 * These actions apply to all shards, so a shard without matching items does not refuse them: another shard may have
 * some.
 */
function refuses(state: unknown, head: Head): Refusals {
  const { timeline, status } = head
  if (idBelow(jobPrefix + nameOf({ timeline }), timeline)) return {}
  return {
    ...(status === 'completed' && {
      stop: `it had already ended: ${status}`,
      cancel: `it had already ended: ${status}`,
      retry: 'only a job that stopped or failed is resumed; redrive retries dead letters',
    }),
    ...(isWorkedOn(head) && { retry: 'a process runs it' }),
    ...((state as JobState).dead.size === 0 && { redrive: 'no dead letters' }),
  }
}

function summarize(state: unknown) {
  const { done, round, dead, waiting, cursor } = state as JobState
  return { finished: done, round, deadLetters: dead.size, waitingForRetry: waiting.size, cursor }
}

/** The head as the fold shows it; an unfinished job is due, so that a worker claims it. */
function headOf(state: unknown, head: Head, { worker }: Surroundings): HeadAgain {
  const { status, attributes } = summaryOf(state as JobState)
  const wakeup = status === 'stopped' ? worker.now(head.timeline) : null
  return { status, attributes: { ...attributes, job: nameOf(head) }, queue: jobPrefix + nameOf(head), wakeup }
}

/** All timelines of the job: one, or one per shard. */
async function familyOf(rp: Engine, head: Head): Promise<string[]> {
  const engine = hostOf(rp)
  const scope = jobPrefix + nameOf(head)
  const shards = (await engine.list({ prefix: `${scope}/`, limit: 1000 })).map((each) => each.timeline as string)
  const own = shards.filter((id) => liveIdOf(id) === id && /^\d+$/.test(idBelow(scope, id) ?? ''))
  const whole = await engine.head(scope)
  return whole ? [whole.timeline, ...own] : own.length > 0 ? own : [head.timeline]
}

function nameOf(head: Pick<Head, 'timeline'>): string {
  return liveIdOf(head.timeline).split('/')[1] ?? head.timeline
}
