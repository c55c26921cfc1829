// reprise resume: resumes unfinished work started by `reprise run`. It starts nothing new: a job continues its round, a
// workflow run continues under its own id, with its own input. All of them continue at once; those that wait for an external
// event are reported, and delay no other.

import { RepriseError } from '../../core/errors.ts'
import { idBelow } from '../../core/history/scope.ts'
import type { Head } from '../../core/store/ports.ts'
import type { Reprise } from '../../engine/api/reprise.ts'
import { hostOf } from '../../engine/host/host.ts'
import { pipelinePrefix } from '../../layers/pipeline/model.ts'
import { sleep } from '../../lib/waiting.ts'
import { statusLineAt } from '../../operations/describe.ts'
import { declareAll } from '../../operations/known-models.ts'
import { act } from '../../operations/run-verb.ts'
import { problemWords } from '../action-report.ts'
import { type Command, type Options, text } from '../command.ts'
import { exit } from '../exit.ts'
import { findMember } from '../find-timeline.ts'
import { inHand, onInterrupt } from '../interrupt.ts'
import { loadModule } from '../module.ts'
import { type Output, toJson } from '../output.ts'
import { ProgressLine } from '../progress-line.ts'
import { execute, pick } from './run.ts'

const progressMs = 500
const lookMs = 250
/** Work that becomes due within this time is waited for. */
const soonMs = 60_000

interface Started {
  readonly file: string
  readonly name: string
  /** Id of a pipeline run; null if it has none. */
  readonly id: string | null
  readonly heads: Head[]
}

const resume: Command = async ({ engine, args, options, output }) => {
  const given = args[0]
  const heads = given === undefined ? await unfinished(engine) : [await find(engine, given)]
  const groups = groupsOf(engine, heads, options)
  if (groups.size === 0) return nothingToResume(given, heads, output)
  const interruption = onInterrupt(output, null, { waitsFor: () => inHand(engine) })
  const resuming = new Resuming(output, heads.length)
  try {
    const working = [...groups.values()].map(async (group) => {
      const module = await loadModule(group.file)
      declareAll(engine, Object.values(module))
      if (group.heads.every((head) => hasResume(engine, head))) return await goOn(group.heads)
      const own = groups.size > 1 && !text(options, 'report') ? { ...options, report: 'lines' } : options
      return await resuming.one(() =>
        execute(engine, pick(module, group.name, group.file), group.file, withId(own, group.id), output),
      )
    })
    const results = await Promise.allSettled(working)
    const failed = results.filter((each) => each.status === 'rejected')
    for (const { reason } of failed.slice(1)) output.note(problemWords('resume', reason))
    if (failed[0]) throw failed[0].reason
    return Math.max(...results.map((each) => (each.status === 'fulfilled' ? each.value : exit.ok)))
  } finally {
    resuming.close()
    interruption.off()
  }

  function withId(given: Options, id: string | null): Options {
    return id === null ? given : { ...given, id }
  }

  /** Each is executed here until it ends, or waits for an external event; Ctrl-C leaves them where they are. */
  async function goOn(runs: readonly Head[]): Promise<number> {
    const first = await Promise.race([
      Promise.allSettled(runs.map((head) => resuming.one(() => goOnWith(head)))),
      interruption.requested,
    ])
    if (first === 'interrupted') {
      // Timelines started by `reprise run` record their file; the others need --module again.
      const again = [given, text(options, 'module') && `--module ${text(options, 'module')}`]
      output.notes(
        `interrupted; nothing is lost. Resume with:\n  ${['reprise resume', ...again].filter(Boolean).join(' ')}`,
      )
      return exit.interrupted
    }
    const failed = first.filter((each) => each.status === 'rejected')
    for (const { reason } of failed.slice(1)) output.note(problemWords('resume', reason))
    if (failed[0]) throw failed[0].reason
    return first.some((each) => each.status === 'fulfilled' && each.value === 'waits') ? exit.partly : exit.ok
  }

  async function goOnWith(head: Head): Promise<'ended' | 'waits'> {
    const ended = act(engine, head, 'resume', {}).then(({ facts }) => ({ facts }))
    const stop = new AbortController()
    const first = await Promise.race([ended, parked(engine, head, stop.signal)]).finally(() => stop.abort())
    if ('facts' in first) {
      output.result(first.facts, () => output.line(`${head.timeline}: ${toJson(first.facts.result)}`))
      return 'ended'
    }
    ended.catch(() => undefined)
    const { status, wakeup } = first.head
    const waitsFor = (await statusLineAt(engine, first.head))?.text ?? status
    resuming.waits()
    output.result({ timeline: head.timeline, status, waitsFor, wakeup }, () =>
      output.line(`${head.timeline}: ${waitsFor}`),
    )
    return 'waits'
  }
}

/** The timelines by the definition that runs them, without those that `reprise run` did not start. */
function groupsOf(engine: Reprise, heads: readonly Head[], options: Options): Map<string, Started> {
  const groups = new Map<string, Started>()
  for (const head of heads) {
    const { module = text(options, 'module'), definition } = head.attributes
    const name = typeof definition === 'string' ? definition : (hostOf(engine).models.find(head.timeline)?.name ?? null)
    if (typeof module !== 'string' || name === null) continue
    const id = idBelow(pipelinePrefix + name, head.timeline)
    const key = JSON.stringify([module, name, id])
    const group = groups.get(key) ?? { file: module, name, id, heads: [] }
    group.heads.push(head)
    groups.set(key, group)
  }
  return groups
}

function nothingToResume(given: string | undefined, heads: readonly Head[], output: Output): number {
  if (given !== undefined) {
    const what = `${heads[0]!.timeline} was not started by reprise run: run its program again, or name its file with --module`
    throw new RepriseError('NOT_FOUND', what, {})
  }
  output.note(
    heads.length === 0
      ? 'nothing to resume: everything that was started is finished'
      : `nothing to resume: the unfinished timelines (${heads.length}) were not started by reprise run; reprise ls lists them`,
  )
  return exit.ok
}

/** Shows progress on a terminal, and as lines elsewhere. */
class Resuming {
  readonly #line: ProgressLine
  readonly #timer: NodeJS.Timeout
  readonly #total: number
  #done = 0
  #waiting = 0

  constructor(output: Output, total: number) {
    this.#total = total
    this.#line = new ProgressLine(output, true)
    if (total > 1) output.note(`resuming ${total}`)
    this.#timer = setInterval(() => this.#line.at(() => this.#words()), progressMs)
    this.#timer.unref()
  }

  async one<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work()
    } finally {
      this.#done += 1
    }
  }

  waits(): void {
    this.#waiting += 1
  }

  close(): void {
    clearInterval(this.#timer)
    this.#line.close()
  }

  #words(): string {
    const waiting = this.#waiting > 0 ? `, ${this.#waiting} of them wait` : ''
    return `resumed ${this.#done} of ${this.#total}${waiting}`
  }
}

/** Resolves when the timeline has no owner and is not due within a minute: it waits for mail, for a person, or for long. */
async function parked(engine: Reprise, { timeline }: Head, signal: AbortSignal): Promise<{ readonly head: Head }> {
  const { kernel, models } = hostOf(engine)
  for (;;) {
    await sleep(kernel.clock, lookMs, { signal, isAwaited: false })
    if (signal.aborted) return await new Promise(() => undefined)
    const head = await engine.head(timeline)
    const isOpen = head && models.find(timeline)?.unfinished?.includes(head.status)
    const isDue = head?.wakeup != null && head.wakeup <= kernel.worker.now() + soonMs
    if (head && isOpen && head.owner === null && !isDue && head.mail === 0) return { head }
  }
}

/** True if its model can run one timeline to its end; a job is run as a whole instead. */
function hasResume(engine: Reprise, head: Head): boolean {
  return typeof hostOf(engine).models.find(head.timeline)?.actions?.resume === 'function'
}

async function find(engine: Reprise, given: string): Promise<Head> {
  return await findMember(engine, given)
}

async function unfinished(engine: Reprise): Promise<Head[]> {
  // A process killed a moment ago still has its lease; on this host it is known to be gone.
  await hostOf(engine).worker.register()
  await hostOf(engine).deadWorkers.retireGone()
  const found: Head[] = []
  for (const { name, scope, unfinished } of hostOf(engine).models.all()) {
    if (name !== null) continue
    for (const status of unfinished ?? []) found.push(...(await engine.list({ prefix: scope, status, limit: 1000 })))
  }
  return found.filter((head) => !(head.owner && head.isOwnerAlive))
}

export default resume
