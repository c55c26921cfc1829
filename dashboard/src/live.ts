// Live: one stream of server-sent events says which timelines have changed, and views read those again. What leaves no entry
// (a worker that died) is looked at every two seconds while the page is seen.

import { signal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { urlOf } from './api.ts'

/** The clock of the page, for texts like "3 s ago". */
export const now = signal(Date.now())
/** When the page last heard from the server; null: it does not. */
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

/** Listens to the namespace that is looked at; called again, to that one only. */
export function startLive(): void {
  tick()
  source?.close()
  isLive.value = false
  source = new EventSource(urlOf('v1/feed/stream', { brief: true }))
  let isFirst = true
  source.onopen = () => {
    isLive.value = true
    heardAt.value = Date.now()
    // What is on the screen was read a moment ago; after a pause it may be old.
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

/** Calls when one of these changed, and every two seconds with nothing; without a filter, for every change. */
export function useLive(call: (changed: ReadonlySet<string>) => void): void {
  const latest = useRef(call)
  latest.current = call
  useEffect(() => {
    const listener: Listener = (changed) => latest.current(changed)
    listeners.add(listener)
    return () => void listeners.delete(listener)
  }, [])
}
