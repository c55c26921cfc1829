// Live updates: one stream of server-sent events reports the timelines that have changed, and views read those again. Changes
// without an entry (a worker that died) are polled every two seconds while the page is visible. The stream is read with fetch,
// because an EventSource can neither send the session nor notice a connection that is open and dead.

import { signal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { ApiError, answered, urlOf } from './api.ts'
import { heard } from './heard.ts'

/** The clock of the page, for texts like "3 s ago". */
export const now = signal(Date.now())
export const isLive = signal(false)

type Listener = (timelines: ReadonlySet<string>) => void
const listeners = new Set<Listener>()
const gatherMs = 150
const lookEveryMs = 2000
const reconnectMs = 1000
/** The server sends a heartbeat every two seconds: after three missing ones the connection is dead. */
const silentMs = 6000

let gathered = new Set<string>()
let isGathering = false

function changed(timelines: readonly string[]): void {
  for (const timeline of timelines) gathered.add(timeline)
  if (isGathering) return
  isGathering = true
  setTimeout(() => {
    const all = gathered
    gathered = new Set()
    isGathering = false
    for (const listener of listeners) listener(all)
  }, gatherMs)
}

let following: AbortController | null = null
let isTicking = false

/** Follows the current namespace; a second call replaces the first. */
export function startLive(): void {
  tick()
  following?.abort()
  following = new AbortController()
  void follow(following.signal)
}

async function follow(ended: AbortSignal): Promise<void> {
  let position: string | null = null
  let isFirst = true
  while (!ended.aborted) {
    const cut = new AbortController()
    const signal = AbortSignal.any([ended, cut.signal])
    try {
      const url = urlOf('v1/feed/stream', { brief: true, heartbeat: 2 })
      const headers = position === null ? {} : { 'last-event-id': position }
      const response = await answered(url, { signal, headers })
      // A position of another history is gone: the stream begins again at its end.
      if (!response.ok) position = null
      else {
        isLive.value = true
        // At the start the screen was just read; after a reconnect it may be outdated.
        if (!isFirst) changed([])
        isFirst = false
        for await (const event of eventsOf(response.body!, cut)) {
          if (event.id !== null) position = event.id
          if (event.name === 'entries') {
            changed((JSON.parse(event.data) as { timeline: string }[]).map(({ timeline }) => timeline))
          } else if (event.name === 'problem') position = null
        }
      }
    } catch (error) {
      if (!(error instanceof ApiError) && (error as Error).name !== 'AbortError' && !(error instanceof TypeError))
        throw error
    }
    if (ended.aborted) return
    isLive.value = false
    await new Promise((resolve) => setTimeout(resolve, reconnectMs))
  }
}

interface StreamEvent {
  readonly name: string
  readonly id: string | null
  readonly data: string
}

/** The events of a response, until it ends; `cut` is aborted when nothing arrives for too long. */
async function* eventsOf(body: ReadableStream<Uint8Array>, cut: AbortController): AsyncGenerator<StreamEvent> {
  const reader = body.getReader()
  const decoder = new TextDecoder()
  let text = ''
  for (;;) {
    const timer = setTimeout(() => cut.abort(), silentMs)
    const { done, value } = await reader.read().finally(() => clearTimeout(timer))
    if (done) return
    heard()
    const blocks = (text + decoder.decode(value, { stream: true })).split('\n\n')
    text = blocks.pop()!
    for (const block of blocks) {
      const field = (name: string) => new RegExp(`^${name}: (.*)$`, 'm').exec(block)?.[1] ?? null
      const name = field('event')
      if (name !== null) yield { name, id: field('id'), data: field('data') ?? '' }
    }
  }
}

function tick(): void {
  if (isTicking) return
  isTicking = true
  setInterval(() => {
    now.value = Date.now()
  }, 500)
  setInterval(() => {
    if (document.visibilityState === 'visible' && isLive.value) changed([])
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
