// The shapes of a run's entries (entries.ts) and of its mail (run/mail.ts). History may be imported and mail may come
// from any program, so data with another shape is refused with its name here, before code relies on it.

import { faultIn, type Shape, type Shapes } from '../../../core/data-shape.ts'
import { RepriseError } from '../../../core/errors.ts'

const byId: Shape = { id: 'text' }
const ended: Shape = { id: 'text', error: 'object', ms: 'number?', after: 'list?', since: 'number?' }
const tried: Shape = { id: 'text', n: 'number', at: 'number', ms: 'number?', error: 'object?' }
const back: Shape = { to: 'text', seq: 'number?' }
const rollbackRequest: Shape = { ...back, consumed: 'list?', deadline: 'number?', key: 'text?' }

const entries: Shapes = {
  started: {
    ...{ behaviour: 'number?', deadline: 'number?', queue: 'object?', parent: 'object?' },
    ...{ identity: 'text?', life: 'number?' },
  },
  'started.queue': { name: 'text', key: 'text?' },
  'started.parent': { timeline: 'text', command: 'text' },
  waits: {},
  began: byId,
  retry: tried,
  beat: byId,
  done: { id: 'text', ms: 'number?', after: 'list?', since: 'number?' },
  failed: ended,
  timer: byId,
  signal: { name: 'text' },
  update: { update: 'text', name: 'text' },
  updated: { update: 'text', error: 'object?' },
  child: { id: 'text', error: 'object?' },
  patched: byId,
  rode: byId,
  loop: { id: 'text', n: 'number', took: 'list' },
  cancel: { reason: 'text', why: 'text' },
  undoing: byId,
  'undo.retry': tried,
  stuck: ended,
  undone: byId,
  restored: { to: 'text', error: 'object?' },
  resumed: {},
  held: byId,
  settled: byId,
  continued: { took: 'list?', deadline: 'number?' },
  rollback: rollbackRequest,
  undo: { reason: 'text', deadline: 'number?' },
  rolled: back,
  rerun: { to: 'text', deadline: 'number?', consumed: 'list?', key: 'text?' },
  rerunning: { ids: 'list', took: 'list' },
  reused: byId,
  unkept: { error: 'object' },
  retried: { ids: 'list', deadline: 'number?' },
  forked: { identity: 'text?', life: 'number?', seed: 'text?', after: 'number?' },
  admitted: {},
  completed: {},
  'ended-badly': { error: 'object' },
  terminated: { reason: 'text' },
}

const mail: Shapes = {
  signal: { name: 'text' },
  update: { name: 'text' },
  cancel: { reason: 'text' },
  terminate: { reason: 'text' },
  child: { command: 'text', error: 'object?' },
  settle: { id: 'text', outcome: 'text', error: 'object?' },
  resume: { by: 'text?' },
  rollback: rollbackRequest,
  rerun: { to: 'text', consumed: 'list?', key: 'text?' },
}

/** Throws MALFORMED. Unknown types are not checked. */
export function checkEntry(type: string, data: unknown): void {
  const shape = Object.hasOwn(entries, type) ? entries[type] : undefined
  let fault = shape ? faultIn(data, shape) : null
  if (fault === null && type === 'started') {
    const { queue, parent, seed } = data as Record<'queue' | 'parent' | 'seed', unknown>
    if (!['number', 'string', 'undefined'].includes(typeof seed)) fault = 'its seed must be a number or text'
    if (queue !== undefined && queue !== null) fault ??= faultIn(queue, entries['started.queue']!)
    if (parent !== undefined && parent !== null) fault ??= faultIn(parent, entries['started.parent']!)
  }
  if (fault !== null) throw new RepriseError('MALFORMED', `an entry of the type ${type}: ${fault}`, { type })
}

/** The reason why a message is malformed. Null if it is valid, or its kind is unknown. */
export function mailFault(kind: string, data: unknown): string | null {
  const shape = Object.hasOwn(mail, kind) ? mail[kind] : undefined
  const fault = shape ? faultIn(data, shape) : null
  if (fault !== null || kind !== 'child') return fault
  const { command } = data as { readonly command: string }
  return /^\d+:./.test(command) ? null : 'its command must be GENERATION:ID'
}
