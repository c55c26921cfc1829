// What a job or pipeline gave up on, with the last error of each, and the way back.

import { at } from './api.ts'
import { count } from './format.ts'
import { Json } from './json.tsx'
import { useLive } from './live.ts'
import { useGet } from './loading.ts'
import { whyNot } from './session.ts'
import type { Letter, Timeline } from './types.ts'
import { Button, Problems, Time } from './ui.tsx'

export function Letters({
  timeline,
  onAct,
}: {
  timeline: Timeline
  onAct: (verb: string, more?: Readonly<Record<string, unknown>>) => void
}) {
  const { value, problem, again } = useGet<{ letters: readonly Letter[] }>(at(timeline.timeline, 'dead-letters'))
  useLive((changed) => changed.has(timeline.timeline) && again())
  if (problem) return <Problems problem={problem} retry={again} />
  if (!value || value.letters.length === 0) return null
  const no = whyNot('operate')
  return (
    <details class="letters" open={value.letters.length <= 5}>
      <summary>{count(value.letters.length, 'dead letter')}</summary>
      <Button disabled={no !== undefined} title={no} onClick={() => onAct('redrive')}>
        Send all back…
      </Button>
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
              <Button disabled={no !== undefined} title={no} onClick={() => onAct('redrive', { keys: letter.key })}>
                Redrive…
              </Button>
            </div>
            {typeof letter.item === 'object' && letter.item !== null && <Json value={letter.item} depth={1} />}
          </li>
        ))}
      </ul>
    </details>
  )
}
