// A workflow whose code is elsewhere. Its name is enough to send mail to a run and to read its history; with the announcement of
// a worker that has the code, its runs can be started. Such a definition is never executed.

import { RepriseError } from '../../core/errors.ts'
import { idBelow } from '../../core/history/scope.ts'
import type { WorkerRow } from '../../core/store/ports.ts'
import { jsonSchemaOf } from '../../engine/model/schema.ts'
import type { AnyWorkflow } from './context.ts'
import { workflowPrefix } from './names.ts'
import type { WorkflowOptions } from './options.ts'
import { queue } from './queue/queue.ts'

/** @example host.handle(withoutCode('checkout'), 'order-42').signal('paid') */
export function withoutCode(name: string, options: WorkflowOptions = {}): AnyWorkflow {
  return { kind: 'workflow', name, prefix: `${workflowPrefix}${name}/`, run: notHere, options }
}

export function isWithoutCode({ run }: AnyWorkflow): boolean {
  return run === notHere
}

function notHere(): never {
  throw new RepriseError('BUG', 'the code of this workflow is not available in this process')
}

/** Everything that the first entry of a run takes from its definition, and the form of its input. */
interface Announcement extends Pick<WorkflowOptions, 'timeout' | 'durability'> {
  readonly queue?: { readonly name: string; readonly options: object }
  /** JSON Schema. */
  readonly input?: Readonly<Record<string, unknown>> | null
}

/** A worker sends its announcements with every heartbeat: a larger schema is omitted. */
const announcedMax = 4000
const fieldPrefix = 'starts '

/** The field of a worker's row with the announcement of this workflow. */
export function announcedAs(name: string): string {
  return fieldPrefix + workflowPrefix + name
}

export function announcementOf({ options }: AnyWorkflow): string {
  const { timeout, durability, queue: waitsIn, input } = options
  const announced: Announcement = {
    ...(timeout !== undefined && { timeout }),
    ...(durability !== undefined && { durability }),
    ...(waitsIn && { queue: { name: waitsIn.name, options: waitsIn.options } }),
  }
  const whole = JSON.stringify({ ...announced, ...(input && { input: jsonSchemaOf(input) }) })
  return whole.length <= announcedMax ? whole : JSON.stringify({ ...announced, input: null })
}

export interface AnnouncedWorkflow {
  readonly definition: AnyWorkflow
  /** JSON Schema of its input; null: its schema is not known; undefined: the definition has none. */
  readonly schema: Readonly<Record<string, unknown>> | null | undefined
}

/** The workflows that a worker has announced, by name. A row that another program wrote is skipped. */
export function announcedBy({ info }: Pick<WorkerRow, 'info'>): Map<string, AnnouncedWorkflow> {
  const found = new Map<string, AnnouncedWorkflow>()
  for (const [field, text] of Object.entries(info)) {
    const name = idBelow(announcedAs(''), field)
    if (name === null) continue
    try {
      const { input, queue: waitsIn, ...options } = JSON.parse(String(text)) as Announcement
      const definition = withoutCode(name, {
        ...options,
        ...(waitsIn && { queue: queue(waitsIn.name, waitsIn.options) }),
      })
      found.set(name, { definition, schema: input })
    } catch {
      // A schema of another version, or a damaged one: the workflow is not offered.
    }
  }
  return found
}
