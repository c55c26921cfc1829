// Definitions whose runs can be started here: those that this process has, and workflows that live workers have announced.

import type { Reprise } from '../engine/api/reprise.ts'
import { hostOf } from '../engine/host/host.ts'
import { runs } from '../engine/model/definition.ts'
import { describes, type Model } from '../engine/model/model.ts'
import { isStandardSchema, jsonSchemaOf } from '../engine/model/schema.ts'
import { hostOf as workflowsOf } from '../layers/workflow/host.ts'
import { queueOf } from '../layers/workflow/names.ts'
import type { StartOptions } from '../layers/workflow/options.ts'
import { announcedBy } from '../layers/workflow/without-code.ts'
import { workersNow } from './workers.ts'

type JsonSchema = Readonly<Record<string, unknown>>

/** A definition of this process that can be run. */
interface Runnable {
  readonly name: string
  readonly options?: { readonly input?: unknown }
  readonly [describes]: Model
  [runs](engine: unknown, input: unknown, options: Readonly<Record<string, unknown>>): unknown
}

export interface StartableDefinition {
  readonly kind: string
  readonly name: string
  /** The scope of its timelines. */
  readonly scope: string
  /** True if this process has its code. */
  readonly isHere: boolean
  /** Live workers that execute its runs; null: the process that starts a run executes it. */
  readonly workers: number | null
  /** JSON Schema of its input; null: none, or its library does not export one. */
  readonly schema: JsonSchema | null
  start(input: unknown, options: Readonly<Record<string, unknown>>): Promise<unknown>
}

/** Ordered by name. */
export async function startable(engine: Reprise, definitions: readonly unknown[]): Promise<StartableDefinition[]> {
  const found = new Map<string, StartableDefinition>()
  const workers = (await workersNow(engine)).filter(({ isAlive }) => isAlive)
  for (const definition of definitions.filter(isRunnable)) {
    const { kind, scope } = definition[describes]
    const { name, options } = definition
    const isWorkflow = kind === 'workflow'
    found.set(`${kind} ${name}`, {
      ...{ kind, name, scope, isHere: true },
      workers: isWorkflow
        ? workers.filter(({ info }) => Object.hasOwn(info, `queue ${queueOf(definition)}`)).length
        : null,
      schema: isStandardSchema(options?.input) ? jsonSchemaOf(options.input) : null,
      start: async (input, chosen) => await definition[runs](hostOf(engine), input, chosen),
    })
  }
  for (const worker of workers) {
    for (const [name, { definition, schema = null }] of announcedBy(worker)) {
      const known = found.get(`workflow ${name}`)
      if (known?.isHere) continue
      found.set(`workflow ${name}`, {
        ...{ kind: 'workflow', name, scope: definition.prefix, isHere: false },
        workers: (known?.workers ?? 0) + 1,
        schema,
        start: (input, chosen) => workflowsOf(hostOf(engine)).run(definition, input, chosen as StartOptions),
      })
    }
  }
  return [...found.values()].sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0))
}

function isRunnable(value: unknown): value is Runnable {
  if (typeof value !== 'object' || value === null) return false
  const { name, [runs]: run, [describes]: model } = value as Partial<Runnable>
  return typeof name === 'string' && typeof run === 'function' && model !== undefined && !Array.isArray(model)
}
