// Starts a run: a definition of the server or of a live worker, a form for its input, and an id under which it starts once.

import { useEffect, useRef, useState } from 'preact/hooks'
import { type Problem, post, problemOf } from './api.ts'
import { type Field, faultsIn, Input, type Values } from './form.tsx'
import { count, quoted } from './format.ts'
import { useGet } from './loading.ts'
import { go, hrefOf } from './route.ts'
import { fieldsOf, inputOf, type JsonSchema, refusalsOf, startValues } from './schema-form.ts'
import { whyNot } from './session.ts'
import { Button, CommandLine, Dialog, Empty, Problems, toast } from './ui.tsx'

export interface Definition {
  readonly kind: string
  readonly name: string
  readonly isHere: boolean
  readonly workers: number | null
  readonly schema: JsonSchema | null
  readonly example?: unknown
}

export function StartDialog({ name, onClose }: { name: string | null; onClose: () => void }) {
  const { value, problem, again } = useGet<{ definitions: readonly Definition[] }>('v1/definitions')
  const [chosen, setChosen] = useState(name)
  const all = value?.definitions ?? []
  const definition = all.find((each) => keyOf(each) === chosen) ?? all[0]
  const isThere = definition !== undefined
  // The dialog opens before its first field is known.
  useEffect(() => {
    if (isThere) document.getElementById('field-definition')?.focus()
  }, [isThere])
  return (
    <Dialog title="Start a run" onClose={onClose} isWide>
      <Problems problem={problem} retry={again} />
      {!value && !problem && <p class="loading">Loading…</p>}
      {value && all.length === 0 && <NoDefinitions />}
      {definition && (
        <>
          <div class="field">
            <label htmlFor="field-definition">Definition</label>
            <select
              id="field-definition"
              value={keyOf(definition)}
              onChange={(event) => setChosen(event.currentTarget.value)}
            >
              {all.map((each) => (
                <option key={keyOf(each)} value={keyOf(each)}>
                  {each.name} ({each.kind})
                </option>
              ))}
            </select>
            <small>{whoRuns(definition)}</small>
          </div>
          <StartForm key={keyOf(definition)} definition={definition} onClose={onClose} />
        </>
      )}
    </Dialog>
  )
}

function NoDefinitions() {
  return (
    <Empty title="Nothing can be started from here">
      <p>Neither this server nor a live worker has a definition. Run one of these, and it appears here:</p>
      <CommandLine command="npx reprise dev FILE" />
      <CommandLine command="npx reprise work FILE" />
    </Empty>
  )
}

function keyOf({ kind, name }: Definition): string {
  return `${kind} ${name}`
}

function whoRuns({ workers, isHere }: Definition): string {
  if (workers === null) return 'The server executes it.'
  if (workers === 0) return 'No live worker executes it now: the run waits for one.'
  return `${count(workers, 'live worker')} can execute it${isHere ? '' : '; the server does not have its code'}.`
}

const idField: Field = {
  name: 'id',
  label: 'Id',
  hint: 'empty: a new one. There is one run under an id: the same id and input start nothing twice',
  isOptional: true,
}

function StartForm({ definition, onClose }: { definition: Definition; onClose: () => void }) {
  const { schema, kind, name, example } = definition
  const fields = [...fieldsOf(schema), ...(kind === 'workflow' ? [idField] : [])]
  const [values, setValues] = useState<Values>(() => startValues(schema, example))
  const [problem, setProblem] = useState<Problem | null>(null)
  const [isBusy, setBusy] = useState(false)
  // The same key for every attempt with these values: an answer that was lost starts no second run.
  const key = useRef(crypto.randomUUID())
  const no = whyNot('write')
  const faults = faultsIn(fields, values)
  const refusals = refusalsOf(fields, problem?.data?.issues ?? [])
  const start = async () => {
    setBusy(true)
    try {
      const input = inputOf(schema, values)
      const body = { name, kind, ...(input !== undefined && { input }), ...(values.id && { id: values.id }) }
      const { timeline } = await post<{ timeline: string }>('v1/runs', body, key.current)
      toast(`started ${timeline}`)
      onClose()
      go(hrefOf(['t', timeline]))
    } catch (error) {
      setProblem(problemOf(error))
      setBusy(false)
    }
  }
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault()
        if (!no && faults.length === 0 && !isBusy) void start()
      }}
    >
      {fields.map((field) => (
        <Input
          key={field.name}
          field={field}
          value={values[field.name] ?? ''}
          refusal={refusals[field.name]}
          onChange={(value) => {
            key.current = crypto.randomUUID()
            setProblem(null)
            setValues((now) => ({ ...now, [field.name]: value }))
          }}
        />
      ))}
      {example !== undefined && <p class="dim">The input of an earlier run is filled in as an example.</p>}
      <Problems problem={problem} />
      {no && <p class="why-not">{no}</p>}
      <CommandLine command={commandOf(definition, values, faults.length === 0)} />
      <footer>
        <Button onClick={onClose}>Leave it</Button>
        <button
          type="submit"
          class="button primary"
          disabled={no !== undefined || faults.length > 0 || isBusy}
          title={faults.join('\n') || undefined}
        >
          Start
        </button>
      </footer>
    </form>
  )
}

function commandOf({ schema, name }: Definition, values: Values, isSound: boolean): string {
  const input = isSound ? inputOf(schema, values) : undefined
  const words = ['reprise', 'run', 'FILE', name]
  if (values.id) words.push('--id', values.id)
  if (input !== undefined) words.push('--input', JSON.stringify(input))
  return words.map(quoted).join(' ')
}
