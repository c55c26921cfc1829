// The table of runs: a row each, chosen by keyboard, and picked for an action on many.

import { useState } from 'preact/hooks'
import type { BatchVerb } from './batch.tsx'
import { count, relative } from './format.ts'
import { useKeys } from './keys.ts'
import { now } from './live.ts'
import { hrefOf } from './route.ts'
import { whyNot } from './session.ts'
import type { TimelineRow } from './types.ts'
import { Button, Chip, Status, Time } from './ui.tsx'

export interface Choice {
  readonly picked: ReadonlySet<string>
  pick(id: string): void
  clear(): void
  /** The row that the keyboard is at. */
  focus(index: number): void
}

/** The keys of the table: j and k move, x picks, Escape clears. */
export function useChoice(rows: readonly TimelineRow[]): Choice {
  const [chosen, setChosen] = useState(0)
  const [picked, setPicked] = useState<ReadonlySet<string>>(new Set())
  const move = (by: number) => {
    const next = Math.min(Math.max(chosen + by, 0), rows.length - 1)
    setChosen(next)
    document.getElementById(`run-${next}`)?.focus()
  }
  const pick = (id: string) => {
    const next = new Set(picked)
    if (!next.delete(id)) next.add(id)
    setPicked(next)
  }
  const clear = () => setPicked(new Set())
  useKeys({
    j: () => move(document.activeElement?.id.startsWith('run-') ? 1 : 0),
    k: () => move(-1),
    x: () => rows[chosen] && pick(rows[chosen].timeline),
    Escape: () => {
      if (picked.size > 0) clear()
      else (document.activeElement as HTMLElement | null)?.blur()
    },
  })
  return { picked, pick, clear, focus: setChosen }
}

export function Picked({ choice, onBatch }: { choice: Choice; onBatch: (verb: BatchVerb) => void }) {
  const [a, b] = choice.picked
  return (
    <section class="batch" aria-label="Selected runs">
      <strong>{count(choice.picked.size, 'run')} selected</strong>
      {(['cancel', 'retry', 'terminate'] as const).map((verb) => (
        <Button
          key={verb}
          disabled={whyNot('operate') !== undefined}
          title={whyNot('operate')}
          onClick={() => onBatch(verb)}
        >
          {verb[0]!.toUpperCase() + verb.slice(1)}…
        </Button>
      ))}
      {b !== undefined && choice.picked.size === 2 && (
        <a class="button" href={hrefOf(['t', a!], { tab: 'travel', other: b })}>
          Compare
        </a>
      )}
      <Button tone="quiet" onClick={choice.clear}>
        Clear
      </Button>
    </section>
  )
}

export function RunsTable({ rows, choice }: { rows: readonly TimelineRow[]; choice: Choice }) {
  return (
    <div class="table-wrap">
      <table class="runs">
        <caption class="sr">Runs, the most recently changed first</caption>
        <thead>
          <tr>
            <th scope="col">
              <span class="sr">Select</span>
            </th>
            <th scope="col">Run</th>
            <th scope="col">Status</th>
            <th scope="col">Current state</th>
            <th scope="col" class="right">
              Changed
            </th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row, i) => (
            <Line
              key={row.timeline}
              row={row}
              index={i}
              isPicked={choice.picked.has(row.timeline)}
              onPick={choice.pick}
              onFocus={choice.focus}
            />
          ))}
        </tbody>
      </table>
    </div>
  )
}

function Line(props: {
  row: TimelineRow
  index: number
  isPicked: boolean
  onPick: (id: string) => void
  onFocus: (index: number) => void
}) {
  const { row, index, isPicked, onPick, onFocus } = props
  const { timeline, kind, status, isUnfinished, owner, isOwnerAlive } = row
  const isOrphan = isUnfinished && owner !== null && !isOwnerAlive
  return (
    <tr class={isPicked ? 'picked' : ''}>
      <td>
        <input type="checkbox" aria-label={`Select ${timeline}`} checked={isPicked} onChange={() => onPick(timeline)} />
      </td>
      <td class="id-cell">
        <a id={`run-${index}`} href={hrefOf(['t', timeline])} onFocus={() => onFocus(index)} title={timeline}>
          <span class="id">{timeline}</span>
        </a>
        {kind === null && <Chip title="no model here knows it">unknown kind</Chip>}
      </td>
      <td>
        <Status status={status} />
      </td>
      <td class="stands">
        {isOrphan ? <Chip tone="warn">its worker is gone</Chip> : null} <StatusText row={row} />
        <NeedsPerson row={row} />
      </td>
      <td class="right nowrap">
        <Time at={row.updatedAt} />
      </td>
    </tr>
  )
}

/** Attention by its status, unless a person has decided already. */
export function NeedsPerson({ row }: { row: Pick<TimelineRow, 'statusLine' | 'needsPerson'> }) {
  if (!row.statusLine?.needsPerson && (!row.needsPerson || row.statusLine?.needsPerson === false)) return null
  return <Chip tone="warn">needs a person</Chip>
}

export function StatusText({ row }: { row: Pick<TimelineRow, 'statusLine' | 'seq'> }) {
  const { statusLine, seq } = row
  if (!statusLine) return <span class="dim">{count(seq, 'entry').replace('entrys', 'entries')}</span>
  return (
    <span>
      {statusLine.text}
      {statusLine.at !== undefined && <span class="dim"> · {relative(statusLine.at, now.value)}</span>}
    </span>
  )
}
