// Live updates: one stream of server-sent events reports the timelines that have changed, and views read those again. Changes
// without an entry (a worker that died) are polled every two seconds while the page is visible.

import { signal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { urlOf } from './api.ts'

/** The clock of the page, for texts like "3 s ago". */
export const now = signal(Date.now())
/** Time of the last message from the server; null: not connected. */
export const heardAt = signal<number | null>(null)
export const isLive = signal(false)

type Listener = (timelines: ReadonlySet<string>) => void
const listeners = new Set<Listener>()
const gatherMs = 150
const lookEveryMs = 2000

let gathered = new Set<string>()
let isGathering = false

function tell(timelines: readonly string[]): void {
  heardAt.value = Date.now()
  for (const timeline of timelines) gathered.add(timeline)
  if (isGathering) return
  isGathering = true
  setTimeout(() => {
    const told = gathered
    gathered = new Set()
    isGathering = false
    for (const listener of listeners) listener(told)
  }, gatherMs)
}

let source: EventSource | null = null
let isTicking = false

/** Follows the current namespace; a second call replaces the first. */
export function startLive(): void {
  tick()
  source?.close()
  isLive.value = false
  source = new EventSource(urlOf('v1/feed/stream', { brief: true }))
  let isFirst = true
  source.onopen = () => {
    isLive.value = true
    heardAt.value = Date.now()
    // At the start the screen was just read; after a reconnect it may be outdated.
    if (!isFirst) tell([])
    isFirst = false
  }
  source.onerror = () => {
    isLive.value = false
  }
  source.addEventListener('entries', (event) => {
    tell((JSON.parse(event.data) as { timeline: string }[]).map(({ timeline }) => timeline))
  })
  source.addEventListener('position', () => {
    heardAt.value = Date.now()
  })
}

function tick(): void {
  if (isTicking) return
  isTicking = true
  setInterval(() => {
    now.value = Date.now()
  }, 500)
  setInterval(() => {
    if (document.visibilityState === 'visible' && isLive.value) tell([])
  }, lookEveryMs)
}

/** Calls `call` with the changed timelines, and every two seconds with an empty set. */
export function useLive(call: (changed: ReadonlySet<string>) => void): void {
  const latest = useRef(call)
  latest.current = call
  useEffect(() => {
    const listener: Listener = (changed) => latest.current(changed)
    listeners.add(listener)
    return () => void listeners.delete(listener)
  }, [])
}
