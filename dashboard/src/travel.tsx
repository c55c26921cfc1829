// Time travel: the branches of a timeline as a tree, and a slider over its history with the state at each entry and the
// changes made by that entry. From any point a person can roll back, fork, or create a savepoint.

import { useEffect, useState } from 'preact/hooks'
import { ActButton, type OnAct } from './act-button.tsx'
import { at, urlOf } from './api.ts'
import { Conversation, messagesIn } from './conversation.tsx'
import { count, exact, quoted } from './format.ts'
import { Json, Leaf } from './json.tsx'
import { useKeys } from './keys.ts'
import { useGet } from './loading.ts'
import { go, hrefOf, place, withQuery } from './route.ts'
import { Tree } from './tree.tsx'
import type { Coordinate, Difference, Entry, HistoryPage, Timeline } from './types.ts'
import { Button, CommandLine, Copy, Empty, OpenJson, Problems } from './ui.tsx'

const settleMs = 120

export interface Relative {
  readonly timeline: string
  readonly base: { readonly timeline: string; readonly seq: number } | null
  readonly seq: number
  readonly status: string
  readonly updatedAt: number
  readonly isArchive: boolean
}

/** The entry and the timeline to compare with, as named in the address. */
function useMoment({ seq: head, floor }: Timeline) {
  const { query } = place.value
  const wanted = query.get('seq')
  const seq = wanted === null ? head : Math.min(Math.max(Number(wanted) || 0, floor), head)
  const move = (to: number) => go(withQuery({ seq: String(Math.min(Math.max(to, floor), head)) }), 'replace')
  useKeys({ '[': () => move(seq - 1), ']': () => move(seq + 1) })
  // History may have become shorter meanwhile.
  return { seq, settled: Math.min(useSettled(seq), head), other: query.get('other') ?? '', move }
}

export function Travel({ timeline, onAct }: { timeline: Timeline; onAct: OnAct }) {
  const { timeline: id, hasFold } = timeline
  const { seq, settled, other, move } = useMoment(timeline)
  const state = useGet<{ state: unknown; coordinate: Coordinate }>(hasFold ? at(id, 'state') : null, { seq: settled })
  const relatives = useGet<{ relatives: readonly Relative[] }>(at(id, 'relatives'))
  const branches = relatives.value?.relatives ?? []
  const messages = messagesIn(state.value?.state)
  return (
    <div class="travel">
      <div class="travel-side">
        <h2>Branches</h2>
        <Problems problem={relatives.problem} />
        <Tree relatives={branches} current={id} seq={seq} />
      </div>
      <div class="travel-main">
        <Slider timeline={timeline} seq={seq} move={move} />
        <EntryLine timeline={timeline} seq={seq} settled={settled} onAct={onAct} />
        <div class="columns">
          <section aria-label="State">
            <h2>
              State after entry {settled}
              {state.value && <Copy text={JSON.stringify(state.value.state, null, 2)} label="Copy the state" />}
            </h2>
            {!hasFold ? (
              <NoState />
            ) : state.problem ? (
              <Problems problem={state.problem} />
            ) : state.value ? (
              <Json value={state.value.state} />
            ) : (
              <p class="loading">…</p>
            )}
          </section>
          <Comparison timeline={timeline} settled={settled} other={other} branches={branches} />
        </div>
        {messages && (
          <section aria-label="Messages">
            <h2>Messages</h2>
            <Conversation messages={messages} />
          </section>
        )}
        <div class="view-links">
          <CommandLine command={`reprise at ${quoted(`${id}@${settled}`)}`} />
          {hasFold && <OpenJson href={urlOf(at(id, 'state'), { seq: settled })} />}
        </div>
      </div>
    </div>
  )
}

function Slider({ timeline, seq, move }: { timeline: Timeline; seq: number; move: (to: number) => void }) {
  const { seq: head, floor } = timeline
  return (
    <div class="slider">
      <Button tone="quiet" title="One entry back ([)" disabled={seq <= floor} onClick={() => move(seq - 1)}>
        ‹
      </Button>
      <input
        type="range"
        aria-label="Entry"
        min={floor}
        max={head}
        value={seq}
        onInput={(event) => move(Number(event.currentTarget.value))}
      />
      <Button tone="quiet" title="One entry on (])" disabled={seq >= head} onClick={() => move(seq + 1)}>
        ›
      </Button>
      <output>
        <b>{count(seq)}</b> of {count(head)}
      </output>
    </div>
  )
}

/** The entry of this moment, and the actions that begin at it. */
function EntryLine(props: { timeline: Timeline; seq: number; settled: number; onAct: OnAct }) {
  const { timeline, seq, settled, onAct } = props
  const { timeline: id, floor } = timeline
  const entry = useGet<HistoryPage<Entry>>(settled > floor ? at(id, 'history') : null, { after: settled - 1, limit: 1 })
  const shown = entry.value?.entries[0]
  return (
    <div class="travel-entry">
      {shown ? (
        <>
          <b>{shown.type}</b> <span class="dim">{exact(shown.time)}</span>
        </>
      ) : (
        <span class="dim">{settled === floor ? 'the beginning' : ''}</span>
      )}
      <span class="grow" />
      <ActButton timeline={timeline} verb="rollback" more={{ seq }} onAct={onAct}>
        Roll back here…
      </ActButton>
      <ActButton timeline={timeline} verb="fork" more={{ seq }} onAct={onAct}>
        Fork here…
      </ActButton>
      <ActButton timeline={timeline} verb="savepoints" more={{ seq }} onAct={onAct}>
        Pin…
      </ActButton>
    </div>
  )
}

/** The changes of this entry, or the difference to another timeline: a branch, or any that the address names. */
function Comparison(props: { timeline: Timeline; settled: number; other: string; branches: readonly Relative[] }) {
  const { timeline, settled, other, branches } = props
  const { timeline: id, floor, hasFold } = timeline
  const diff = useGet<{ changes: readonly Difference[]; isComplete: boolean }>(
    hasFold && (settled > floor || other) ? at(id, 'diff') : null,
    other ? { from: settled, other } : { from: Math.max(floor, settled - 1), to: settled },
  )
  const choices = new Set([...branches.map((each) => each.timeline), ...(other ? [other] : [])])
  choices.delete(id)
  return (
    <section aria-label="Changes">
      <h2>
        <label>
          {other ? 'Compared with ' : 'What this entry changed '}
          <select
            value={other}
            onChange={(event) => go(withQuery({ other: event.currentTarget.value }))}
            aria-label="Compare with"
          >
            <option value="">the entry before</option>
            {[...choices].map((each) => (
              <option key={each} value={each}>
                {each}
              </option>
            ))}
          </select>
        </label>
        {other && <a href={hrefOf(['t', other])}>Open it</a>}
      </h2>
      <Problems problem={diff.problem} />
      {diff.isAsked && !diff.problem && (
        <Changes changes={diff.value?.changes ?? null} isComplete={diff.value?.isComplete ?? true} />
      )}
    </section>
  )
}

function NoState() {
  return (
    <Empty title="The state needs its code">
      <p>How this history folds into a state is in your definition. Name the file that exports it:</p>
      <CommandLine command="reprise serve --module FILE" />
    </Empty>
  )
}

export function Changes(props: { changes: readonly Difference[] | null; isComplete?: boolean }) {
  const { changes, isComplete = true } = props
  if (!changes) return <p class="loading">…</p>
  if (changes.length === 0) return <p class="dim">Nothing: both are the same.</p>
  return (
    <ul class="changes">
      {changes.slice(0, 500).map(({ path, kind, before, after }) => (
        <li key={path} class={kind}>
          <code>{path}</code>
          <div>
            {kind !== 'added' && <Value value={before} sign="−" />}
            {kind !== 'removed' && <Value value={after} sign="+" />}
          </div>
        </li>
      ))}
      {changes.length > 500 && (
        <li class="dim">
          {isComplete ? '' : 'more than '}
          {changes.length - 500} more
        </li>
      )}
    </ul>
  )
}

function Value({ value, sign }: { value: unknown; sign: '+' | '−' }) {
  return (
    <div class={sign === '+' ? 'after' : 'before'}>
      <span aria-hidden="true">{sign} </span>
      <span class="sr">{sign === '+' ? 'now ' : 'before '}</span>
      {typeof value === 'object' && value !== null ? <Json value={value} depth={1} /> : <Leaf value={value} />}
    </div>
  )
}

/** A slider moves faster than states can be read. */
function useSettled(value: number): number {
  const [settled, setSettled] = useState(value)
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), settleMs)
    return () => clearTimeout(timer)
  }, [value])
  return settled
}
