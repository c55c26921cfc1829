// Reads from the server: the last response stays on the screen until the next one arrives. A failed request that may succeed
// later is retried automatically.

import { useCallback, useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { get, mayPass, type Problem, problemOf, type Query } from './api.ts'

/** Pause before a retry of an unreachable server. */
export const againMs = 1500

export interface Loaded<T> {
  readonly value: T | null
  readonly problem: Problem | null
  readonly again: () => Promise<void>
  /** False: there is no path to read. */
  readonly isAsked: boolean
}

/** `path` null: reads nothing. A new address drops the old response; `again` keeps it until the new one arrives. */
export function useGet<T>(path: string | null, query: Query = {}): Loaded<T> {
  const key = path === null ? '' : `${path}?${JSON.stringify(query)}`
  const [answer, setAnswer] = useState<{ key: string; value: T | null; problem: Problem | null } | null>(null)
  const work = useRef<{ busy: boolean; stale: boolean; key: string }>({ busy: false, stale: false, key: '' })
  const ask = useCallback(async () => {
    const current = work.current
    if (path === null) return
    if (current.busy && current.key === key) {
      current.stale = true
      return
    }
    const mine = { busy: true, stale: false, key }
    work.current = mine
    try {
      const value = await get<T>(path, query)
      if (work.current === mine) setAnswer({ key, value, problem: null })
    } catch (error) {
      const problem = problemOf(error)
      // The old value stays: a brief outage of the server clears nothing from the screen.
      if (work.current === mine) {
        setAnswer((before) => ({ key, value: before?.key === key ? before.value : null, problem }))
      }
    }
    mine.busy = false
    if (mine.stale && work.current === mine) void ask()
  }, [key])
  // Before the first paint: the request is in progress by then.
  useLayoutEffect(() => void ask(), [ask])
  useEffect(() => {
    if (!answer?.problem || answer.key !== key || !mayPass(answer.problem)) return
    const timer = setTimeout(() => void ask(), againMs)
    return () => clearTimeout(timer)
  }, [answer, ask])
  const isOurs = answer?.key === key
  return {
    value: isOurs ? answer.value : null,
    problem: isOurs ? answer.problem : null,
    again: ask,
    isAsked: path !== null,
  }
}

/** A request that is repeated takes at most this fraction (1/n) of the time, so that a large store is not read without end. */
const busyShare = 10

/** Repeats requests every `everyMs`, and less often where they take long. */
export function usePaced(call: () => Promise<unknown>, everyMs: number): void {
  const latest = useRef(call)
  latest.current = call
  useEffect(() => {
    let timer = setTimeout(turn, everyMs)
    let isOver = false
    async function turn() {
      const startedAt = performance.now()
      await latest.current()
      if (!isOver) timer = setTimeout(turn, Math.max(everyMs, (performance.now() - startedAt) * busyShare))
    }
    return () => {
      isOver = true
      clearTimeout(timer)
    }
  }, [])
}
