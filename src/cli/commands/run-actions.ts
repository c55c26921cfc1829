// Commands that act on one run: each sends one request, and reports the outcome.

import { act, mayAct } from '../../operations/run-verb.ts'
import { printReport } from '../action-report.ts'
import { type Command, duration, flag, point, text } from '../command.ts'
import { exit, parseJson } from '../exit.ts'
import { findJob, findTimeline } from '../find-timeline.ts'
import { toJson } from '../output.ts'
import { confirm } from '../prompt.ts'
import { findCode, findRun, findRunOrCode } from '../runs.ts'

/** A message to a run, durable before this command ends. */
export const signal: Command = async ({ engine, args, output }) => {
  const [given, name, json] = args as [string, string, string | undefined]
  const head = await findTimeline(engine, given)
  const value = json === undefined ? {} : { value: parseJson(json, 'the value') }
  return printReport(output, await act(engine, head, 'signal', { name, ...value }))
}

/** Calls a query handler of a run. The run itself is not affected. */
export const query: Command = async ({ engine, args, options, output }) => {
  const [given, name, ...rest] = args as [string, string, ...string[]]
  const values = rest.map((json) => parseJson(json, 'an argument'))
  // The built-in status needs none of the workflow's code.
  const isPlain = name === 'status' && values.length === 0
  const { head, run } = isPlain
    ? await findRun(engine, given, 'query')
    : await findCode(engine, given, 'query', options)
  const answer = isPlain ? (await run.status()).status : await run.query(name, ...values)
  output.result({ timeline: head.timeline, query: name, answer }, () => output.lines(toJson(answer, 2)))
  return exit.ok
}

/** Changes a run through its handler, and waits for the handler's result. */
export const update: Command = async ({ engine, args, options, output }) => {
  const [given, name, json] = args as [string, string, string | undefined]
  const { head, run } = await findRunOrCode(engine, given, 'update', options)
  const value = json === undefined ? undefined : parseJson(json, 'the argument')
  const key = text(options, 'key')
  const result = await run.update(name, value, {
    timeout: duration(options, 'timeout') ?? '10s',
    ...(key !== undefined && { key }),
  })
  output.result({ timeline: head.timeline, update: name, result: result ?? null }, () =>
    output.lines(toJson(result ?? null, 2)),
  )
  return exit.ok
}

/** A person's decision that a session waits for. */
export const decide: Command = async ({ engine, args, options, output }) => {
  const [given, verdict] = args as [string, string]
  const by = text(options, 'by') ?? process.env.USER ?? 'somebody'
  const reason = text(options, 'reason')
  const about = point(options, 'about')
  const decision = { verdict, by, ...(reason !== undefined && { reason }), ...(about && { about }) }
  return printReport(output, await act(engine, await findTimeline(engine, given), 'decide', decision))
}

/** A person settles the outcome of a held step, or of a stuck compensation. */
export const settle: Command = async ({ engine, args, options, output }) => {
  const [given, step, outcome] = args as [string, string, string]
  const json = text(options, 'result')
  const result = json === undefined ? {} : { result: parseJson(json, '--result') }
  const by = text(options, 'by') ?? process.env.USER ?? 'somebody'
  const about = point(options, 'about')
  const decision = { step, outcome, by, ...result, ...(about && { about }) }
  return printReport(output, await act(engine, await findTimeline(engine, given), 'settle', decision))
}

/** Cancels a run. A workflow compensates, a job finishes the items in flight, a pipeline ends at once. */
export const cancel: Command = async ({ engine, args, options, output }) => {
  const reason = text(options, 'reason') ?? 'cancelled by hand'
  const head = await findTimeline(engine, args[0]!).catch(async () => (await findJob(engine, args[0]!))[0]!)
  const undo = flag(options, 'undo-inherited') ? { undo: 'inherited' } : {}
  return printReport(output, await act(engine, head, 'cancel', { reason, ...undo }))
}

/** Stops a pipeline or a job so that it can be resumed: with a savepoint, or after the work in flight is finished. */
export const stop: Command = async ({ engine, args, options, output }) => {
  const reason = text(options, 'reason') ?? 'stopped by hand'
  const head = await findTimeline(engine, args[0]!).catch(async () => (await findJob(engine, args[0]!))[0]!)
  return printReport(output, await act(engine, head, 'stop', { reason }))
}

/** Ends a run at once, without compensation. */
export const terminate: Command = async ({ engine, args, options, output, stdin }) => {
  const head = await findTimeline(engine, args[0]!)
  // A refusal is reported before the question.
  await mayAct(engine, head, 'terminate')
  const question = `${head.timeline} ends at once, without compensation. Continue?`
  if (!flag(options, 'yes') && !(await confirm(question, stdin, output))) {
    output.note('nothing was changed; --yes skips the confirmation')
    return exit.usage
  }
  return printReport(
    output,
    await act(engine, head, 'terminate', { reason: text(options, 'reason') ?? 'terminated by hand' }),
  )
}

/** Takes back the last failure of a run, so that it continues. */
export const retry: Command = async ({ engine, args, output }) =>
  printReport(output, await act(engine, await findTimeline(engine, args[0]!), 'retry', {}))
