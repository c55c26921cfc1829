// Queries over runs by attribute, and bulk operations on the runs that match.

import { checkGivenOptions, namesOf } from '../../../core/options.ts'
import type { Attribute, Head } from '../../../core/store/ports.ts'
import { hostOf as engineHostOf, type Host } from '../../../engine/host/host.ts'
import type { Engine } from '../../../engine/model/definition.ts'
import type { AnyWorkflow, WorkflowCode } from '../context.ts'
import { hostOf } from '../host.ts'
import { type Carried, messageName, type SignalDefinition } from '../messages.ts'
import { workflowKind } from '../model.ts'
import { nameOf, workflowPrefix } from '../names.ts'
import type { RunRollbackOptions } from './rollback-options.ts'
import { WorkflowRun } from './run.ts'

export interface RunQuery {
  readonly status?: string
  readonly attributes?: Readonly<Record<string, Attribute>>
  readonly limit?: number
}

export interface RunSummary {
  readonly id: string
  readonly workflow: string
  readonly timeline: string
  readonly status: string
  readonly attributes: Head['attributes']
  readonly createdAt: number
  readonly updatedAt: number
}

/** The outcome for each run of a batch. */
export interface BatchReport {
  readonly done: readonly string[]
  readonly refused: readonly { readonly id: string; readonly why: string }[]
}

/** @example await workflows(rp).of(checkout).cancel({ attributes: { shop: 'a' } }, { reason: 'shop closed' }) */
export function workflows(rp: Engine): Workflows {
  const engine = engineHostOf(rp)
  engine.declare(workflowKind)
  return new Workflows(engine)
}

export class Workflows {
  readonly #engine: Host

  /** @internal */
  constructor(engine: Host) {
    this.#engine = engine
  }

  /** Lists runs of every workflow. */
  async list(query: RunQuery = {}): Promise<RunSummary[]> {
    return (await find(this.#engine, workflowPrefix, query)).map(summaryOf)
  }

  of<Output = unknown>(definition: WorkflowCode<never, Output>): WorkflowRuns<Output> {
    return new WorkflowRuns<Output>(this.#engine, definition as AnyWorkflow)
  }
}

export class WorkflowRuns<Output> {
  readonly #engine: Host
  readonly #definition: AnyWorkflow

  /** @internal */
  constructor(engine: Host, definition: AnyWorkflow) {
    this.#engine = engine
    this.#definition = definition
  }

  get(id: string): WorkflowRun<Output> {
    return new WorkflowRun<Output>(hostOf(this.#engine), this.#definition, id)
  }

  async list(query: RunQuery = {}): Promise<RunSummary[]> {
    return (await find(this.#engine, this.#definition.prefix, query)).map(summaryOf)
  }

  async cancel(query: RunQuery, options: { readonly reason?: string } = {}): Promise<BatchReport> {
    return await this.#each(query, (run) => run.cancel(options))
  }

  async terminate(query: RunQuery, options: { readonly reason?: string } = {}): Promise<BatchReport> {
    return await this.#each(query, (run) => run.terminate(options))
  }

  signal<T>(query: RunQuery, signal: SignalDefinition<T>, ...value: Carried<T>): Promise<BatchReport>
  signal(query: RunQuery, name: string, value?: unknown): Promise<BatchReport>
  async signal(query: RunQuery, signal: string | SignalDefinition<unknown>, value?: unknown): Promise<BatchReport> {
    return await this.#each(query, (run) => run.signal(messageName(signal), value))
  }

  async retry(query: RunQuery): Promise<BatchReport> {
    return await this.#each(query, (run) => run.retry())
  }

  async rollback(query: RunQuery, options: Pick<RunRollbackOptions, 'to'>): Promise<BatchReport> {
    return await this.#each(query, (run) => run.rollback(options))
  }

  async fork(query: RunQuery, from: string, options: { readonly input?: unknown } = {}): Promise<BatchReport> {
    return await this.#each(query, (run) => run.fork(from, options))
  }

  async #each(query: RunQuery, act: (run: WorkflowRun<Output>) => Promise<unknown>): Promise<BatchReport> {
    const done: string[] = []
    const refused: { id: string; why: string }[] = []
    const host = hostOf(this.#engine)
    for (const head of await find(this.#engine, this.#definition.prefix, query)) {
      const { id } = summaryOf(head)
      try {
        await act(new WorkflowRun<Output>(host, this.#definition, id, head.life))
        done.push(id)
      } catch (error) {
        refused.push({ id, why: error instanceof Error ? error.message : String(error) })
      }
    }
    return { done, refused }
  }
}

const knownQuery = namesOf<RunQuery>()('status attributes limit')
const pageSize = 500
const limitDefault = 10_000

/** Runs that wait in this process's memory are treated as waiting, although their stored status is `running`. */
async function find(engine: Host, prefix: string, query: RunQuery): Promise<Head[]> {
  checkGivenOptions('the runs', query, knownQuery)
  const found = await findStored(engine, prefix, query)
  if (query.status !== 'waiting') return found
  const running = await findStored(engine, prefix, { ...query, status: 'running' })
  const host = hostOf(engine)
  const asleep = running
    .filter(({ timeline }) => host.isAsleep(timeline))
    .map((head) => ({ ...head, status: 'waiting' }))
  return [...found, ...asleep].slice(0, query.limit ?? limitDefault)
}

async function findStored(engine: Host, prefix: string, query: RunQuery): Promise<Head[]> {
  const { status, attributes, limit = limitDefault } = query
  const found: Head[] = []
  while (found.length < limit) {
    const after = found.at(-1)
    const page = await engine.list({
      prefix,
      limit: Math.min(pageSize, limit - found.length),
      ...(status !== undefined && { status }),
      ...(attributes && { attributes }),
      ...(after && { after: after.timeline }),
    })
    found.push(...page)
    if (page.length < pageSize) break
  }
  return found
}

function summaryOf(head: Head): RunSummary {
  const { timeline, status, attributes, createdAt, updatedAt } = head
  const workflow = nameOf(timeline)
  const id = timeline.slice(workflowPrefix.length + workflow.length + 1)
  return { id, workflow, timeline, status, attributes, createdAt, updatedAt }
}
