// Creates a run in one commit, with its queue place if it has one; or finds the existing run if its input is the same.

import type { Codec } from '../../../core/codec/codec.ts'
import { equalBytes, timelineId } from '../../../core/coordinate.ts'
import { toMs } from '../../../core/duration.ts'
import { RepriseError } from '../../../core/errors.ts'
import { parentAttribute } from '../../../engine/branch/consumers.ts'
import type { Host } from '../../../engine/host/host.ts'
import type { OpenTimeline } from '../../../engine/writing/timeline.ts'
import type { AnyWorkflow, ChildOptions } from '../context.ts'
import { behaviour, type ParentLink } from '../history/entries.ts'
import type { RunState } from '../history/state.ts'
import { commandAttribute, queueOf } from '../names.ts'
import type { StartOptions } from '../options.ts'
import { ensureQueue, enterMessage } from '../queue/queue.ts'
import { newSeed } from '../run/randomness.ts'
import { foldOf } from '../workflow-fold.ts'
import type { WorkflowRun } from './run.ts'

export interface Start {
  readonly input: unknown
  readonly options: StartOptions & ChildOptions
  readonly parent: ParentLink | null
  /** This process executes the run, if it may begin at once. */
  readonly isHere: boolean
  /** The request that this start carries out: settled by the same commit. */
  readonly settles?: number
  /** Set when the run was created: how many runs its id has had, this one included. */
  life?: number
}

type Opened = OpenTimeline<RunState> | 'released' | null

/** Resolves with null if the run exists already, with 'released' if another process will claim it. */
export function createRun(engine: Host, definition: AnyWorkflow, id: string, start: Start): Promise<Opened> {
  const { worker } = engine
  const { queue } = definition.options
  // No await without a reason: every run begins here.
  if (worker.registered !== null && !queue) return makeRun(engine, definition, id, start)
  return readied(engine, queue).then(() => makeRun(engine, definition, id, start))
}

async function readied(engine: Host, queue: AnyWorkflow['options']['queue']): Promise<void> {
  await engine.worker.register()
  if (queue) await ensureQueue(engine, queue)
}

function makeRun(engine: Host, definition: AnyWorkflow, id: string, start: Start): Promise<Opened> {
  const { input, options, parent, isHere: mayBeHere } = start
  const { worker } = engine
  const timeline = timelineId(definition.prefix + id)
  const now = worker.now(timeline)
  const timeout = options.timeout ?? definition.options.timeout
  const queued = definition.options.queue
  const trace = engine.kernel.tracing?.started({ timeline, kind: 'workflow', name: definition.name })
  const common = {
    ...(trace !== undefined && { trace }),
    ...(input !== undefined && { input }),
    seed: newSeed(engine.kernel),
    behaviour,
    ...(typeof definition.options.durability === 'object' && { isBatched: true }),
    ...(parent && { parent }),
    ...(timeout !== undefined && { deadline: now + toMs(timeout, 'timeout') }),
    ...(queued && { queue: { name: queued.name, ...(options.queueKey !== undefined && { key: options.queueKey }) } }),
  }
  const delayMs = options.delay === undefined ? 0 : toMs(options.delay, 'delay')
  const isHere = mayBeHere && !queued && delayMs === 0
  const first = (identity: string, life: number) => {
    start.life = life
    const data = { ...common, identity, ...(life > 1 && { life }) }
    return [{ type: 'started', data, time: now }]
  }
  const opening = engine.create(timeline, foldOf(definition), first, {
    queue: queueOf(definition),
    wakeup: queued ? null : now + delayMs,
    status: isHere ? 'running' : queued ? 'queued' : 'waiting',
    attributes: {
      ...{ ...options.attributes, workflow: definition.name },
      ...(parent && { [parentAttribute]: parent.timeline, [commandAttribute]: parent.command }),
    },
    ...(options.priority !== undefined && { priority: options.priority }),
    ...(!isHere && { release: true }),
    ...(start.settles !== undefined && { settles: [start.settles] }),
    ...(queued && { send: [enterMessage(engine, queued, timeline, options.queueKey ?? '', options.priority ?? 0)] }),
  })
  if (isHere) return opening
  return opening.then((opened) => {
    if (opened === 'released') {
      engine.dispatcher.expect(now + delayMs, timeline)
      if (delayMs === 0) engine.dispatcher.wake()
    }
    return opened
  })
}

/** Resolves a start request for a run that exists already. */
export async function foundRun<Output>(
  codec: Codec,
  run: WorkflowRun<Output>,
  input: unknown,
  { ifExists }: StartOptions,
): Promise<WorkflowRun<Output>> {
  const there = `there is already a run ${run.definition.name}/${run.id}`
  if (ifExists === 'reject') throw new RepriseError('EXISTS', there, { run: run.id })
  if (ifExists === 'restart') await run.restart(input)
  else if (!(await isSameInput(codec, run, input))) {
    const how = 'choose another id, pass the same input, or get its handle with workflows(rp).of(definition).get(id)'
    throw new RepriseError('EXISTS', `${there}, with different input: ${how}`, { run: run.id })
  }
  return run
}

/** A run that another caller started reports its end to its own parent at most, so any other parent would wait forever. */
export async function refuseForeign(run: WorkflowRun, parent: ParentLink): Promise<void> {
  const { started } = await run.state()
  // A detached child does not report its end, not even to its own parent.
  if (!started || (started.parent?.timeline === parent.timeline && !started.parent.detached)) return
  const whose =
    started.parent && !started.parent.detached ? `a child of ${started.parent.timeline}` : 'a run of its own'
  const what = `the child ${run.definition.name}/${run.id} exists already, as ${whose}: choose another id`
  throw new RepriseError('EXISTS', what, { run: run.id, parent: started.parent?.timeline ?? null })
}

/** A request with the same input receives the existing run; a request with another input must not receive its result. */
async function isSameInput(codec: Codec, run: WorkflowRun, input: unknown): Promise<boolean> {
  // A request without input accepts the run as it is.
  if (input === undefined) return true
  const { started, input: last } = await run.state()
  const requested = codec.encode(input)
  // A restart, or the run itself, may have changed the input since.
  return [started?.input, last].some((each) => equalBytes(codec.encode(each), requested))
}
