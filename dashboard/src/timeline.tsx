// One timeline: its status, its actions, its journal, its past states, its checkpoints and its raw history.

import type { ComponentChildren } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { ActButton, type OnAct, whyRefused } from './act-button.tsx'
import { ActionDialog, type Asked, buttons, labelOf, roleOf } from './actions.tsx'
import { at, type Problem, urlOf } from './api.ts'
import { Checkpoints } from './checkpoints.tsx'
import { Flow } from './flow.tsx'
import { count, quoted } from './format.ts'
import { useJournal } from './history.ts'
import { JournalView } from './journal-view.tsx'
import { Json } from './json.tsx'
import { useKeys } from './keys.ts'
import { Letters } from './letters.tsx'
import { now, useLive } from './live.ts'
import { useGet } from './loading.ts'
import { screenCommands } from './palette.tsx'
import { Raw } from './raw.tsx'
import { go, hrefOf, place, withQuery } from './route.ts'
import { NeedsPerson, StatusText } from './runs-table.tsx'
import { about, whyNot } from './session.ts'
import { Travel } from './travel.tsx'
import type { Timeline, Worker } from './types.ts'
import { CommandLine, Copy, Empty, Facts, OpenJson, Problems, Status, Time } from './ui.tsx'
import { WaysOut } from './ways-out.tsx'

const tabs = [
  ['journal', 'Journal'],
  ['travel', 'Time travel'],
  ['checkpoints', 'Checkpoints'],
  ['raw', 'Raw'],
] as const

/** The query for a timeline without its state. */
export const briefly = { brief: true }

export function TimelineView({ id }: { id: string }) {
  const whole = useGet<Timeline>(at(id))
  const { problem, again } = whole
  // The journal is shown before the state of a long history is known.
  const [isFirst, setFirst] = useState(true)
  const brief = useGet<Timeline>(isFirst ? at(id) : null, briefly)
  const value = whole.value ?? brief.value
  useEffect(() => {
    if (whole.value) setFirst(false)
  }, [whole.value !== null])
  const isWhole = about.value?.scopes === null
  const workers = useGet<{ workers: readonly Worker[] }>(isWhole ? 'v1/workers' : null, { all: true })
  const journal = useJournal(id, value)
  const [asked, setAsked] = useState<Asked | null>(null)
  useLive((changed) => {
    if (changed.size > 0 && !changed.has(id)) return
    again()
    if (changed.size === 0) workers.again()
  })
  const tab = place.value.query.get('tab') ?? 'journal'
  const act = (verb: string, more: Readonly<Record<string, unknown>> = {}) => {
    if (verb === 'travel') go(withQuery({ tab: 'travel', seq: String(more.seq) }))
    else setAsked({ verb, more })
  }
  useTimelineKeys(tab, value, act)
  if (!value) return <NotHere problem={problem} again={again} />
  const worker = workers.value?.workers.find((each) => each.id === value.owner) ?? null
  return (
    <div class="screen timeline">
      <Head timeline={value} worker={worker} onAct={act} />
      <Problems problem={problem} />
      {value.status === 'diverged' && <WaysOut timeline={value} onAct={act} />}
      <Tabs timeline={value} tab={tab} />
      {tab === 'journal' && (
        <>
          {value.hasFlow && <Flow timeline={value} />}
          {Number(value.attributes.dead ?? 0) > 0 && <Letters timeline={value} onAct={act} />}
          <JournalView timeline={value} journal={journal} worker={worker} onAct={act} />
        </>
      )}
      {tab === 'travel' && <Travel timeline={value} onAct={act} />}
      {tab === 'checkpoints' && <Checkpoints timeline={value} />}
      {tab === 'raw' && <Raw timeline={value} />}
      {asked && (
        <ActionDialog
          asked={asked}
          timeline={value}
          onClose={() => {
            setAsked(null)
            again()
          }}
        />
      )}
    </div>
  )
}

/** Verbs with a key; each is also in the palette. */
const verbKeys: readonly (readonly [key: string, verb: string])[] = [
  ['s', 'signal'],
  ['r', 'retry'],
  ['c', 'cancel'],
  ['f', 'fork'],
]

function useTimelineKeys(tab: string, timeline: Timeline | null, act: OnAct): void {
  const isOpen = (verb: string) => timeline !== null && !whyRefused(timeline, verb) && !whyNot(roleOf(verb))
  useKeys({
    t: () => {
      const next = (tabs.findIndex(([name]) => name === tab) + 1) % tabs.length
      go(withQuery({ tab: tabs[next]![0] }))
    },
    Escape: () => go(hrefOf(['runs'])),
    ...Object.fromEntries(verbKeys.map(([key, verb]) => [key, () => isOpen(verb) && act(verb)])),
  })
  const open = buttons.filter(([verb]) => isOpen(verb))
  useEffect(() => {
    screenCommands.value = open.map(([verb, label]) => {
      const key = verbKeys.find(([, each]) => each === verb)?.[0]
      return { words: labelOf(verb, label, timeline!), ...(key !== undefined && { key }), act: () => act(verb) }
    })
    return () => {
      screenCommands.value = []
    }
  }, [timeline?.timeline, open.join()])
}

function NotHere({ problem, again }: { problem: Problem | null; again: () => void }) {
  return (
    <div class="screen">
      <Problems problem={problem} retry={again} />
      {!problem && <p class="loading">Loading…</p>}
      {problem?.code === 'NOT_FOUND' && (
        <Empty title="There is no such timeline">
          <a href={hrefOf(['runs'])}>All runs</a>
        </Empty>
      )}
    </div>
  )
}

function Tabs({ timeline, tab }: { timeline: Timeline; tab: string }) {
  return (
    <nav class="tabs" aria-label="Views of this timeline">
      {tabs.map(([name, words]) => (
        <a key={name} href={withQuery({ tab: name })} aria-current={tab === name ? 'page' : undefined}>
          {words}
          {name === 'checkpoints' && timeline.checkpoints > 0 && (
            <span class="dim"> {count(timeline.checkpoints)}</span>
          )}
        </a>
      ))}
      <span class="grow" />
      <CommandLine command={`reprise show ${quoted(timeline.timeline)}`} />
      <OpenJson href={urlOf(at(timeline.timeline))} />
    </nav>
  )
}

function Head({ timeline, worker, onAct }: { timeline: Timeline; worker: Worker | null; onAct: OnAct }) {
  const { timeline: id, kind, status, summary, attributes } = timeline
  const shown = Object.entries(attributes)
  return (
    <header class="timeline-head">
      <div class="title-line">
        <a class="back" href={hrefOf(['runs'])} aria-label="All runs">
          Runs
        </a>
        <span aria-hidden="true">/</span>
        <h1>
          <span>{id}</span>
        </h1>
        <Copy text={id} label="Copy the id" />
        {status && <Status status={status} />}
        <span class="grow" />
        <div class="acts">
          {buttons.map(([verb, label]) => (
            <ActButton key={verb} timeline={timeline} verb={verb} hides onAct={onAct}>
              {labelOf(verb, label, timeline)}
            </ActButton>
          ))}
        </div>
      </div>
      <p class="stands-line">
        <StatusText row={timeline} />
        <NeedsPerson row={timeline} />
      </p>
      <Owner timeline={timeline} worker={worker} />
      <Facts
        facts={[
          ['kind', kind ?? 'unknown'],
          ['entries', count(timeline.seq)],
          ['epoch', count(timeline.epoch)],
          ['life', count(timeline.identity.life)],
          ['branch', count(timeline.identity.branch)],
          ['began', <Time key="b" at={timeline.createdAt} />],
          ['changed', <Time key="c" at={timeline.updatedAt} />],
          ...(timeline.queue ? ([['queue', timeline.queue]] as const) : []),
          ...(timeline.wakeup ? ([['wakes', <Time key="w" at={timeline.wakeup} />]] as const) : []),
          ...(timeline.mail > 0 ? ([['unread mail', count(timeline.mail)]] as const) : []),
          ...(timeline.base
            ? ([
                [
                  'forked from',
                  <a key="f" href={hrefOf(['t', timeline.base.timeline])}>
                    {timeline.base.timeline}@{timeline.base.seq}
                  </a>,
                ],
              ] as const)
            : []),
          ...(timeline.edited
            ? ([['edited', `${timeline.edited.names.join(', ')}, by ${timeline.edited.by}`]] as const)
            : []),
          ...shown.map(([name, value]) => [name, attributeShown(name, value)] as const),
        ]}
      />
      {summary && (
        <details class="summary">
          <summary>Summary of its state</summary>
          <Json value={summary} />
        </details>
      )}
    </header>
  )
}

/** Attributes are the user's; one with a name and value like a time is shown as a time. */
function attributeShown(name: string, value: unknown): ComponentChildren {
  if (/At$/.test(name) && typeof value === 'number' && value > 1e12) return <Time at={value} />
  return typeof value === 'number' ? count(value) : String(value)
}

/** The worker of the timeline; if it is due and has none, a note that it is not being worked on. */
function Owner({ timeline, worker }: { timeline: Timeline; worker: Worker | null }) {
  const { owner, isOwnerAlive, isUnfinished, wakeup, mail, queue } = timeline
  if (owner === null) {
    const isDue = mail > 0 || (wakeup !== null && wakeup <= now.value)
    if (!isUnfinished || !isDue) return null
    return (
      <p class="owner gone">
        <i aria-hidden="true" />
        no worker has it: the next one that takes {queue ?? 'it'} resumes it from the last entry
      </p>
    )
  }
  const name = worker ? `${worker.name} (${worker.id})` : owner
  if (isOwnerAlive) {
    return (
      <p class="owner alive">
        <i aria-hidden="true" />
        on worker {name}
        {worker && (
          <span class="dim">
            · heartbeat <Time at={worker.beatAt} />
          </span>
        )}
      </p>
    )
  }
  return (
    <p class={`owner ${isUnfinished ? 'gone' : ''}`}>
      <i aria-hidden="true" />
      {isUnfinished
        ? `its worker ${name} is gone: the next worker that has its definition resumes it`
        : `last on worker ${name}`}
    </p>
  )
}
