// A button for a verb on a timeline: shown if the timeline has the verb, and enabled if the timeline accepts it now and the
// person's role permits it. The model's descriptor decides, as reported by the server.

import type { ComponentChildren } from 'preact'
import { roleOf } from './actions.tsx'
import { whyNot } from './session.ts'
import type { Timeline } from './types.ts'
import { Button } from './ui.tsx'

export type OnAct = (verb: string, more?: Readonly<Record<string, unknown>>) => void

/** Verbs of every timeline, unless its model refuses them. */
const common: ReadonlySet<string> = new Set(['fork', 'rollback', 'savepoints'])

/** The reason why the timeline refuses the verb, for any caller; undefined: it accepts it. */
export function whyRefused({ verbs, refuses, kind }: Timeline, verb: string): string | undefined {
  if (refuses[verb] !== undefined) return refuses[verb]
  if (verbs.includes(verb) || common.has(verb)) return undefined
  return `a ${kind ?? 'timeline of an unknown kind'} has no ${verb}`
}

export function ActButton(props: {
  timeline: Timeline
  verb: string
  more?: Readonly<Record<string, unknown>>
  /** Hides a refused verb instead of showing the reason. */
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
