// The journal of a run beside its time axis, with the error that stopped it at the top, and the panel of one row.

import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { ActButton, type OnAct } from './act-button.tsx'
import { Bar, Strip } from './bars.tsx'
import { count, duration, exact, relative } from './format.ts'
import type { Journal } from './history.ts'
import { type Row, rowsOf, scaleOf, troubleOf } from './journal.ts'
import { useKeys } from './keys.ts'
import { now } from './live.ts'
import { EditButton, RowPanel } from './panel.tsx'
import { go, hrefOf, place, withQuery } from './route.ts'
import { outcomeOf } from './statuses.ts'
import type { Timeline, Worker } from './types.ts'
import { Button, Empty, Icon, Problems } from './ui.tsx'
import { VirtualList } from './virtual.tsx'

const rowHeight = 30

export interface JournalViewProps {
  readonly timeline: Timeline
  readonly journal: Journal
  readonly worker: Worker | null
  readonly onAct: OnAct
}

export function JournalView({ timeline, journal, worker, onAct }: JournalViewProps) {
  const { entries } = journal
  const rows = useMemo(() => rowsOf(entries, timeline.isRun), [entries, timeline.isRun])
  const isOver = timeline.isRun && !timeline.isUnfinished
  const clock = isOver ? timeline.updatedAt : now.value
  const scale = useMemo(() => scaleOf(rows, clock), [rows, isOver, Math.floor(clock / 1000)])
  const [width, box] = useWidth()
  const wanted = Number(place.value.query.get('row') ?? Number.NaN)
  const chosen = rows.findIndex((row) => row.seq === wanted && !isHandover(row))
  const choose = (index: number) => {
    const row = rows[index]
    if (row) go(withQuery({ row: String(row.seq) }), 'replace')
  }
  const trouble = isOver && timeline.status !== 'failed' ? null : troubleOf(rows)
  const troubleIndex = trouble ? rows.indexOf(trouble) : -1
  useKeys({
    j: () => choose(Math.min(rows.length - 1, chosen + 1)),
    k: () => choose(Math.max(0, chosen - 1)),
    e: () => troubleIndex >= 0 && choose(troubleIndex),
    Escape: () => (chosen >= 0 ? go(withQuery({ row: null }), 'replace') : go(hrefOf(['runs']))),
  })
  const barWidth = Math.max(120, Math.floor(width * (chosen >= 0 ? 0.4 : 0.5)))
  return (
    <div class="journal">
      <Problems problem={journal.problem} />
      {trouble && <Trouble row={trouble} onGo={() => choose(troubleIndex)} timeline={timeline} onAct={onAct} />}
      <InHand timeline={timeline} worker={worker} />
      {journal.hidden > 0 && (
        <p class="hidden-before">
          {count(journal.hidden)} earlier entries.{' '}
          <button type="button" class="link" onClick={journal.more}>
            Read them
          </button>
        </p>
      )}
      <div class={`journal-body${chosen >= 0 ? ' with-panel' : ''}`}>
        <div class="journal-list" ref={box}>
          {rows.length === 0 && !journal.isLoading && (
            <Empty title="No entries">
              <p>History is empty, or was collected: its state is in the checkpoints.</p>
            </Empty>
          )}
          {rows.length > 0 && (
            <>
              <Axis rows={rows} scale={scale} width={barWidth} clock={clock} chosen={chosen} />
              <VirtualList
                count={rows.length}
                rowHeight={rowHeight}
                label="Journal"
                chosen={chosen}
                onChoose={choose}
                follow={!isOver}
                row={(index) => <JournalRow row={rows[index]!} scale={scale} width={barWidth} clock={clock} />}
              />
            </>
          )}
        </div>
        {chosen >= 0 && (
          <RowPanel
            key={rows[chosen]!.seq}
            row={rows[chosen]!}
            timeline={timeline}
            onAct={onAct}
            onClose={() => go(withQuery({ row: null }), 'replace')}
          />
        )}
      </div>
    </div>
  )
}

/** Calls in progress. The last report of a worker that is gone names calls that no process makes any more. */
function InHand({ timeline, worker }: { timeline: Timeline; worker: Worker | null }) {
  const reported = timeline.isOwnerAlive ? (worker?.underWay ?? []) : []
  return (
    <>
      {reported
        .filter((each) => each.timeline === timeline.timeline)
        .map(({ what, since }) => (
          <p key={what} class="in-hand">
            <i aria-hidden="true" />
            {what} is under way on {worker?.name} for {duration(Math.max(0, now.value - since))}
          </p>
        ))}
    </>
  )
}

interface Drawn {
  readonly scale: ReturnType<typeof scaleOf>
  readonly width: number
  readonly clock: number
}

function Axis({ rows, scale, width, clock, chosen }: Drawn & { rows: readonly Row[]; chosen: number }) {
  const { from, to, folds } = scale
  return (
    <div class="axis">
      <span class="axis-words">
        {count(rows.length, 'row')} · {duration(to - from)}
        {folds.length > 0 && ` · ${count(folds.length, 'idle stretch').replace('stretchs', 'stretches')} folded`}
      </span>
      <Strip rows={rows} scale={scale} width={width} now={clock} chosen={chosen} />
    </div>
  )
}

function JournalRow({ row, scale, width, clock }: Drawn & { row: Row }) {
  const { seq, title, note, sort, state, attempts, error, from, to } = row
  const took = row.spans.length === 0 ? '' : duration((to ?? clock) - from)
  return (
    <div class={`row ${state} sort-${sort}`}>
      <span class="seq">{isHandover(row) ? '' : seq}</span>
      <span class="row-icon">
        <Icon name={state === 'takeover' ? 'alert' : sort} />
      </span>
      <span class="row-title" title={error ?? `${title} ${note}`}>
        <b>{title}</b>
        {note && <span class="dim"> {note}</span>}
        {attempts.length > 0 && state !== 'failed' && (
          <span class="tries"> {count(attempts.length, 'failed attempt')}</span>
        )}
        {error && <span class="row-error"> {error}</span>}
        {row.nextAt !== null && state === 'retrying' && (
          <span class="dim"> next {relative(row.nextAt, now.value)}</span>
        )}
      </span>
      <Bar row={row} scale={scale} width={width} now={clock} />
      <span class="took" title={exact(from)}>
        {took}
        <span class="sr">, {outcomeOf(row).word}</span>
      </span>
    </div>
  )
}

/** A row between two entries, about the worker. */
function isHandover({ state }: Row): boolean {
  return state === 'takeover' || state === 'claim'
}

function Trouble({ row, timeline, onGo, onAct }: { row: Row; timeline: Timeline; onGo: () => void; onAct: OnAct }) {
  // Held, and a person has decided: it now waits for a worker.
  const isAnswered = row.state === 'held' && timeline.statusLine?.needsPerson === false
  const step = row.title.replace(/^undo /, '')
  return (
    <section class={`trouble ${isAnswered ? 'answered' : row.state}`} aria-label="What went wrong">
      <Icon name={isAnswered ? 'wait' : 'alert'} />
      <div class="trouble-words">
        <strong>
          {isAnswered ? timeline.statusLine!.text : `${row.title} ${troubleWords(row)}`}
          {row.nextAt !== null && `, next attempt ${relative(row.nextAt, now.value)}`}
        </strong>
        {row.error && <pre>{row.error}</pre>}
        {row.state === 'failed' && timeline.verbs.includes('retry') && timeline.refuses.retry && (
          <p>{timeline.refuses.retry}</p>
        )}
      </div>
      <div class="trouble-acts">
        <Button onClick={onGo}>
          Row {row.seq} <kbd>e</kbd>
        </Button>
        {row.state === 'failed' && (
          <ActButton timeline={timeline} verb="retry" hides onAct={onAct}>
            Retry…
          </ActButton>
        )}
        {row.state === 'held' && !isAnswered && (
          <>
            <ActButton timeline={timeline} verb="settle" more={{ step }} hides onAct={onAct}>
              Settle…
            </ActButton>
            <ActButton timeline={timeline} verb="decide" hides onAct={onAct}>
              Decide…
            </ActButton>
          </>
        )}
        <ActButton timeline={timeline} verb="fork" more={{ seq: Math.max(0, row.seq - 1) }} hides onAct={onAct}>
          Fork before it…
        </ActButton>
        <EditButton row={row} timeline={timeline} onAct={onAct} />
      </div>
    </section>
  )
}

function troubleWords({ state, attempts }: Row): string {
  if (state === 'held') return 'waits for a person'
  return state === 'retrying' ? `failed ${count(attempts.length, 'time')}` : 'failed'
}

function useWidth() {
  const ref = useRef<HTMLDivElement>(null)
  const [width, setWidth] = useState(900)
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => setWidth(Math.floor(entry!.contentRect.width)))
    observer.observe(ref.current!)
    return () => observer.disconnect()
  }, [])
  return [width, ref] as const
}
