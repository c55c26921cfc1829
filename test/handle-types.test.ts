// The verbs of handles have one shape (docs/decisions/handles.md). The test checks the declarations of the package: it finds
// every handle that `open` or `run` can return through the definitions of all entries, and compares its members.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { PublicTypes } from '../scripts/public-types.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const { exports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
  exports: Record<string, { types?: string }>
}
const types = new PublicTypes()
const names = new Map(
  Object.values(exports).flatMap((entry) => [...(entry.types ? types.namesOf(join(root, entry.types)) : [])]),
)

const run = /\bProcess<[^,]+, (\w+)/
const opened = /(?:\bextends [^{]*|\): )\bEntity<(\w+)/

/** The handles that definitions of this form name, each with its declaration. */
function handlesBy(form: RegExp): (readonly [name: string, declaration: string])[] {
  const found = new Set<string>()
  for (const { home } of names.values()) {
    const [, handle] = form.exec(types.declarationOf(home)) ?? []
    if (handle !== undefined && names.has(handle)) found.add(handle)
  }
  return [...found].sort().map((name) => [name, types.declarationOf(names.get(name)!.home)] as const)
}

/** The signatures of a member, each on one line. */
function membersOf(declaration: string, name: string): string[] {
  const lines = declaration
    .replace(/\n {8,}/g, ' ')
    .replace(/\n {4}\}/g, ' }')
    .split('\n')
  const own = lines.filter((line) => new RegExp(`^ {4}(readonly |get )?${name}[?:(<]`).test(line))
  return own.map((line) => line.trim())
}

const waiting = String.raw`options\?: (\{ readonly signal\?: AbortSignal; \}|\w*(Wait|Result)Options)`
const shapes: Readonly<Record<string, RegExp>> = {
  id: /^(readonly id: string|get id\(\): string);$/,
  timeline: /^(readonly timeline: (string|TimelineId)|get timeline\(\): (string|TimelineId));$/,
  started: new RegExp(`^started\\(${waiting}\\): Promise<this>;$`),
  result: new RegExp(`^result\\(${waiting}\\): Promise<\\w+>;$`),
  status: /^status\(\): .+;$/,
  stop: /^stop\(options\?: (\w*StopOptions|StopOptions & \{ .+ \})\): Promise<\w+>;$/,
  cancel: /^cancel\((options\?: (\w+Options|\{ readonly reason\?: string; \}))?\): Promise<\w+>;$/,
  terminate: /^terminate\((options\?: (\w+Options|\{ readonly reason\?: string; \}))?\): Promise<\w+>;$/,
  undo: /^undo\((options\?: \w+Options)?\): Promise<.+>;$/,
  rollback: /^rollback\(options: \w*RollbackOptions\): Promise<\w+>;$/,
  close: /^close\(\): Promise<void>;$/,
  deadLetters: /^deadLetters\(\): Promise<readonly \w+\[\]>;$/,
  redrive: /^redrive\(\w+\?: readonly [^:]+\[\](, options\?: \w+)?\): Promise<number>;$/,
  discard: /^discard\(\w+\?: readonly [^:]+\[\]\): Promise<number>;$/,
}
/** Names that these verbs had, or that would be a second name for one. */
const others = ['letters', 'quarantine', 'progress', 'capture', 'retries', 'backoff', 'rollbackTo']

/** A workflow run may execute in any process: `cancel` and `terminate` are sent to it, and nothing here can be stopped. */
const elsewhere = ['WorkflowRun']

const runs = handlesBy(run)
const entities = handlesBy(opened)
const has = (declaration: string, name: string) => membersOf(declaration, name).length > 0

it('finds the handles', () => {
  expect(runs.map(([name]) => name)).toEqual(['ExecRun', 'JobRun', 'MigrateRun', 'PipelineRun', 'WorkflowRun'])
  expect(entities.map(([name]) => name)).toEqual([
    ...['AggregateHandle', 'CommandHandle', 'ConfigHandle', 'ControllerHandle', 'InformerHandle', 'MemoHandle'],
    ...['PagedTable', 'PartitionedStore', 'ProcessManager', 'ProjectionHandle', 'Recorder', 'ResourceHandle'],
    ...['SaveHandle', 'Session', 'TableHandle', 'TimelineHandle'],
  ])
})

it.each([...runs, ...entities])('%s: every verb has its one shape, and no second name', (_, declaration) => {
  for (const [verb, shape] of Object.entries(shapes)) {
    for (const member of membersOf(declaration, verb)) expect(member).toMatch(shape)
  }
  expect(others.filter((name) => has(declaration, name))).toEqual([])
  const letters = ['deadLetters', 'redrive', 'discard'].filter((name) => has(declaration, name))
  expect([0, 3]).toContain(letters.length)
})

it.each(runs)('%s: a run has id, started, result and status, is stopped, and never closed', (name, declaration) => {
  const wanted = ['id', 'started', 'result', 'status', ...(elsewhere.includes(name) ? [] : ['stop'])]
  expect(wanted.filter((verb) => !has(declaration, verb))).toEqual([])
  expect(has(declaration, 'close') || declaration.includes('[Symbol.asyncDispose]')).toBe(false)
})

it.each(entities)('%s: an opened handle has an id, is closed, and never stopped', (_, declaration) => {
  expect(['id', 'close'].filter((verb) => !has(declaration, verb))).toEqual([])
  expect(has(declaration, 'stop')).toBe(false)
  expect(declaration).toContain('[Symbol.asyncDispose](): Promise<void>;')
})

it('the options of every stop are those of StopOptions and more', () => {
  const own = [...names].filter(([name]) => name.endsWith('StopOptions'))
  expect(own.map(([name]) => name).sort()).toEqual(['ExecStopOptions', 'StopOptions'])
  for (const [, { home }] of own) {
    for (const option of ['reason', 'timeout', 'signal']) expect(has(types.declarationOf(home), option)).toBe(true)
  }
})

it('every rollback names its target as `to`, and every end of work its reason as `reason`', () => {
  const owners = [...names].filter(([, { home }]) => has(types.declarationOf(home), 'rollback'))
  // `Actions` is the descriptor of a model, which the engine calls.
  expect(owners.map(([name]) => name).sort()).toEqual(['Actions', 'Reprise', 'Session', 'WorkflowRun', 'WorkflowRuns'])
  const rollbackOf = (name: string) => membersOf(types.declarationOf(names.get(name)!.home), 'rollback')
  for (const name of ['Reprise', 'Session', 'WorkflowRun']) {
    expect(rollbackOf(name)).toEqual([expect.stringMatching(shapes.rollback!)])
  }
  expect(rollbackOf('WorkflowRuns')).toEqual([
    "rollback(query: RunQuery, options: Pick<RunRollbackOptions, 'to'>): Promise<BatchReport>;",
  ])
  for (const name of ['RollbackOptions', 'SessionRollbackOptions', 'RunRollbackOptions']) {
    expect(membersOf(types.declarationOf(names.get(name)!.home), 'to')[0]).toMatch(/^readonly to: /)
  }
  for (const name of ['RunTerminateOptions', 'RunUndoOptions', 'SessionRollbackOptions', 'StopOptions']) {
    expect(membersOf(types.declarationOf(names.get(name)!.home), 'reason')).toEqual(['readonly reason?: string;'])
  }
})

it('sees a handle that deviates', () => {
  const deviant =
    'export declare class Deviant {\n    stop(because?: string): Promise<Report>;\n    get status(): Status;\n    rollback(toTurn: number, options?: RollbackOptions): Promise<Rollback>;\n    cancel(reason?: string): Promise<void>;\n}'
  expect(membersOf(deviant, 'stop')[0]).not.toMatch(shapes.stop!)
  for (const verb of ['status', 'rollback', 'cancel']) expect(membersOf(deviant, verb)[0]).not.toMatch(shapes[verb]!)
})
