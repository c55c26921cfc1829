// Actions on a timeline: each dialog shows the effect, the required role and the equivalent command, and only then acts. A
// rollback is planned first: the plan is shown, and refused if history has moved since.

import { useEffect, useState } from 'preact/hooks'
import { at, type Problem, post, problemOf } from './api.ts'
import { awaitedCall, awaitedSignal, DecideDialog, keepPayload } from './awaited.tsx'
import { type Field, faultsIn, Input, type Values } from './form.tsx'
import { count, exact, quoted } from './format.ts'
import { RerunDialog } from './rerun.tsx'
import { go, hrefOf } from './route.ts'
import { whyNot } from './session.ts'
import type { Role, Timeline } from './types.ts'
import { Button, CommandLine, Dialog, Problems, toast } from './ui.tsx'

export interface Asked {
  readonly verb: string
  readonly more: Readonly<Record<string, unknown>>
}

interface Spec {
  readonly title: string
  readonly role: Role
  readonly words: string
  readonly tone?: 'danger'
  readonly fields: readonly Field[]
  /** Fields that only some timelines have. */
  more?(timeline: Timeline): readonly Field[]
  command(id: string, values: Values): string
  body(values: Values): Record<string, unknown>
}

const reason: Field = { name: 'reason', label: 'Why, for the record', isOptional: true }

const specs: Readonly<Record<string, Spec>> = {
  stop: {
    title: 'Stop',
    role: 'operate',
    words:
      'A pipeline stops with a savepoint, a job after its items in flight. It stays stopped until somebody resumes it or runs it again.',
    fields: [reason],
    command: (id) => `reprise stop ${quoted(id)}`,
    body: (values) => ({ reason: values.reason || 'stopped in the dashboard' }),
  },
  cancel: {
    title: 'Cancel',
    role: 'operate',
    words:
      'A workflow compensates its steps and ends. A job finishes its items in flight, and a pipeline ends at once, without a savepoint.',
    tone: 'danger',
    fields: [reason],
    command: (id) => `reprise cancel ${quoted(id)}`,
    body: (values) => ({ reason: values.reason || 'cancelled in the dashboard' }),
  },
  terminate: {
    title: 'Terminate',
    role: 'operate',
    words: 'The run ends at once, without compensation.',
    tone: 'danger',
    fields: [reason],
    command: (id) => `reprise terminate ${quoted(id)}`,
    body: (values) => ({ reason: values.reason || 'terminated in the dashboard' }),
  },
  retry: {
    title: 'Retry',
    role: 'operate',
    words: 'It resumes where it stopped or failed. Finished steps and items are not repeated.',
    fields: [],
    command: (id) => `reprise retry ${quoted(id)}`,
    body: () => ({}),
  },
  signal: {
    title: 'Send a signal',
    role: 'operate',
    words: 'The signal is durable once the server answers; the run reads it when it waits for it.',
    fields: [
      { name: 'name', label: 'Name of the signal' },
      { name: 'value', label: 'Value', hint: 'JSON, or left empty', isJson: true, isOptional: true },
    ],
    command: (id, { name = '', value = '' }) =>
      `reprise signal ${quoted(id)} ${quoted(name || 'NAME')} ${value && quoted(value)}`.trim(),
    body: ({ name, value }) => ({ name, ...(value && { value: JSON.parse(value) }) }),
  },
  settle: {
    title: 'Settle a step',
    role: 'operate',
    words: 'Records the outcome of a step in doubt. The run continues with it.',
    fields: [
      { name: 'step', label: 'Step' },
      { name: 'outcome', label: 'It was', options: ['done', 'failed', 'retry', 'compensated'] },
      { name: 'result', label: 'Its result', hint: 'JSON, for done', isJson: true, isOptional: true },
    ],
    command: (id, { step = '', outcome = '' }) => `reprise settle ${quoted(id)} ${quoted(step || 'STEP')} ${outcome}`,
    body: ({ step, outcome, result }) => ({ step, outcome, ...(result && { result: JSON.parse(result) }) }),
  },
  decide: {
    title: 'Decide',
    role: 'operate',
    words: 'The session waits for a decision, which takes effect when it resumes.',
    fields: [{ name: 'verdict', label: 'Verdict', options: ['approve', 'refuse', 'replay', 'done', 'retry'] }, reason],
    command: (id, { verdict = '' }) => `reprise decide ${quoted(id)} ${verdict}`,
    body: ({ verdict, reason: why }) => ({ verdict, ...(why && { reason: why }) }),
  },
  redrive: {
    title: 'Send dead letters back',
    role: 'operate',
    words: 'Dead letters are retried: all of them, or only these keys.',
    fields: [{ name: 'keys', label: 'Keys', hint: 'one per line; empty: all', isOptional: true }],
    command: (id, { keys = '' }) =>
      `reprise redrive ${quoted(id)} ${keys.split('\n').filter(Boolean).map(quoted).join(' ')}`.trim(),
    body: ({ keys = '' }) => (keys.trim() === '' ? {} : { keys: keys.split('\n').filter(Boolean) }),
  },
  fork: {
    title: 'Fork',
    role: 'write',
    words: 'A new timeline that shares the history up to this entry. The original is not changed.',
    fields: [
      {
        name: 'seq',
        label: 'After entry',
        hint: 'empty: the last one; with another input, the first',
        isOptional: true,
      },
      { name: 'to', label: 'Name of the fork', hint: 'without a slash: beside this one' },
    ],
    more: ({ edits }) =>
      edits === null
        ? []
        : [
            {
              ...{ name: 'name', label: `Edited ${edits.names}`, isOptional: true, goesWith: 'value' },
              hint:
                edits.names === 'step'
                  ? 'the fork starts just before its outcome'
                  : 'by its name; empty: nothing is edited',
            },
            {
              ...{ name: 'value', label: 'Goes on with', isJson: true, isOptional: true, goesWith: 'name' },
              hint: 'JSON that replaces the recorded value',
            },
            ...(edits.input
              ? [{ name: 'input', label: 'Input', hint: 'JSON; empty: the same', isJson: true, isOptional: true }]
              : []),
          ],
    command: (id, { seq, to, name, value, input }) =>
      [
        `reprise fork ${quoted(seq ? `${id}@${seq}` : id)} ${quoted(to || 'NEW')}`,
        ...(name ? [`--set ${quoted(`${name}=${value}`)}`] : []),
        ...(input ? [`--input ${quoted(input)}`] : []),
      ].join(' '),
    body: ({ seq, to, name, value, input }) => ({
      to,
      ...(seq && { seq: Number(seq) }),
      ...(name && value && { set: Object.fromEntries([[name, JSON.parse(value)]]) }),
      ...(input && { input: JSON.parse(input) }),
    }),
  },
  savepoints: {
    title: 'Savepoint',
    role: 'operate',
    words: 'The state is captured and kept until it is released.',
    fields: [
      { name: 'seq', label: 'After entry' },
      { name: 'label', label: 'Label', isOptional: true },
    ],
    command: (id, { seq }) => `reprise savepoint ${quoted(`${id}@${seq}`)}`,
    body: ({ seq, label }) => ({ seq: Number(seq), ...(label && { label }) }),
  },
}

/** The verbs with a button at the top; the others are in the panel of an entry. */
export const buttons: readonly (readonly [verb: string, label: string])[] = [
  ['signal', 'Signal…'],
  ['decide', 'Decide…'],
  ['redrive', 'Redrive…'],
  ['retry', 'Retry…'],
  ['rerun', 'Re-run…'],
  ['stop', 'Stop…'],
  ['cancel', 'Cancel…'],
  ['terminate', 'Terminate…'],
  ['fork', 'Fork…'],
]

/** A job that stopped is resumed by the verb that retries one that failed. */
export function labelOf(verb: string, label: string, { status }: Timeline): string {
  return verb === 'retry' && status === 'stopped' ? label.replace('Retry', 'Resume') : label
}

export function roleOf(verb: string): Role {
  return verb === 'rollback' ? 'write' : (specs[verb]?.role ?? 'operate')
}

export function ActionDialog({ asked, timeline, onClose }: { asked: Asked; timeline: Timeline; onClose: () => void }) {
  if (asked.verb === 'rollback')
    return <RollbackDialog timeline={timeline} seq={Number(asked.more.seq)} onClose={onClose} />
  if (asked.verb === 'rerun') return <RerunDialog timeline={timeline} onClose={onClose} />
  if (asked.verb === 'decide' && awaitedCall(timeline)) return <DecideDialog timeline={timeline} onClose={onClose} />
  const spec = specs[asked.verb]
  return spec ? <PlainDialog spec={spec} asked={asked} timeline={timeline} onClose={onClose} /> : null
}

function PlainDialog({
  spec,
  asked,
  timeline,
  onClose,
}: {
  spec: Spec
  asked: Asked
  timeline: Timeline
  onClose: () => void
}) {
  const title = labelOf(asked.verb, spec.title, timeline)
  const given: Record<string, unknown> = {
    ...(asked.verb !== 'fork' && { seq: timeline.seq }),
    ...(asked.verb === 'signal' && awaitedSignal(timeline)),
    ...asked.more,
  }
  const fields = [...spec.fields, ...(spec.more?.(timeline) ?? [])]
  const [values, setValues] = useState<Values>(() =>
    Object.fromEntries(fields.map(({ name, options }) => [name, String(given[name] ?? options?.[0] ?? '')])),
  )
  const [problem, setProblem] = useState<Problem | null>(null)
  const [isBusy, setBusy] = useState(false)
  const no = whyNot(spec.role)
  const faults = faultsIn(fields, values)
  const act = async () => {
    setBusy(true)
    try {
      const done = await post<{ text?: string; timeline?: string }>(
        at(timeline.timeline, asked.verb),
        spec.body(values),
      )
      toast(done.text ?? `${title}: done`)
      if (asked.verb === 'signal') keepPayload(timeline, values)
      onClose()
      if (asked.verb === 'fork' && done.timeline) go(hrefOf(['t', done.timeline]))
    } catch (error) {
      setProblem(problemOf(error))
      setBusy(false)
    }
  }
  return (
    <Dialog title={title} onClose={onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault()
          if (!no && faults.length === 0 && !isBusy) void act()
        }}
      >
        <p>{spec.words}</p>
        {fields.map((field) => (
          <Input
            key={field.name}
            field={field}
            value={values[field.name] ?? ''}
            onChange={(value) => setValues((now) => ({ ...now, [field.name]: value }))}
          />
        ))}
        <Problems problem={problem} />
        {no && <p class="why-not">{no}</p>}
        <CommandLine command={spec.command(timeline.timeline, values)} />
        <footer>
          <Button onClick={onClose}>Leave it</Button>
          <button
            type="submit"
            class={`button ${spec.tone ?? 'primary'}`}
            disabled={no !== undefined || faults.length > 0 || isBusy}
            title={faults.join('\n') || undefined}
          >
            {title}
          </button>
        </footer>
      </form>
    </Dialog>
  )
}

interface Plan {
  readonly from: number
  readonly to: number
  readonly about: { readonly seq: number; readonly digest: string }
  readonly because: string
  readonly found: { readonly seq: number; readonly type: string; readonly time: number }
  readonly undone: {
    readonly entries: number
    readonly types: Readonly<Record<string, number>>
    readonly did: readonly string[]
    readonly effects: Readonly<Record<'compensate' | 'cannot' | 'inDoubt', readonly { readonly name: string }[]>>
    readonly consumers: readonly { readonly what: string }[]
  }
}

function RollbackDialog({ timeline, seq, onClose }: { timeline: Timeline; seq: number; onClose: () => void }) {
  const id = timeline.timeline
  const [plan, setPlan] = useState<Plan | null>(null)
  const [problem, setProblem] = useState<Problem | null>(null)
  const [isBusy, setBusy] = useState(false)
  const [isForced, setForced] = useState(false)
  const isConsumed = (plan?.undone.consumers.length ?? 0) > 0
  const look = () => {
    setProblem(null)
    post<Plan>(at(id, 'rollback', 'plan'), { seq }).then(setPlan, (error) => setProblem(problemOf(error)))
  }
  useEffect(look, [id, seq])
  const act = async () => {
    setBusy(true)
    try {
      await post(at(id, 'rollback'), {
        from: plan!.from,
        to: plan!.to,
        about: plan!.about,
        ...(isForced && { consumed: 'force' }),
      })
      toast(`${id} goes on from ${plan!.to}`)
      onClose()
    } catch (error) {
      setPlan(null)
      setProblem(problemOf(error))
      setBusy(false)
    }
  }
  const no = whyNot('write')
  return (
    <Dialog title={`Roll back to entry ${seq}`} onClose={onClose} isWide>
      {!plan && !problem && <p class="loading">Planning…</p>}
      <Problems problem={problem} retry={look} />
      {plan && (
        <div class="plan">
          <p>
            It goes on from entry <b>{plan.to}</b>. <b>{count(plan.undone.entries)}</b> of {count(plan.from)} entries no
            longer count, from {plan.found.type} at {exact(plan.found.time)} on: {plan.because}.
          </p>
          <ul class="types">
            {Object.entries(plan.undone.types).map(([type, number]) => (
              <li key={type}>
                <code>{type}</code> {count(number)}
              </li>
            ))}
          </ul>
          <PlanList title="Outside effects, as the model reports them" items={plan.undone.did} />
          <PlanList
            title="Will be compensated, in this order"
            items={plan.undone.effects.compensate.map(({ name }) => name)}
          />
          <PlanList title="Cannot be undone" items={plan.undone.effects.cannot.map(({ name }) => name)} isBad />
          <PlanList
            title="In doubt: settle these first"
            items={plan.undone.effects.inDoubt.map(({ name }) => name)}
            isBad
          />
          <PlanList title="Others have acted on it" items={plan.undone.consumers.map(({ what }) => what)} isBad />
          {isConsumed && (
            <label>
              <input type="checkbox" checked={isForced} onInput={() => setForced(!isForced)} /> Roll back all the same;
              they are recorded
            </label>
          )}
        </div>
      )}
      {no && <p class="why-not">{no}</p>}
      <CommandLine command={`reprise rollback ${quoted(`${id}@${seq}`)}${isForced ? ' --even-consumed' : ''}`} />
      <footer>
        <Button onClick={onClose}>Leave it</Button>
        <Button
          tone="danger"
          disabled={!plan || no !== undefined || isBusy || (isConsumed && !isForced)}
          onClick={() => void act()}
        >
          Roll back
        </Button>
      </footer>
    </Dialog>
  )
}

function PlanList({ title, items, isBad }: { title: string; items: readonly string[]; isBad?: boolean }) {
  if (items.length === 0) return null
  return (
    <section class={isBad ? 'bad' : ''}>
      <h3>{title}</h3>
      <ol>
        {items.map((item, i) => (
          <li key={i}>{item}</li>
        ))}
      </ol>
    </section>
  )
}
