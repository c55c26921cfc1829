// The awaited signal of a timeline with its last value, and the call that needs an approval, as the model reports them.

import { useState } from 'preact/hooks'
import { at, type Problem, post, problemOf } from './api.ts'
import { quoted } from './format.ts'
import { Json } from './json.tsx'
import { whyNot } from './session.ts'
import type { Timeline } from './types.ts'
import { Button, CommandLine, Dialog, Facts, Problems, toast } from './ui.tsx'

/** The name of the signal that a run waits for, and the value that this browser sent last under that name. */
export function awaitedSignal(timeline: Timeline): { readonly name?: string; readonly value?: string } {
  const waits = timeline.summary?.waitsFor
  const words = Array.isArray(waits) ? waits.map(String) : []
  const name = words.map((each) => /^signal (.+?)(?: until .*)?$/.exec(each)?.[1]).find((each) => each !== undefined)
  if (name === undefined) return {}
  return { name, value: localStorage.getItem(payloadKey(timeline, name)) ?? '' }
}

/** Remembered in this browser, for the next run of the same definition. */
export function keepPayload(timeline: Timeline, { name = '', value = '' }: Readonly<Record<string, string>>): void {
  if (value !== '') localStorage.setItem(payloadKey(timeline, name), value)
}

function payloadKey({ timeline }: Timeline, name: string): string {
  return `reprise-signal ${timeline.split('/').slice(0, 2).join('/')} ${name}`
}

interface AwaitedCall {
  readonly kind: string
  readonly tool: string
  readonly args: unknown
  readonly effect?: string
}

/** The call of a session that waits for an approval; null: something else, or the server does not have the agent. */
export function awaitedCall({ summary }: Timeline): AwaitedCall | null {
  const awaits = summary?.awaits as AwaitedCall | undefined
  return awaits?.kind === 'approval' && typeof awaits.tool === 'string' ? awaits : null
}

const consequences: Readonly<Record<string, string>> = {
  'read-only': 'It changes nothing outside.',
  idempotent: 'It may be repeated without harm.',
  compensatable: 'It can be undone by a rollback.',
  irreversible: 'It cannot be undone.',
}

export function DecideDialog({ timeline, onClose }: { timeline: Timeline; onClose: () => void }) {
  const call = awaitedCall(timeline)
  const [reason, setReason] = useState('')
  const [problem, setProblem] = useState<Problem | null>(null)
  const [isBusy, setBusy] = useState(false)
  const no = whyNot('operate')
  const decide = async (verdict: 'approve' | 'refuse') => {
    setBusy(true)
    try {
      const { seq, digest } = timeline
      const body = { verdict, about: { seq, digest }, ...(reason !== '' && { reason }) }
      const { text } = await post<{ text: string }>(at(timeline.timeline, 'decide'), body)
      toast(text)
      onClose()
    } catch (error) {
      setProblem(problemOf(error))
      setBusy(false)
    }
  }
  return (
    <Dialog title={`Approve ${call?.tool ?? 'the call'}?`} onClose={onClose}>
      <p>{String(timeline.summary?.waitsFor ?? '')}</p>
      {call && (
        <Facts
          facts={[
            ['tool', <code key="t">{call.tool}</code>],
            ['arguments', <Json key="a" value={call.args} />],
            ['consequence', consequences[call.effect ?? ''] ?? 'not declared'],
          ]}
        />
      )}
      <div class="field">
        <label htmlFor="field-reason">Why, for the record</label>
        <input id="field-reason" value={reason} onInput={(event) => setReason(event.currentTarget.value)} />
      </div>
      <Problems problem={problem} />
      {no && <p class="why-not">{no}</p>}
      <CommandLine command={`reprise decide ${quoted(timeline.timeline)} approve`} />
      <footer>
        <Button tone="danger" disabled={no !== undefined || isBusy} onClick={() => void decide('refuse')}>
          Refuse
        </Button>
        <Button tone="primary" disabled={no !== undefined || isBusy} onClick={() => void decide('approve')}>
          Approve
        </Button>
      </footer>
    </Dialog>
  )
}
