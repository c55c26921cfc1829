// Re-runs one step of a run: the list of its steps shows what each depends on, and the choice of one shows which steps would
// be repeated.

import { useEffect, useState } from 'preact/hooks'
import { at, get, type Problem, post, problemOf } from './api.ts'
import { quoted } from './format.ts'
import { whyNot } from './session.ts'
import type { Timeline } from './types.ts'
import { Button, CommandLine, Dialog, Problems, toast } from './ui.tsx'

interface Step {
  readonly id: string
  readonly step: string
  readonly outcome: 'done' | 'failed'
  readonly after: readonly string[]
  readonly repeats: readonly string[]
}

export function RerunDialog({ timeline, onClose }: { timeline: Timeline; onClose: () => void }) {
  const id = timeline.timeline
  const [steps, setSteps] = useState<readonly Step[] | null>(null)
  const [chosen, setChosen] = useState<Step | null>(null)
  const [problem, setProblem] = useState<Problem | null>(null)
  const [isBusy, setBusy] = useState(false)
  useEffect(() => {
    get<{ steps: readonly Step[] }>(at(id, 'steps')).then(
      (found) => setSteps(found.steps),
      (error) => setProblem(problemOf(error)),
    )
  }, [id])
  const act = async (step: Step) => {
    setBusy(true)
    try {
      const done = await post<{ text: string }>(at(id, 'rerun'), { step: step.id })
      toast(done.text)
      onClose()
    } catch (error) {
      setProblem(problemOf(error))
      setBusy(false)
    }
  }
  const no = whyNot('operate')
  return (
    <Dialog title="Re-run a step" onClose={onClose} isWide>
      <form
        onSubmit={(event) => {
          event.preventDefault()
          if (chosen && !no && !isBusy) void act(chosen)
        }}
      >
        <p>The step and the steps that depend on it are undone and called again. The other steps keep their results.</p>
        {!steps && !problem && <p class="loading">Reading its steps…</p>}
        {steps?.length === 0 && <p>It has no step in its history.</p>}
        {steps && steps.length > 0 && (
          <fieldset class="steps">
            <legend>Step</legend>
            {steps.map((each) => (
              <label key={each.id} class={chosen?.repeats.includes(each.step) ? 'repeated' : ''}>
                <input type="radio" name="step" checked={chosen === each} onChange={() => setChosen(each)} />
                <b>{each.step}</b>
                <span>
                  {each.outcome === 'failed' && 'failed, '}
                  {each.after.length > 0 ? `after ${each.after.join(', ')}` : 'after nothing'}
                  {chosen?.repeats.includes(each.step) && ' · repeated'}
                </span>
              </label>
            ))}
          </fieldset>
        )}
        {chosen && <p aria-live="polite">Repeated: {chosen.repeats.join(', ')}</p>}
        <Problems problem={problem} />
        {no && <p class="why-not">{no}</p>}
        <CommandLine command={`reprise rerun ${quoted(id)} ${chosen ? quoted(chosen.step) : 'STEP'}`} />
        <footer>
          <Button onClick={onClose}>Leave it</Button>
          <button type="submit" class="button danger" disabled={no !== undefined || !chosen || isBusy}>
            Re-run it
          </button>
        </footer>
      </form>
    </Dialog>
  )
}
