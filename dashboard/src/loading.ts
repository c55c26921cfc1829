// Reading from the server and reading again: the last answer stays on the screen until the next one is there. What failed and may
// pass is asked again without anybody's doing.

import { useCallback, useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { get, mayPass, type Problem, problemOf, type Query } from './api.ts'

/** A server that was away is asked again after this, until it answers. */
export const againMs = 1500

export interface Loaded<T> {
  readonly value: T | null
  readonly problem: Problem | null
  readonly again: () => void
  /** False: there is no path to ask. */
  readonly isAsked: boolean
}

/** `path` null: nothing is asked. A change of address drops the old answer; `again` keeps it until the new one has come. */
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
      // What was there stays: a server that is away for a moment takes nothing from the screen.
      if (work.current === mine) {
        setAnswer((before) => ({ key, value: before?.key === key ? before.value : null, problem }))
      }
    }
    mine.busy = false
    if (mine.stale && work.current === mine) void ask()
  }, [key])
  // Before the page is painted: what it waits for is under way by then.
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
    again: () => void ask(),
    isAsked: path !== null,
  }
}
