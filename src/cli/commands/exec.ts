// reprise exec: a program in any language, with verified checkpoints of the files it writes. Its exit code is ours; its
// output goes to its usual streams; our own messages go to stderr.

import { hostname } from 'node:os'
import { timelineId } from '../../core/coordinate.ts'
import { formatMs } from '../../core/duration.ts'
import { RepriseError } from '../../core/errors.ts'
import type { Reprise } from '../../engine/api/reprise.ts'
import { entryAt } from '../../engine/history/history.ts'
import { hostOf } from '../../engine/host/host.ts'
import { type ExecEntries, startedAttribute } from '../../layers/exec/entries.ts'
import { type ExecEvent, type ExecOptions, type ExecRun, exec } from '../../layers/exec/index.ts'
import { sendWord } from '../../layers/exec/program-messages.ts'
import { type Command, duration, flag, type Invocation, list, type Options, text, whole } from '../command.ts'
import { exit, UsageError } from '../exit.ts'
import { bytes, count, ms } from '../format.ts'
import { LiveLine } from '../live-line.ts'
import { nameFromCommand } from '../name-from-command.ts'
import type { Output } from '../output.ts'

const run: Command = async (invocation) => {
  const { engine, options, output } = invocation
  const word = text(options, 'say')
  if (word !== undefined) return await sayTo(invocation, word)
  const { name, settings } = await chosen(invocation)
  const report = new ExecReport(output, name, text(options, 'report') ?? 'lines')
  const definition = exec(name, settings)
  const [wait, takeover] = [duration(options, 'wait'), flag(options, 'takeover')]
  const running = await engine.run(definition, {
    fresh: flag(options, 'fresh'),
    replace: flag(options, 'replace'),
    output: output.isJson ? 'stderr' : 'inherit',
    onEvent: (event) => report.printEvent(event),
    ...(wait !== undefined && { wait }),
    ...(takeover && { takeover }),
  })
  const off = passSignals(running)
  try {
    const result = await running.result()
    output.json(result)
    return result.exitCode
  } finally {
    off()
    report.close()
  }
}

/** Called from inside the program: exits with 0 once the files are captured. */
async function sayTo({ env, output }: Invocation, word: string): Promise<number> {
  const socket = env.REPRISE_EXEC_SOCKET
  if (!socket) throw new UsageError('--say is for programs that run under reprise exec: REPRISE_EXEC_SOCKET is not set')
  const answer = await sendWord(socket, word).catch((error) => {
    throw new RepriseError('STORE_UNREACHABLE', `reprise exec did not answer: ${(error as Error).message}`, { socket })
  })
  output.result({ answer }, () => output.line(answer))
  return answer.startsWith('refused') ? exit.partly : exit.ok
}

/** Stop signals start the grace time; other signals are forwarded unchanged. */
function passSignals(running: ExecRun): () => void {
  const stops = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'] as const
  const passed = ['SIGUSR1', 'SIGUSR2'] as const
  const stop = (signal: NodeJS.Signals) => void running.stop({ killSignal: signal }).catch(() => undefined)
  const pass = (signal: NodeJS.Signals) => running.signal(signal)
  const each = (change: 'on' | 'off') => {
    for (const signal of stops) process[change](signal, stop)
    for (const signal of process.platform === 'win32' ? [] : passed) process[change](signal, pass)
  }
  each('on')
  return () => each('off')
}

async function chosen({ engine, args, options }: Invocation): Promise<{ name: string; settings: ExecOptions }> {
  const resumed = text(options, 'resume')
  if (resumed !== undefined) return await lastOf(engine, resumed.replace(/^exec\//, ''), args, options)
  const state = text(options, 'state')
  if (args.length === 0)
    throw new UsageError('name the program behind --: reprise exec --state ckpt -- python train.py')
  if (state === undefined)
    throw new UsageError('name the folder with the files that the program needs to resume: --state DIR')
  const id = text(options, 'id')
  const name = id ?? nameFromCommand(args)
  if (id === undefined) await refuseElsewhere(engine, name)
  return { name, settings: { command: args, state, ...given(options) } }
}

/** The options of the command line. */
function given(options: Options): Partial<ExecOptions> {
  const [when, marker] = [text(options, 'when'), text(options, 'marker')]
  const [quiet, every, grace, backoff] = ['quiet', 'every', 'grace', 'backoff'].map((each) => duration(options, each))
  const [keep, retries] = [whole(options, 'keep'), whole(options, 'retries')]
  const loseAtMost = duration(options, 'lose-at-most')
  const ignore = list(options, 'ignore')
  return {
    ...(when !== undefined && { when: when as 'quiet' }),
    ...(quiet !== undefined && { quiet }),
    ...(marker !== undefined && { marker }),
    ...(every !== undefined && { every }),
    ...(loseAtMost !== undefined && { loseAtMost }),
    ...(grace !== undefined && { grace }),
    ...(ignore.length > 0 && { ignore }),
    ...(keep !== undefined && { keep }),
    ...((retries !== undefined || backoff !== undefined) && {
      retry: { ...(retries !== undefined && { attempts: retries + 1 }), ...(backoff !== undefined && { backoff }) },
    }),
  }
}

/** The command and options of its last start, overridden by the current ones. */
async function lastOf(engine: Reprise, name: string, args: readonly string[], options: Options) {
  const started = await lastStart(engine, name)
  if (!started) {
    throw new RepriseError('NOT_FOUND', `exec/${name} was never started: name its command`, {
      timeline: `exec/${name}`,
    })
  }
  const { command, state, settings } = started
  const { when, quietMs, everyMs, loseAtMostMs = null, marker, ignore, graceMs, keep, retries } = settings
  const before: ExecOptions = {
    command: args.length > 0 ? args : command,
    state: text(options, 'state') ?? state,
    ...{ when, quiet: quietMs, ignore, grace: graceMs, keep },
    ...(everyMs !== null && { every: everyMs }),
    ...(loseAtMostMs !== null && { loseAtMost: loseAtMostMs }),
    ...(marker !== null && { marker }),
  }
  const now = given(options)
  return { name, settings: { ...before, ...now, retry: { attempts: retries + 1, ...now.retry } } }
}

async function lastStart(engine: Reprise, name: string): Promise<ExecEntries['started'] | null> {
  const { kernel } = hostOf(engine)
  const id = timelineId(`exec/${name}`)
  const [head] = await kernel.store.head([id])
  const seq = head?.attributes[startedAttribute]
  const found = typeof seq === 'number' ? await entryAt(kernel, id, seq) : null
  return found?.type === 'started' ? (found.data as ExecEntries['started']) : null
}

/** A name derived from the command may belong to another program elsewhere: its files would be restored into this folder. */
async function refuseElsewhere(engine: Reprise, name: string): Promise<void> {
  const started = await lastStart(engine, name)
  if (!started) return
  const host = started.host.split('#')[0]
  if (started.directory === process.cwd() && host === hostname()) return
  const what = `exec/${name} was last started in ${started.directory} on ${host}: use --id ${name} to continue it here, or choose another id`
  throw new RepriseError('CONFLICT', what, { timeline: `exec/${name}` })
}

/** Reports events as lines, or on one line that changes. */
class ExecReport {
  readonly #output: Output
  readonly #name: string
  readonly #kind: string
  readonly #line: LiveLine | null
  #run = 0
  #startedAt = Date.now()
  #captured: { readonly seq: number; readonly at: number } | null = null
  #progress = ''

  constructor(output: Output, name: string, kind: string) {
    if (!['lines', 'bar', 'none'].includes(kind)) throw new UsageError('--report is lines, bar or none')
    this.#output = output
    this.#name = name
    this.#kind = kind
    this.#line = kind === 'bar' && process.stderr.isTTY ? new LiveLine(() => this.#now()) : null
  }

  printEvent(event: ExecEvent): void {
    if (event.kind === 'started') {
      this.#run = event.run
      this.#startedAt = Date.now()
    }
    if (event.kind === 'captured') this.#captured = { seq: event.seq, at: Date.now() }
    if (event.kind === 'progress') this.#progress = shownProgress(event)
    const words = wordsFor(event)
    if (words === null || this.#kind === 'none') return
    this.#line?.clear()
    this.#output.note(`reprise ${this.#name}: ${words}`)
  }

  close(): void {
    this.#line?.close()
  }

  #now(): string {
    const since = formatMs(Math.round((Date.now() - this.#startedAt) / 1000) * 1000)
    const captured = this.#captured
      ? `capture ${this.#captured.seq}, ${formatMs(Math.round((Date.now() - this.#captured.at) / 1000) * 1000)} ago`
      : 'no capture yet'
    return [`${this.#name}: run ${this.#run}`, since, captured, this.#progress]
      .filter((part) => part !== '')
      .join(' · ')
  }
}

function shownProgress({ done, total, text: words }: Extract<ExecEvent, { kind: 'progress' }>): string {
  const share = total ? `${Math.floor((100 * done) / total)} % (${done}/${total})` : String(done)
  return words === '' ? share : `${share} ${words}`
}

/** Null: nothing to report. */
function wordsFor(event: ExecEvent): string | null {
  switch (event.kind) {
    case 'restored': {
      const skipped = event.skipped.map(({ seq, why }) => `capture ${seq} was skipped: ${why}; `).join('')
      const how = `${event.written} written, ${event.removed} removed`
      return `${skipped}restored capture ${event.seq} of ${new Date(event.at).toISOString()}: ${files(event.files)}, ${bytes(event.bytes)}, ${how}, in ${ms(event.tookMs)}`
    }
    case 'started':
      return `run ${event.run} started${event.attempt > 1 ? `, attempt ${event.attempt}` : ''}, process ${event.pid}`
    case 'captured': {
      const label = event.label === null ? '' : ` (${event.label})`
      return `captured ${event.seq}${label}: ${files(event.files)}, ${bytes(event.bytes)}, ${bytes(event.addedBytes)} new, ${event.trigger}, in ${ms(event.tookMs)}`
    }
    case 'not-captured':
      return `not captured: ${event.why}`
    case 'stopping':
      return `${event.signal} passed on; ${formatMs(event.graceMs)} for it to end and be captured; a second signal kills it`
    case 'ended': {
      const how = event.exitCode === null ? (event.signal ?? 'its outcome is unknown') : `exit code ${event.exitCode}`
      const lost =
        event.lostMs > 0
          ? `; ${event.isAtMost ? 'at most ' : ''}${formatMs(event.lostMs)} of work since the last capture is lost`
          : ''
      return `run ${event.run} ended (${event.why}): ${how}${lost}`
    }
    case 'retrying':
      return `attempt ${event.attempt} in ${formatMs(event.inMs)}`
    case 'note':
      return event.text
    case 'progress':
      return null
  }
}

function files(n: number): string {
  return count(n, 'file')
}

export default run
