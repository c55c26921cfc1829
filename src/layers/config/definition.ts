// Configuration that is pushed to clients, each of which accepts or refuses every version. `config(name)` is the definition.

import { type Duration, toMs } from '../../core/duration.ts'
import { RepriseError } from '../../core/errors.ts'
import { checkOptions, namesOf } from '../../core/options.ts'
import type { Host } from '../../engine/host/host.ts'
import { checkName, type Entity, type OpenOptions, opens, type Workable, works } from '../../engine/model/definition.ts'
import { type Described, describes } from '../../engine/model/model.ts'
import type { StandardSchema } from '../../engine/model/schema.ts'
import { ConfigHandle } from './handle.ts'
import { configModels } from './model.ts'
import { OpenConfig } from './open-config.ts'
import { RolloutRunner } from './runner.ts'

export interface ConfigOptions<Value = unknown> {
  /** Validates every value before it becomes a version. */
  readonly schema?: StandardSchema<unknown, Value>
  /** A client not seen for this long is removed and no longer counts. Default: an hour. */
  readonly forgetAfter?: Duration
}

export interface ConfigDefinition<Value = unknown> extends Entity<ConfigHandle<Value>, undefined>, Workable, Described {
  readonly kind: 'config'
  readonly name: string
}

/** @internal For tools that receive all definitions of a program. */
export function isConfig(value: unknown): value is ConfigDefinition {
  return typeof value === 'object' && value !== null && describes in value && Reflect.get(value, 'kind') === 'config'
}

const known = namesOf<ConfigOptions>()('schema forgetAfter')
const forgetAfterUsual = '1h'
const forgetAfterMsMin = 100
const againMs = 1000

/** @example const routes = config<{ upstream: string }>('routes', { forgetAfter: '1h' }) */
export function config<Value = unknown>(name: string, options: ConfigOptions<Value> = {}): ConfigDefinition<Value> {
  checkName('configuration', name)
  checkOptions(`config ${name}`, options, known)
  const forgetAfterMs = toMs(options.forgetAfter ?? forgetAfterUsual, 'forgetAfter')
  if (forgetAfterMs < forgetAfterMsMin) {
    throw new RepriseError('INVALID_ARGUMENT', `forgetAfter must be at least ${forgetAfterMsMin} ms`, { forgetAfterMs })
  }
  // One per engine, shared by all handles and the rollouts.
  const opened = new WeakMap<Host, Promise<OpenConfig>>()
  const openOf = (engine: Host) => {
    const opening = opened.get(engine) ?? OpenConfig.open(engine, name, forgetAfterMs)
    opened.set(engine, opening)
    opening.catch(() => opened.delete(engine))
    return opening
  }
  const working = new WeakSet<Host>()
  return {
    [describes]: configModels(name),
    kind: 'config',
    canShare: true,
    name,
    async [opens](engine: Host, id: string | undefined, _: OpenOptions) {
      if (id !== undefined) {
        throw new RepriseError('INVALID_ARGUMENT', `open(${name}): a configuration has no id; declare one per name`, {
          id,
        })
      }
      return new ConfigHandle<Value>(await openOf(engine), options.schema)
    },
    [works](engine: Host) {
      if (working.has(engine)) return
      working.add(engine)
      let isClosed = false
      const start = () => {
        if (isClosed) return
        openOf(engine).then(
          (open) => isClosed || new RolloutRunner(open),
          (error) => {
            if (isClosed) return
            engine.events.emit('problem', { where: `config/${name}`, error })
            engine.clock.after(againMs, start)
          },
        )
      }
      engine.onClose(async () => {
        isClosed = true
      })
      start()
    },
  }
}
