// The ways out for a run whose code no longer agrees with its history, each with its consequence.

import type { ComponentChildren } from 'preact'
import { ActButton, type OnAct } from './act-button.tsx'
import type { Timeline } from './types.ts'
import { CommandLine } from './ui.tsx'

export function WaysOut({ timeline, onAct }: { timeline: Timeline; onAct: OnAct }) {
  // The last entry with which the code agrees. Without a sequence in the problem, the person chooses it in time travel.
  const found = /at sequence (\d+)/.exec(String(timeline.attributes.problem ?? ''))?.[1]
  const seq = found === undefined ? null : Number(found) - 1
  const place = seq === null ? 'an earlier entry' : `entry ${seq}`
  const act = (verb: 'rollback' | 'fork', label: string) => (
    <ActButton
      timeline={timeline}
      verb={verb}
      onAct={() => (seq === null ? onAct('travel', { seq: timeline.seq }) : onAct(verb, { seq }))}
    >
      {label}
    </ActButton>
  )
  return (
    <section class="ways-out" aria-label="Ways out">
      <h2>The code no longer agrees with this run's history. Nothing was called, and the run waits. Four ways out:</h2>
      <ol>
        <Way title="Deploy code that agrees" act={<CommandLine command="reprise check FILE" />}>
          The run continues by itself where it was. Restore the old code, or keep both ways with <code>ctx.patch</code>.
          The command checks the code against all open runs first.
        </Way>
        <Way title={`Fork at ${place}`} act={act('fork', 'Fork a copy…')}>
          A copy takes the new way from there and calls the later steps again. This run stays as it is.
        </Way>
        <Way title={`Roll back to ${place}`} act={act('rollback', 'Roll back…')}>
          The request is stored. A worker whose code agrees with the history compensates the steps after that entry and
          continues from there: the new code does not have their compensations.
        </Way>
        <Way
          title="Terminate"
          act={
            <ActButton timeline={timeline} verb="terminate" onAct={onAct}>
              Terminate it…
            </ActButton>
          }
        >
          The run ends at once. Its finished steps are not compensated.
        </Way>
      </ol>
    </section>
  )
}

function Way({ title, act, children }: { title: string; act: ComponentChildren; children: ComponentChildren }) {
  return (
    <li>
      <div>
        <b>{title}</b>
        <p>{children}</p>
      </div>
      {act}
    </li>
  )
}
