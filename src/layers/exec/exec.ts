// A program in any language, as a definition: `rp.run(exec(…))` starts it with the files of its last capture.

import { checkOptions, namesOf } from '../../core/options.ts'
import type { Host } from '../../engine/host/host.ts'
import { checkName, type Process, runs } from '../../engine/model/definition.ts'
import { type Described, describes } from '../../engine/model/model.ts'
import type { ExecResult } from './events.ts'
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
 * const train = exec('train', { command: ['python', 'train.py'], state: 'ckpt', keep: 5, retries: 3 })
 * const { exitCode } = await (await rp.run(train)).result()
 */
export function exec(name: string, options: ExecOptions): ExecDefinition {
  checkName('exec', name)
  const spec = specOf(name, options)
  const model = execModel(name, spec.keep)
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
      return new ExecRun(engine, new Execution(engine, spec, runOptions), model.scope)
    },
  }
}

/** A running program. */
export class ExecRun {
  /** Its timeline. */
  readonly id: string
  readonly #execution: Execution
  readonly #ended: Promise<ExecResult>

  /** @internal */
  constructor(host: Host, execution: Execution, id: string) {
    this.id = id
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
    await this.#execution.beginning.wait(this.#ended, options.signal, this.id)
    return this
  }

  /** Resolves when the program has ended and its complete files are captured. */
  result(): Promise<ExecResult> {
    return this.#ended
  }

  /** Forwards the signal and starts the grace time. A second call kills the program. Resolves like `result`. */
  async stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<ExecResult> {
    this.#execution.stop(signal)
    return await this.#ended
  }

  /** Forwards a signal that does not stop the program. */
  signal(signal: NodeJS.Signals): void {
    this.#execution.signal(signal)
  }

  /** Captures the current files if they do not change meanwhile. Resolves with "captured SEQ", or "refused" and the reason. */
  async capture(label = ''): Promise<string> {
    return await this.#execution.capture(label, false)
  }

  /** The same, and keeps the capture until it is released. */
  async savepoint(label = ''): Promise<string> {
    return await this.#execution.capture(label, true)
  }
}
