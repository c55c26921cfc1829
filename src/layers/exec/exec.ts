// A program in any language, as a definition: `rp.run(exec(…))` starts it with the files of its last capture.

import { toMs } from '../../core/duration.ts'
import { RepriseError } from '../../core/errors.ts'
import { checkOptions, namesOf } from '../../core/options.ts'
import { unlessAborted } from '../../engine/base/abortable-wait.ts'
import { checkStop, type StopOptions } from '../../engine/base/stop-options.ts'
import type { Host } from '../../engine/host/host.ts'
import { checkName, type Process, runs } from '../../engine/model/definition.ts'
import { type Described, describes } from '../../engine/model/model.ts'
import type { ExecResult, ExecStatus } from './events.ts'
import { type ExecRunOptions, Execution } from './execution.ts'
import { execModel } from './model.ts'
import { type ExecOptions, specOf } from './options.ts'

export interface ExecDefinition extends Process<void, ExecRun, ExecRunOptions>, Described {
  readonly kind: 'exec'
  readonly name: string
  readonly prefix: string
}

const knownRun = namesOf<ExecRunOptions>()('fresh replace output onEvent takeover wait')

/**
 * @example
 * const train = exec('train', { command: ['python', 'train.py'], state: 'ckpt', keep: 5, retry: { attempts: 4 } })
 * const { exitCode } = await (await rp.run(train)).result()
 */
export function exec(name: string, options: ExecOptions): ExecDefinition {
  checkName('exec', name)
  const spec = specOf(name, options)
  const model = execModel(name, spec.keep, spec.loseAtMostMs)
  return {
    [describes]: model,
    kind: 'exec',
    name,
    takesInput: false,
    prefix: model.scope,
    async [runs](host, _input, runOptions) {
      checkOptions(`run of exec ${name}`, runOptions, knownRun)
      const engine = host as Host
      engine.declare(model)
      return new ExecRun(engine, name, new Execution(engine, spec, runOptions))
    },
  }
}

/** A stop of a program. */
export interface ExecStopOptions extends StopOptions {
  /** The signal that asks the program to stop. Default: SIGTERM. */
  readonly killSignal?: NodeJS.Signals
}

export interface ExecCaptureOptions {
  /** For people: shown with the capture. */
  readonly label?: string
}

const knownResult = namesOf<{ readonly signal?: AbortSignal }>()('signal')
const knownCapture = namesOf<ExecCaptureOptions>()('label')

/** A running program. */
export class ExecRun {
  /** The program's name: it runs once at a time. */
  readonly id: string
  readonly timeline: string
  readonly #execution: Execution
  readonly #ended: Promise<ExecResult>

  /** @internal */
  constructor(host: Host, name: string, execution: Execution) {
    this.id = name
    this.timeline = `exec/${name}`
    this.#execution = execution
    this.#ended = execution.run()
    const forget = host.onClose(async () => {
      execution.stop('SIGTERM')
      await this.#ended.catch(() => undefined)
    })
    this.#ended.then(forget, forget)
  }

  /** Resolves when its files are restored and its process runs; rejects if it failed before. */
  async started(options: { readonly signal?: AbortSignal } = {}): Promise<this> {
    checkOptions('started', options, knownResult)
    await this.#execution.beginning.wait(this.#ended, options.signal, this.timeline)
    return this
  }

  /** Resolves when the program has ended and its complete files are captured. `signal` ends the wait, not the program. */
  async result(options: { readonly signal?: AbortSignal } = {}): Promise<ExecResult> {
    checkOptions('result', options, knownResult)
    return await unlessAborted(this.#ended, options.signal, `waiting for ${this.timeline}`)
  }

  /** The current process and its captures. */
  status(): ExecStatus {
    return this.#execution.status()
  }

  /**
   * Asks the program to stop, and kills it after `timeout` (default: `grace` of the definition). A second call kills it at once.
   * Resolves like `result`.
   */
  async stop(options: ExecStopOptions = {}): Promise<ExecResult> {
    checkStop(options, ['killSignal'])
    const { reason, timeout, signal, killSignal = 'SIGTERM' } = options
    this.#execution.stop(killSignal, {
      reason: reason ?? null,
      ...(timeout !== undefined && { graceMs: toMs(timeout, 'timeout') }),
    })
    return await unlessAborted(this.#ended, signal, `waiting for ${this.timeline} to stop`)
  }

  /** Forwards a signal that does not stop the program. */
  signal(signal: NodeJS.Signals): void {
    this.#execution.signal(signal)
  }

  /**
   * Captures the current files now, and returns the sequence of the capture. CONFLICT if a file changes meanwhile or is open for
   * writing, or if the program does not run at this moment.
   */
  async checkpoint(options: ExecCaptureOptions = {}): Promise<{ readonly seq: number }> {
    return await this.#capture('checkpoint', options, false)
  }

  /** The same, and keeps the capture until it is released. */
  async savepoint(options: ExecCaptureOptions = {}): Promise<{ readonly seq: number }> {
    return await this.#capture('savepoint', options, true)
  }

  async #capture(verb: string, options: ExecCaptureOptions, isSavepoint: boolean): Promise<{ readonly seq: number }> {
    checkOptions(verb, options, knownCapture)
    const answer = await this.#execution.capture(options.label ?? '', isSavepoint)
    const [, seq] = /^captured (\d+)$/.exec(answer) ?? []
    if (seq === undefined)
      throw new RepriseError('CONFLICT', `${this.timeline}: ${answer}`, { timeline: this.timeline })
    return { seq: Number(seq) }
  }
}
