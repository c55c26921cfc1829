// Model and tool calls as effects: the intent is durable before the call, and the outcome after it, in one commit with
// its effect on the session. A recorded call is never made again. A call whose outcome a crash left unknown is resolved
// by its tool's declaration. A call that is similar to one that was not undone is settled by policy, never silently.

import { toHex } from '../../core/coordinate.ts'
import { isReprise, RepriseError } from '../../core/errors.ts'
import { getEffect, type Reversal } from '../../core/history/effects.ts'
import { ownerOf } from '../../core/history/inheritance.ts'
import { intentKey } from '../../core/identity.ts'
import { refuseThenable } from '../../core/synchronous.ts'
import { logPlace } from '../../engine/base/log.ts'
import type { Host } from '../../engine/host/host.ts'
import type { Kernel } from '../../engine/storage/kernel.ts'
import type { NewEntry, OpenTimeline } from '../../engine/writing/timeline.ts'
import { sleep } from '../../lib/waiting.ts'
import { CallWatch } from './call-watch.ts'
import { waits } from './due.ts'
import type { SimilarCalls } from './message.ts'
import type { CallGuard, CallGuards } from './policy.ts'
import { type AwaitedDecision, type CallRecord, entry, type SessionState, type StandingCall } from './state.ts'
import { type AnyTool, checkArgs, retriesInDoubt, type Tools, toolPlace } from './tool.ts'

/** The parts of a session that calls use. */
export interface CallHost {
  readonly engine: Host
  readonly open: OpenTimeline<SessionState<unknown>>
  readonly tools: Tools
  readonly guards: CallGuards
  /** The names of the tools that may be called now. Default: all. */
  readonly allowed: readonly string[] | undefined
  readonly similarCalls: SimilarCalls
  /** Forks the session and returns the fork's id. */
  fork(): Promise<string>
}

export type CallOutcome =
  | { readonly kind: 'result'; readonly result: unknown; readonly wasRecorded: boolean }
  | { readonly kind: 'failed'; readonly error: string; readonly wasRecorded: boolean }
  | { readonly kind: 'waiting'; readonly waiting: AwaitedDecision }

export function digestOf(kernel: Pick<Kernel, 'codec' | 'hash'>, tool: string, args: unknown): string {
  return toHex(kernel.hash(kernel.codec.encode([tool, args]))).slice(0, 32)
}

export async function callTool(
  host: CallHost,
  id: string,
  turn: number,
  name: string,
  args: unknown,
  signal: AbortSignal | undefined,
): Promise<CallOutcome> {
  const { open, engine } = host
  const digest = digestOf(engine, name, args)
  const record = open.state.calls.get(id)
  const isSame = record === undefined || record.digest === digest || record.state === 'approved'
  if (record && !isSame) return await settleSimilar(host, record, { id: `${id}+`, turn, name, args, digest }, signal)
  if (record && (record.state === 'done' || record.state === 'failed')) return recorded(record)
  if (record?.state === 'waiting') return { kind: 'waiting', waiting: open.state.waiting! }
  const wanted = { id, turn, name, args: record?.args ?? args, digest }
  const tool = Object.hasOwn(host.tools, name) ? host.tools[name] : undefined
  if (!tool) return await refuse(host, wanted, `there is no tool ${name}`)
  // A call that was begun before the settings changed is still completed.
  if (!record && !isAllowed(host, name)) return await refuse(host, wanted, `${name} is not allowed now`)
  // The arguments were checked before the intent was recorded.
  if (record?.retryAt !== undefined) return await intendAndRun(host, wanted, tool, signal)
  if (record?.state === 'intended') return await resolveDoubt(host, wanted, tool, signal)
  const checked = await checkArgs(tool, wanted.args)
  if (!checked.isValid) return await refuse(host, wanted, `the arguments of ${name} are not valid: ${checked.why}`)
  if (!record) {
    const standing = findStanding(open.state, name, digest)
    if (standing?.digest === digest) return await replayStanding(host, wanted, tool, standing)
    if (standing && host.similarCalls !== 'new') return await conflict(host, wanted, tool, standing)
    const needsApproval = typeof tool.approve === 'function' ? tool.approve(checked.value) : tool.approve === true
    refuseThenable(needsApproval, `approve of the tool ${name}`, 'decide from the arguments alone')
    if (needsApproval) return await wait(host, wanted, tool, { kind: 'approval', reason: `${name} needs an approval` })
  }
  return await intendAndRun(host, { ...wanted, args: checked.value }, tool, signal)
}

interface Wanted {
  readonly id: string
  readonly turn: number
  readonly name: string
  readonly args: unknown
  readonly digest: string
}

function isAllowed(host: CallHost, name: string): boolean {
  return host.allowed === undefined || host.allowed.includes(name)
}

function recorded(record: CallRecord): CallOutcome {
  return record.state === 'failed'
    ? { kind: 'failed', error: record.error ?? 'failed', wasRecorded: true }
    : { kind: 'result', result: record.result, wasRecorded: true }
}

/** History has a different call at this position: the policy decides. */
async function settleSimilar(
  host: CallHost,
  record: CallRecord,
  wanted: Wanted,
  signal: AbortSignal | undefined,
): Promise<CallOutcome> {
  const again = host.open.state.calls.get(wanted.id)
  const tool = Object.hasOwn(host.tools, wanted.name) ? host.tools[wanted.name] : undefined
  if (again) return await callTool(host, wanted.id, wanted.turn, wanted.name, wanted.args, signal)
  if (!tool) return await refuse(host, wanted, `there is no tool ${wanted.name}`)
  if (!isAllowed(host, wanted.name)) return await refuse(host, wanted, `${wanted.name} is not allowed now`)
  if (tool.kind === 'read-only' || record.kind === 'read-only' || host.similarCalls === 'new') {
    const checked = await checkArgs(tool, wanted.args)
    if (!checked.isValid)
      return await refuse(host, wanted, `the arguments of ${wanted.name} are not valid: ${checked.why}`)
    return await intendAndRun(host, { ...wanted, args: checked.value }, tool, signal)
  }
  const { tool: name, digest, args, result } = record
  const key = getEffect(host.open.ledger, record.id)?.key ?? ''
  return await conflict(host, wanted, tool, { tool: name, digest, args, result, key })
}

function findStanding(state: SessionState<unknown>, tool: string, digest: string): StandingCall | undefined {
  return state.standing.find((one) => one.digest === digest) ?? state.standing.find((one) => one.tool === tool)
}

async function replayStanding(
  host: CallHost,
  wanted: Wanted,
  tool: AnyTool,
  standing: StandingCall,
): Promise<CallOutcome> {
  await host.open.write([
    entry('called', { ...callOf(wanted, tool), state: 'intended' }),
    entry('returned', { id: wanted.id, result: standing.result, by: 'replay' }),
  ])
  return { kind: 'result', result: standing.result, wasRecorded: true }
}

async function conflict(host: CallHost, wanted: Wanted, tool: AnyTool, standing: StandingCall): Promise<CallOutcome> {
  const reason = `${wanted.name} was already called with other arguments; the first call is kept`
  if (host.similarCalls !== 'fork') return await wait(host, wanted, tool, { kind: 'conflict', reason, standing })
  const fork = await host.fork()
  return await wait(host, wanted, tool, { kind: 'conflict', reason: `${reason}; forked as ${fork}`, standing })
}

async function wait(host: CallHost, wanted: Wanted, tool: AnyTool, why: AwaitedDecision): Promise<CallOutcome> {
  const waiting: AwaitedDecision = { ...why, call: wanted.id, tool: wanted.name, args: wanted.args }
  await host.open.write(
    [entry('called', { ...callOf(wanted, tool), state: 'waiting' }), entry('interrupted', waiting)],
    waits,
  )
  return { kind: 'waiting', waiting }
}

/** Records the call as failed without making it. A call in doubt is recorded as failed, too. */
async function refuse(host: CallHost, wanted: Wanted, error: string): Promise<CallOutcome> {
  const call = { ...callOf(wanted, { kind: 'read-only', run: () => null }), state: 'intended' as const }
  const { id } = wanted
  await host.open.write([entry('called', call), ...failedMark(host, id, error), entry('failed', { id, error })])
  return { kind: 'failed', error, wasRecorded: false }
}

async function resolveDoubt(
  host: CallHost,
  wanted: Wanted,
  tool: AnyTool,
  signal: AbortSignal | undefined,
): Promise<CallOutcome> {
  const known = getEffect(host.open.ledger, wanted.id)
  const isOfOriginal = known !== undefined && ownerOf(host.open.inherited, known.intendedSeq) !== null
  if (isOfOriginal || (!tool.probe && retriesInDoubt(tool))) return await intendAndRun(host, wanted, tool, signal)
  return (await settleUnknown(host, wanted, tool)) ?? (await intendAndRun(host, wanted, tool, signal))
}

/** Queries the outside, or waits for a person, about the outcome of a call. Null: the call did not happen. */
async function settleUnknown(host: CallHost, wanted: Wanted, tool: AnyTool): Promise<CallOutcome | null> {
  const { key } = getEffect(host.open.ledger, wanted.id)!
  if (tool.probe) {
    const trace = showCall(host, `probe of tool ${wanted.name}`, null)
    const probed = await Promise.resolve(tool.probe(key, wanted.args)).finally(() => trace.end())
    if (!probed.happened) return null
    await host.open.write([
      { type: '$effect.settled', data: { id: wanted.id, outcome: 'done', by: 'probe' } },
      entry('returned', { id: wanted.id, result: probed.result }),
    ])
    return { kind: 'result', result: probed.result, wasRecorded: true }
  }
  return await wait(host, wanted, tool, {
    kind: 'in-doubt',
    reason: `${wanted.name} was called, but its outcome is unknown`,
  })
}

async function intendAndRun(
  host: CallHost,
  wanted: Wanted,
  tool: AnyTool,
  signal: AbortSignal | undefined,
): Promise<CallOutcome> {
  const guard = host.guards.tool(wanted.name, tool)
  for (;;) {
    await untilDue(host, wanted.id, signal)
    try {
      await guard.enter(host.engine.clock, wanted, signal)
    } catch (error) {
      return await refuse(host, wanted, messageOf(error))
    }
    let result: unknown
    try {
      throwIfAborted(signal)
      await intend(host, { ...callOf(wanted, tool), state: 'intended' }, reversalOf(tool))
    } catch (error) {
      guard.left(wanted)
      throw error
    }
    try {
      result = await attempt(host, wanted, tool, guard.timeoutMs, signal)
      guard.succeeded()
    } catch (error) {
      // The call was aborted midway: whether it happened is unknown, and stays so.
      if (signal?.aborted) throw abortError(signal, error)
      if (host.open.broken) throw error
      if (isReprise(error, 'TIMEOUT') && !retriesInDoubt(tool)) {
        const settled = await settleUnknown(host, wanted, tool)
        if (settled) return settled
      }
      if (await postpone(host, guard, wanted, wanted.id, error)) continue
      await fail(host, wanted.id, messageOf(error))
      return { kind: 'failed', error: messageOf(error), wasRecorded: false }
    } finally {
      guard.left(wanted)
    }
    await host.open.write([
      { type: '$effect.done', data: { id: wanted.id } },
      entry('returned', { id: wanted.id, result: result === undefined ? null : result }),
    ])
    return { kind: 'result', result, wasRecorded: false }
  }
}

async function attempt(
  host: CallHost,
  wanted: Wanted,
  tool: AnyTool,
  timeoutMs: number | null,
  signal: AbortSignal | undefined,
): Promise<unknown> {
  const { key } = getEffect(host.open.ledger, wanted.id)!
  const attempt = host.open.state.calls.get(wanted.id)?.attempt ?? 1
  const watch = new CallWatch(host.engine.clock, timeoutMs, signal)
  const trace = showCall(host, `tool ${wanted.name}`, timeoutMs)
  try {
    const place = { [logPlace]: toolPlace, session: host.open.id, turn: wanted.turn, tool: wanted.name }
    const until = timeoutMs === null ? signal : watch.signal
    return await watch.wait(tool.run(wanted.args, { key, attempt, ...place, signal: until }))
  } finally {
    trace.end()
    watch.end()
  }
}

/** Shows the call in the worker's activity while it lasts, so that a stalled call is visible. */
export function showCall(
  { engine, open }: Pick<CallHost, 'engine' | 'open'>,
  what: string,
  limitMs: number | null,
): { alive(): void; end(): void } {
  return engine.worker.begin({ timeline: open.id, what, limitMs })
}

/** Records the intent of a call before it is made. A call whose intent is recorded already keeps its key. */
export async function intend(
  host: CallHost,
  made: CallRecord,
  reversal: Reversal,
): Promise<{ readonly key: string; readonly attempt: number }> {
  const { open, engine } = host
  const known = getEffect(open.ledger, made.id)
  const before = open.state.calls.get(made.id)
  const failures = before?.failures ? { failures: before.failures } : {}
  const call = { ...made, attempt: known ? (before?.attempt ?? 1) + 1 : 1, ...failures }
  // A new key is needed if this fork's original left the call without an outcome, or if the question to the model has
  // changed. A call recorded without its question keeps its key.
  const isOther = before?.kind === 'model' && ![made.id, made.digest].includes(before.digest)
  const isAnew = known !== undefined && (isOther || ownerOf(open.inherited, known.intendedSeq) !== null)
  if (known && known.outcome === null && !isAnew) {
    await open.write([entry('called', call)])
    return { key: known.key, attempt: call.attempt }
  }
  await engine.identity.load()
  const parts = [call.id, call.digest]
  const kept = isAnew ? undefined : known?.key
  const key = kept ?? intentKey(engine.hash, { ...open.origin, model: 'agent', name: call.tool, parts })
  const data = { id: call.id, name: call.tool, key, reversal, ...(isAnew && { anew: true }) }
  await open.write([{ type: '$effect.intended', data }, entry('called', call)])
  return { key, attempt: call.attempt }
}

export async function fail(host: CallHost, id: string, error: string): Promise<void> {
  await host.open.write([...failedMark(host, id, error), entry('failed', { id, error })])
}

/** After a failed attempt: returns true if another follows; its time is then recorded. */
export async function postpone(
  host: CallHost,
  guard: CallGuard,
  call: object,
  id: string,
  error: unknown,
): Promise<boolean> {
  const failures = host.open.state.calls.get(id)?.failures ?? 0
  const { again, delayMs, counts } = guard.failed(failures + 1, error, call, host.engine.kernel)
  if (!again) return false
  const n = counts ? failures + 1 : failures
  const at = host.engine.now(host.open.id) + delayMs
  const message = messageOf(error)
  await host.open.write([...failedMark(host, id, message), entry('retry', { id, n, error: message, at })])
  return true
}

/** Waits until the next attempt is due. The pause may have begun in a process that died. */
export async function untilDue(host: CallHost, id: string, signal: AbortSignal | undefined): Promise<void> {
  const { engine, open } = host
  const delayMs = (open.state.calls.get(id)?.retryAt ?? 0) - engine.now(open.id)
  if (delayMs > 0) await sleep(engine.clock, delayMs, { signal })
  throwIfAborted(signal)
}

function failedMark(host: CallHost, id: string, error: string): NewEntry[] {
  const isOpen = getEffect(host.open.ledger, id)?.outcome === null
  return isOpen ? [{ type: '$effect.failed', data: { id, error } }] : []
}

function reversalOf(tool: AnyTool): Reversal {
  if (tool.compensate) return 'compensate'
  return tool.kind === 'irreversible' ? 'irreversible' : 'none'
}

function callOf(wanted: Wanted, tool: Pick<AnyTool, 'kind' | 'run'>): Omit<CallRecord, 'state'> {
  const { id, turn, name, args, digest } = wanted
  return { id, turn, tool: name, kind: tool.kind, digest, args, attempt: 1 }
}

export function throwIfAborted(signal: AbortSignal | undefined): void {
  if (signal?.aborted) throw abortError(signal)
}

export function abortError(signal: AbortSignal, cause: unknown = signal.reason): RepriseError {
  return new RepriseError('ABORTED', 'the turn was abandoned; call resume to continue it', {}, cause)
}

/** Returns the result of the work, or rejects with ABORTED as soon as the signal fires. */
export async function unlessAborted<T>(signal: AbortSignal | undefined, work: Promise<T>): Promise<T> {
  if (!signal) return await work
  let stop: () => void = () => undefined
  const aborted = new Promise<never>((_resolve, reject) => {
    stop = () => reject(abortError(signal))
    signal.addEventListener('abort', stop, { once: true })
  })
  try {
    return await Promise.race([work, aborted])
  } finally {
    signal.removeEventListener('abort', stop)
  }
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

export function needModel(): RepriseError {
  return new RepriseError(
    'INVALID_ARGUMENT',
    'the agent needs a model: set one in its definition, or pass one to turn()',
  )
}
