// A button that does a verb to a timeline: it is there where the timeline has the verb, and works where the timeline takes it as
// it is now and the person may. What decides is the model's descriptor, as the server tells it.

import type { ComponentChildren } from 'preact'
import { roleOf } from './actions.tsx'
import { whyNot } from './session.ts'
import type { Timeline } from './types.ts'
import { Button } from './ui.tsx'

export type OnAct = (verb: string, more?: Readonly<Record<string, unknown>>) => void

/** These every timeline has, unless its model says otherwise. */
const common: ReadonlySet<string> = new Set(['fork', 'rollback', 'savepoints'])

/** Why the timeline does not take it, whoever asks; undefined: it does. */
export function whyRefused({ verbs, refuses, kind }: Timeline, verb: string): string | undefined {
  if (refuses[verb] !== undefined) return refuses[verb]
  if (verbs.includes(verb) || common.has(verb)) return undefined
  return `a ${kind ?? 'timeline of an unknown kind'} has no ${verb}`
}

export function ActButton(props: {
  timeline: Timeline
  verb: string
  more?: Readonly<Record<string, unknown>>
  /** Where it is refused it is left out, in place of shown with the reason. */
  hides?: boolean
  onAct: OnAct
  children: ComponentChildren
}) {
  const { timeline, verb, more, hides, onAct, children } = props
  const refused = whyRefused(timeline, verb)
  if (refused !== undefined && hides) return null
  const no = refused ?? whyNot(roleOf(verb))
  return (
    <Button disabled={no !== undefined} title={no} onClick={() => onAct(verb, more)}>
      {children}
    </Button>
  )
}
