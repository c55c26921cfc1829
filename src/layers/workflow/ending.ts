// How a run ends: with a result, or by undoing what it did and saying why; or it starts over. The last entry, the release
// and the news to its parent and its queue go in one commit.

import { isReprise } from '../../core/errors.ts'
import type { OutgoingMessage } from '../../core/ports.ts'
import { failsUnseen } from './entries.ts'
import { cancelledError, toFailure } from './failure.ts'
import type { Instance, Outcome } from './instance.ts'
import { itemsOf } from './journal.ts'
import { queueMessages } from './queue.ts'
import { endRides } from './transaction.ts'

/** Thrown by ctx.continueAsNew; not meant to be caught. */
export class ContinueAsNew extends Error {
  override readonly name: string = 'ContinueAsNew'
  readonly input: unknown

  constructor(input: unknown) {
    super('the run starts over with new input')
    this.input = input
  }
}

/** Neither failed nor cancelled: the code returned, or wants to start over. */
export function endsWell(outcome: Outcome): boolean {
  return 'value' in outcome || outcome.error instanceof ContinueAsNew
}

/** Called whenever nothing else is going on and the code has ended, or the run is being rolled back. */
export function concludeRun(run: Instance): void {
  if (run.isConcluding) return
  if (run.outcome && endsWell(run.outcome) && !run.cancelled && (run.state.started?.behaviour ?? 0) >= failsUnseen) {
    run.outcome = run.execution.lostFailure ?? run.outcome
  }
  const { outcome } = run
  if (run.state.rolling) rollBack(run)
  else if (!outcome) return
  else if ('value' in outcome) conclude(run, () => unlessCancelled(run, outcome, () => complete(run, outcome.value)))
  else if (outcome.error instanceof ContinueAsNew) {
    const { input } = outcome.error
    conclude(run, () =>
      unlessCancelled(run, outcome, async () => {
        const took = [...run.signals.taken(), ...run.queries.taken()]
        await run.write([{ type: 'continued', data: { input, took } }])
        run.checkpointIfDue()
      }),
    )
  } else if (!isWaitedFor(run) && run.saga.advance()) conclude(run, () => fail(run, outcome.error))
}

/** Something is in flight that may have to be undone. Children are told first: they would take their time otherwise. */
function isWaitedFor(run: Instance): boolean {
  for (const command of [...run.execution.open]) {
    if (command.kind !== 'child' || !command.hasUndo || command.isAbandoned) continue
    command.isAbandoned = true
    command.onAbandon()
  }
  return run.execution.isUndoable
}

function rollBack(run: Instance): void {
  const { rolling, journal } = run.state
  const { ends } = rolling!
  if (ends !== undefined) {
    if (run.saga.advance()) conclude(run, () => endUndone(run, ends))
    return
  }
  const items = itemsOf(journal)
  const from = items.findIndex((item) => 'id' in item && item.id === rolling!.to)
  const undo = new Set(items.slice(from === -1 ? items.length : from).map((item) => ('id' in item ? item.id : '')))
  if (!run.saga.advance((id) => undo.has(id))) return
  const { to, input, hasInput, seq } = rolling!
  const data = { to, ...(hasInput && { input }), ...(seq !== undefined && { seq }) }
  conclude(run, async () => {
    await run.write([{ type: 'rolled', data }], { status: 'running' })
  })
}

function conclude(run: Instance, work: () => Promise<void>): void {
  run.isConcluding = true
  run.spawn(work)
}

/** The end is a fact as well: what was durable before it comes first, a cancellation or a rollback above all. */
async function unlessCancelled(run: Instance, outcome: Outcome, end: () => Promise<void>): Promise<void> {
  const { execution, mail } = run
  if (await run.host.hasMail(run.open.id)) await mail.read()
  // From here on none is taken: a cancellation between the look and the end would be in history, and change nothing.
  run.isEnding = true
  await mail.idle()
  if (run.isLeaving || run.execution !== execution || run.state.rolling) return
  if (run.outcome === outcome) await end()
  run.isEnding = false
  if (run.outcome !== outcome) run.isConcluding = false
}

async function endUndone(run: Instance, reason: string): Promise<void> {
  const error = toFailure(cancelledError(reason))
  await end(run, { type: 'ended-badly', data: { error, cancelled: true, undone: true } }, 'cancelled', { error })
}

async function complete(run: Instance, result: unknown): Promise<void> {
  try {
    await end(run, { type: 'completed', data: result === undefined ? {} : { result } }, 'completed', { result })
  } catch (error) {
    if (!isReprise(error, 'UNSERIALIZABLE', 'LIMIT_EXCEEDED')) throw error
    run.outcome = { error }
    run.isConcluding = false
  }
}

async function fail(run: Instance, reason: unknown): Promise<void> {
  const error = toFailure(reason)
  const isCancelled = run.cancelled !== null && isReprise(reason, 'CANCELLED')
  for (const command of [...run.execution.open]) if (command.kind === 'child') command.onAbandon()
  const status = isCancelled ? 'cancelled' : 'failed'
  await end(run, { type: 'ended-badly', data: { error, cancelled: isCancelled } }, status, { error })
}

async function end(
  run: Instance,
  entry: { readonly type: string; readonly data: unknown },
  status: string,
  news: { readonly result?: unknown; readonly error?: unknown },
): Promise<void> {
  const send: OutgoingMessage[] = [...queueMessages(run)]
  const parent = run.state.started?.parent
  if (parent && !parent.detached) {
    const id = `child:${run.open.id}:${run.state.generation}`
    send.push(run.host.engine.message(parent.timeline, 'child', { command: parent.command, ...news }, id))
  }
  await run.write([entry], {
    release: true,
    wakeup: null,
    queue: null,
    status,
    ...(send.length > 0 && { send }),
    ...endRides(run),
  })
  run.letGoOf()
  run.leave({ because: 'ended' })
  if (parent) run.host.poke(parent.timeline)
}
