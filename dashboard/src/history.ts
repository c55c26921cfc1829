// The journal of one timeline in the page: read page by page from the end of the known part, and again when the live stream
// reports more. A rollback shortens history: then all of it is read again.

import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { at, get, mayPass, type Problem, problemOf } from './api.ts'
import { againMs } from './loading.ts'
import type { HistoryPage, JournalEntry } from './types.ts'

const pageEntries = 1000
/** Enough for the first screen, so that it is shown early. */
const firstEntries = 100

/** The first page of a journal that is read from its beginning. */
export const firstPage = { journal: true, after: 0, limit: firstEntries }
/** Rows are drawn anew at most this often while a long history is read: each time costs as much as all rows. */
const drawEveryMs = 500
/** For a longer history, this many of the newest entries are read first. */
const readAtFirst = 20_000

export interface Journal {
  readonly entries: readonly JournalEntry[]
  /** Number of entries before the first loaded one. */
  readonly hidden: number
  readonly isLoading: boolean
  readonly problem: Problem | null
  more(): void
}

interface Known {
  readonly entries: readonly JournalEntry[]
  readonly from: number
}

function isSame(known: JournalEntry, { seq, epoch, type, time }: Partial<JournalEntry> = {}): boolean {
  return known.seq === seq && known.epoch === epoch && known.type === type && known.time === time
}

export function useJournal(timeline: string, head: { seq: number; digest: string; floor: number } | null): Journal {
  const [known, setKnown] = useState<Known | null>(null)
  const [problem, setProblem] = useState<Problem | null>(null)
  const [isLoading, setLoading] = useState(true)
  const busy = useRef(false)
  const wanted = useRef(0)
  const latest = useRef<Known | null>(null)

  const read = async (from: number | null): Promise<void> => {
    if (busy.current || !head) return
    busy.current = true
    try {
      let start = from ?? latest.current?.from ?? Math.max(head.floor, head.seq - readAtFirst)
      let entries = from === null ? (latest.current?.entries ?? []) : []
      let drawnAt = Number.NEGATIVE_INFINITY
      for (;;) {
        const after = entries.at(-1)?.seq ?? start
        const target = wanted.current
        // Shorter than the loaded part: a rollback happened, and the loaded entries belong to another branch.
        if (after > target) {
          start = Math.max(0, target - readAtFirst)
          entries = []
          continue
        }
        if (after >= target) break
        // The last loaded entry is read again: if it differs, history was rolled back and has grown since.
        const overlap = entries.length > 0 ? 1 : 0
        const query = overlap === 0 ? { ...firstPage, after } : { ...firstPage, after: after - 1, limit: pageEntries }
        const page = await get<HistoryPage<JournalEntry>>(at(timeline, 'history'), query)
        if (overlap > 0 && !isSame(entries.at(-1)!, page.entries[0])) {
          start = Math.max(0, target - readAtFirst)
          entries = []
          continue
        }
        const fresh = page.entries.slice(overlap)
        entries = [...entries, ...fresh]
        latest.current = { entries, from: start }
        if (performance.now() - drawnAt > drawEveryMs) {
          setKnown(latest.current)
          drawnAt = performance.now()
        }
        if (fresh.length === 0) break
      }
      latest.current = { entries, from: start }
      setKnown(latest.current)
      setProblem(null)
    } catch (error) {
      setProblem(problemOf(error))
    } finally {
      busy.current = false
      setLoading(false)
    }
  }

  useLayoutEffect(() => {
    if (!head) return
    wanted.current = head.seq
    void read(null)
  }, [timeline, head?.seq, head?.digest])

  useEffect(() => {
    if (!problem || !mayPass(problem)) return
    const timer = setTimeout(() => void read(null), againMs)
    return () => clearTimeout(timer)
  }, [problem])

  return {
    entries: known?.entries ?? [],
    hidden: known ? Math.max(0, known.from - (head?.floor ?? 0)) : 0,
    isLoading: isLoading && known === null,
    problem,
    more: () => void read(Math.max(head?.floor ?? 0, (known?.from ?? 0) - readAtFirst)),
  }
}
