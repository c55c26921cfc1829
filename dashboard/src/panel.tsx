// The panel of one row: its times, each attempt with its error, and every entry with its data.

import { useEffect, useState } from 'preact/hooks'
import { ActButton, type OnAct } from './act-button.tsx'
import { at, get } from './api.ts'
import { duration, exact, quoted } from './format.ts'
import type { Row } from './journal.ts'
import { Json } from './json.tsx'
import { now } from './live.ts'
import { outcomeOf } from './statuses.ts'
import type { Entry, HistoryPage, Timeline } from './types.ts'
import { Button, Chip, CommandLine, Copy, Facts, Icon, Time } from './ui.tsx'

const entriesShown = 20

export interface RowPanelProps {
  readonly row: Row
  readonly timeline: Timeline
  readonly onAct: OnAct
  readonly onClose: () => void
}

export function RowPanel({ row, timeline, onAct, onClose }: RowPanelProps) {
  const entries = useEntries(timeline.timeline, row.entries)
  const key = entries.find((entry) => entry.key !== undefined)?.key
  return (
    <aside class="panel" aria-label={`Row ${row.seq}: ${row.title}`}>
      <header>
        <h2>
          <Icon name={row.sort} />
          {row.title}
        </h2>
        <button type="button" class="icon-button" aria-label="Close the panel" onClick={onClose}>
          <Icon name="close" />
        </button>
      </header>
      <RowFacts row={row} stepKey={key} />
      <Attempts row={row} />
      {entries.map((entry) => (
        <EntryData key={entry.seq} entry={entry} />
      ))}
      {row.entries.length > entriesShown && <p class="dim">the first {entriesShown} entries of it</p>}
      <footer>
        <Button onClick={() => onAct('travel', { seq: row.entries.at(-1) ?? row.seq })}>State here</Button>
        <ActButton timeline={timeline} verb="fork" more={{ seq: row.entries.at(-1) ?? row.seq }} onAct={onAct}>
          Fork here…
        </ActButton>
        <EditButton row={row} timeline={timeline} last={entries.at(-1)} onAct={onAct} />
        <ActButton timeline={timeline} verb="rollback" more={{ seq: Math.max(0, row.seq - 1) }} onAct={onAct}>
          Roll back before it…
        </ActButton>
      </footer>
      <CommandLine command={`reprise at ${quoted(`${timeline.timeline}@${row.entries.at(-1) ?? row.seq}`)}`} />
    </aside>
  )
}

function RowFacts({ row, stepKey }: { row: Row; stepKey: string | undefined }) {
  const { word, tone } = outcomeOf(row)
  const outcome = (
    <Chip key="o" tone={tone}>
      {word}
    </Chip>
  )
  return (
    <Facts
      facts={[
        ...(word ? ([['outcome', outcome]] as const) : []),
        [
          'began',
          <span key="b" title={exact(row.from)}>
            {exact(row.from).slice(11)}
          </span>,
        ],
        ...(row.spans.length > 0 ? ([['took', duration((row.to ?? now.value) - row.from)]] as const) : []),
        ['entries', row.entries.join(', ')],
        ...(stepKey === undefined ? [] : ([['key', <code key="k">{stepKey}</code>]] as const)),
      ]}
    />
  )
}

function Attempts({ row }: { row: Row }) {
  if (row.attempts.length === 0) return null
  return (
    <section>
      <h3>Failed attempts</h3>
      <ol class="attempts">
        {row.attempts.map(({ at: when, error, nextAt }) => (
          <li key={when}>
            <Time at={when} />
            <pre>{error}</pre>
            {nextAt !== null && nextAt > now.value && (
              <span class="dim">
                tried again <Time at={nextAt} />
              </span>
            )}
          </li>
        ))}
      </ol>
    </section>
  )
}

function EntryData({ entry }: { entry: Entry }) {
  return (
    <section>
      <h3>
        {entry.type} <span class="dim">{entry.seq}</span>
        <Copy text={JSON.stringify(entry.data ?? null, null, 2)} label={`Copy the data of entry ${entry.seq}`} />
      </h3>
      {entry.data === undefined || entry.data === null ? <p class="dim">no data</p> : <Json value={entry.data} />}
    </section>
  )
}

/** Shown if the row has an outcome that a fork can edit. */
export function EditButton(props: { row: Row; timeline: Timeline; last?: Entry | undefined; onAct: OnAct }) {
  const { row, timeline, last, onAct } = props
  const hasOutcome = row.state === 'ok' || row.state === 'failed'
  if (timeline.edits?.names !== 'step' || !hasOutcome || (row.sort !== 'step' && row.sort !== 'child')) return null
  const { result } = (last?.data ?? {}) as { readonly result?: unknown }
  const value = result === undefined ? '' : JSON.stringify(result, null, 2)
  const more = { seq: row.entries.at(-1) ?? row.seq, name: row.about, value }
  return (
    <ActButton timeline={timeline} verb="fork" more={more} onAct={onAct}>
      Fork with an edit…
    </ActButton>
  )
}

function useEntries(timeline: string, seqs: readonly number[]): readonly Entry[] {
  const [entries, setEntries] = useState<readonly Entry[]>([])
  const wanted = seqs.slice(0, entriesShown)
  useEffect(() => {
    let isOver = false
    const read = async (seq: number) =>
      (await get<HistoryPage<Entry>>(at(timeline, 'history'), { after: seq - 1, limit: 1 })).entries[0]
    Promise.all(wanted.map(read))
      .then((found) => {
        if (!isOver) setEntries(found.filter((entry) => entry !== undefined))
      })
      .catch(() => undefined)
    return () => {
      isOver = true
    }
  }, [timeline, wanted.join()])
  return entries
}
