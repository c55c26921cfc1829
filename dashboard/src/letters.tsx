// Dead letters of a job or pipeline, with the last error of each, and the redrive.

import { ActButton, type OnAct } from './act-button.tsx'
import { at } from './api.ts'
import { count } from './format.ts'
import { Json } from './json.tsx'
import { useLive } from './live.ts'
import { useGet } from './loading.ts'
import type { Letter, Timeline } from './types.ts'
import { Problems, Time } from './ui.tsx'

export function Letters({ timeline, onAct }: { timeline: Timeline; onAct: OnAct }) {
  const { value, problem, again } = useGet<{ letters: readonly Letter[] }>(at(timeline.timeline, 'dead-letters'))
  useLive((changed) => changed.has(timeline.timeline) && again())
  if (problem) return <Problems problem={problem} retry={again} />
  if (!value || value.letters.length === 0) return null
  return (
    <details class="letters" open={value.letters.length <= 5}>
      <summary>{count(value.letters.length, 'dead letter')}</summary>
      <ActButton timeline={timeline} verb="redrive" onAct={onAct}>
        Send all back…
      </ActButton>
      <ul>
        {value.letters.slice(0, 100).map((letter) => (
          <li key={`${letter.timeline} ${letter.key}`}>
            <div class="letter-head">
              <code>{letter.key}</code>
              <span class="row-error">
                {letter.error.name}: {letter.error.message}
              </span>
              <span class="dim">
                {count(letter.attempts, 'attempt')}, <Time at={letter.at} />
              </span>
              <span class="grow" />
              <ActButton timeline={timeline} verb="redrive" more={{ keys: letter.key }} onAct={onAct}>
                Redrive…
              </ActButton>
            </div>
            {typeof letter.item === 'object' && letter.item !== null && <Json value={letter.item} depth={1} />}
          </li>
        ))}
      </ul>
    </details>
  )
}
