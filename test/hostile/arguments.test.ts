// Every public verb, with a value of a wrong shape in the place of each argument: it succeeds by its documented meaning, or
// fails with a code. A TypeError of the engine itself names a line that the caller cannot know.

import { fileURLToPath } from 'node:url'
import { afterEach, describe, expect, it } from 'vitest'
import { publicVerbs } from '../../scripts/api-page.ts'
import { isReprise, open, type Reprise } from '../../src/index.ts'
import { temporaryFolder } from '../support/fixture.ts'
import { contexts } from './context-targets.ts'
import { definers } from './definer-targets.ts'
import { surroundingDefiners, surroundings } from './surroundings-targets.ts'
import { counter, placed, type Target, targets } from './verb-targets.ts'

const wrong = [null, undefined, 5, '', {}, [], () => 1]
let engines: Reprise[] = []
const root = fileURLToPath(new URL('../..', import.meta.url))

/** Entries whose verbs need an outside system or another framework, or that are tools for tests. */
const elsewhere = new Set([
  'reprise/testing',
  'reprise/ai-sdk',
  'reprise/kysely',
  'reprise/drizzle',
  'reprise/prisma',
  'reprise/langgraph',
  'reprise/openai-agents',
  'reprise/remote',
  'reprise/otel',
  'reprise/kafka',
  'reprise/postgres-cdc',
  'reprise/nats',
  'reprise/s3',
  'reprise/kubernetes',
  'reprise/server',
])

const withoutArguments =
  'errorCodes feedStart carries collectSink count json list text jobKind migrateKind migrateFold workflowKind Watch.next ' +
  'Wakes.push'
const errorsAndFolds = 'GiveUp RetryLater RepriseError Refused LevelError ModelHttpError jobFold summarizeWorkflow'
/** The abstract class of InformerHandle and ControllerHandle, which are in the table. */
const inherited = 'led settled deadLetters redrive discard close'.split(' ').map((verb) => `FollowerHandle.${verb}`)
/** They take a run, a logger or a stream of the process, or run in a callback that few users write. */
const others =
  'logOf attachReporter makeReporter stopOnSignals evaluateSession checked tableProjection partitionedTableProjection ' +
  'JobSourceContext.cursor JobSourceContext.total LoopContext.stop StepCall.heartbeat WorkflowContext.continueAsNew ' +
  'ReducingState.get ReducingState.add ReducingState.clear CompleteContext.start CompleteContext.sql ' +
  'CommandHandle.run CommandHandle.explain CommandHandle.check CommandHandle.forget CommandHandle.close'
const leftOut = new Set([...`${withoutArguments} ${errorsAndFolds} ${others}`.split(' '), ...inherited])

afterEach(async () => {
  await Promise.all(engines.map((rp) => rp.close({ grace: 1 })))
  engines = []
})

const functions = { ...definers, ...surroundingDefiners }
const all = { ...targets, ...contexts, ...surroundings, ...functions }

describe.each(Object.entries(all))('%s', (name, target) => {
  it.each(Object.keys(target.calls))(`${name}.%s takes any argument, or refuses it with a code`, async (verb) => {
    expect(await faultsOf(target, verb)).toEqual([])
  })
})

it('the sweep has every public verb that takes an argument, or names the reason', () => {
  const left: string[] = []
  for (const [entry, verbs] of publicVerbs(root)) {
    if (elsewhere.has(entry)) continue
    for (const verb of verbs) {
      const [first, second] = verb.split('.') as [string, string | undefined]
      const target: Target | undefined = second === undefined ? functions[entry] : all[first as keyof typeof all]
      if (!Object.hasOwn(target?.calls ?? {}, second ?? first) && !leftOut.has(verb)) left.push(`${entry} ${verb}`)
    }
  }
  expect(left, 'give each valid arguments in the targets, or a reason in leftOut').toEqual([])
})

/** CI passes every second wrong value, beginning with the first or the second one by the length of the verb's name. */
const sweepsAll = process.env.REPRISE_SWEEP === 'all'

async function faultsOf(target: Target, verb: string): Promise<string[]> {
  const folder = temporaryFolder('arguments')
  const args = target.calls[verb]!
  const faults: string[] = []
  const call = async (at: number, value: unknown, n: number) => {
    const rp = await open(target.store ? `sqlite:${folder}/${n}.db` : 'memory:', { housekeeping: false })
    engines.push(rp)
    const first = await rp.open(counter, 'a')
    await first.append({ type: 'added', by: 1 })
    await first.close()
    const given = args.map((arg, i) => (i === at ? value : placed(arg, rp, folder, n)))
    const note = (error: unknown) => {
      if (isReprise(error)) return
      const shown = given.map((each) => (typeof each === 'function' ? 'function' : JSON.stringify(each))).join(', ')
      faults.push(`${verb}(${shown}): ${(error as Error)?.stack?.split('\n').slice(0, 3).join(' | ')}`)
    }
    await settled(async () => {
      const on = (await target.open(rp, `x${n}`, folder)) as Record<string, (...given: unknown[]) => unknown>
      return await drained(on[verb]!(...given))
    }, note)
    await rp.close({ grace: 1 })
  }
  const wrongOnes = args
    .flatMap((_, at) => wrong.map((value) => ({ at, value })))
    .filter((_, i) => sweepsAll || (i + verb.length) % 2 === 0)
  await Promise.all([{ at: -1, value: undefined }, ...wrongOnes].map(({ at, value }, n) => call(at, value, n)))
  return faults
}

/** A call that waits for an event that never happens is not a fault: it is left to the closing of the engine. */
async function settled(call: () => Promise<unknown>, note: (error: unknown) => void): Promise<void> {
  const done = call().catch(note)
  await Promise.race([done, new Promise((resolve) => setTimeout(resolve, 50))])
}

async function drained(result: unknown): Promise<unknown> {
  const value = (await result) as { next?: () => unknown; return?: () => unknown } | undefined
  if (value && typeof value === 'object' && typeof value.next === 'function' && 'return' in value) {
    await value.next()
    await value.return?.()
  }
  return value
}
