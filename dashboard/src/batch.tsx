// Applies a verb to many runs: first checks each run and whether it accepts the verb, then acts one by one.

import { useEffect, useState } from 'preact/hooks'
import { whyRefused } from './act-button.tsx'
import { at, get, post, problemOf } from './api.ts'
import { count } from './format.ts'
import type { Timeline } from './types.ts'
import { Button, Dialog, Status, toast } from './ui.tsx'

export type BatchVerb = 'cancel' | 'retry' | 'terminate'

interface Preview {
  readonly id: string
  readonly shown: Timeline | null
  /** The reason why the run is skipped; null: it is not. */
  readonly whyNot: string | null
}

export function BatchDialog({
  verb,
  ids,
  onClose,
}: {
  verb: BatchVerb
  ids: readonly string[]
  onClose: (isDone: boolean) => void
}) {
  const [previews, setPreviews] = useState<readonly Preview[]>([])
  const [isBusy, setBusy] = useState(false)
  useEffect(() => {
    void Promise.all(ids.map((id) => look(id, verb))).then(setPreviews)
  }, [])
  const able = previews.filter(({ whyNot }) => whyNot === null)
  const act = async () => {
    setBusy(true)
    let failed = 0
    for (const { id } of able) {
      try {
        await post(at(id, verb), verb === 'retry' ? {} : { reason: 'from the dashboard' })
      } catch {
        failed += 1
      }
    }
    toast(
      `${verb}: asked ${count(able.length - failed, 'run')}${failed > 0 ? `, ${failed} refused` : ''}`,
      failed > 0 ? 'bad' : 'good',
    )
    onClose(true)
  }
  return (
    <Dialog
      title={`${verb[0]!.toUpperCase()}${verb.slice(1)} ${count(ids.length, 'run')}`}
      onClose={() => onClose(false)}
      isWide
    >
      <ul class="preview">
        {previews.map(({ id, shown, whyNot }) => (
          <li key={id}>
            <code>{id}</code> {shown && <Status status={shown.status} />}
            <span class="dim">{whyNot ?? `will be asked to ${verb}`}</span>
          </li>
        ))}
      </ul>
      {previews.length === 0 && <p class="loading">Looking at each…</p>}
      <footer>
        <Button onClick={() => onClose(false)}>Leave them</Button>
        <Button
          tone={verb === 'retry' ? 'primary' : 'danger'}
          disabled={able.length === 0 || isBusy}
          onClick={() => void act()}
        >
          {verb} {count(able.length, 'run')}
        </Button>
      </footer>
    </Dialog>
  )
}

async function look(id: string, verb: BatchVerb): Promise<Preview> {
  try {
    const shown = await get<Timeline>(at(id))
    return { id, shown, whyNot: whyRefused(shown, verb) ?? null }
  } catch (error) {
    return { id, shown: null, whyNot: problemOf(error).detail }
  }
}
