// Runs: all of them, what each waits for, and those that need a person. Filtered, counted and paged by the server.

import { useRef, useState } from 'preact/hooks'
import { type Query, urlOf } from './api.ts'
import { BatchDialog, type BatchVerb } from './batch.tsx'
import { Causes } from './causes.tsx'
import { count, quoted } from './format.ts'
import { useKeys } from './keys.ts'
import { now, useLive } from './live.ts'
import { useGet, usePaced } from './loading.ts'
import { go, hrefOf, place, withQuery } from './route.ts'
import { Picked, RunsTable, useChoice } from './runs-table.tsx'
import { about, whyNot } from './session.ts'
import { startRun } from './starting.ts'
import { toneOf } from './statuses.ts'
import type { SearchAnswer } from './types.ts'
import { Button, CommandLine, Empty, Icon, OpenJson, Problems } from './ui.tsx'
import { Views } from './views.tsx'

const pageRows = 50
const spans: readonly (readonly [string, string, number])[] = [
  ['', 'any time', 0],
  ['1h', 'last hour', 3_600_000],
  ['1d', 'last day', 86_400_000],
  ['7d', 'last 7 days', 7 * 86_400_000],
]

/** The query for this address. */
export function runsQuery(query: URLSearchParams): Query {
  const kinds = query.getAll('kind')
  const isAttention = query.get('attention') === '1'
  const span = spans.find(([name]) => name === query.get('time'))?.[2] ?? 0
  return {
    text: query.get('text'),
    kind: kinds,
    status: query.getAll('status'),
    attention: isAttention,
    // Work that waits for a person may be of any kind.
    runs: query.get('all') !== '1' && kinds.length === 0 && !isAttention,
    // In whole minutes: otherwise every moment would be a new query.
    since: span === 0 ? null : Math.floor((now.peek() - span) / 60_000) * 60_000,
    after: query.get('after'),
    limit: pageRows,
  }
}

export function Runs() {
  const { query } = place.value
  const { value, problem, again } = useGet<SearchAnswer>('v1/search', runsQuery(query))
  useLive(again)
  const rows = value?.timelines ?? []
  const choice = useChoice(rows)
  const [batch, setBatch] = useState<BatchVerb | null>(null)
  return (
    <div class="screen">
      <RunsHead total={value?.total ?? null} />
      <Kinds counts={value?.kinds ?? {}} chosen={query.getAll('kind')} isAll={query.get('all') === '1'} />
      <Views />
      {value && <Banners attention={value.attention} />}
      <StatusBar statuses={value?.statuses ?? {}} chosen={query.getAll('status')} />
      <Problems problem={problem} retry={again} />
      <Causes causes={value?.causes ?? []} />
      {choice.picked.size > 0 && <Picked choice={choice} onBatch={setBatch} />}
      {value && rows.length === 0 && <Nothing isFiltered={filters.some((name) => query.has(name))} />}
      {rows.length > 0 && <RunsTable rows={rows} choice={choice} />}
      <footer class="pages">
        <CommandLine command={commandOf(query.getAll('kind'), query.getAll('status'))} />
        <OpenJson href={urlOf('v1/search', runsQuery(query))} />
        <span class="grow" />
        {query.has('after') && <a href={withQuery({ after: null })}>Newest</a>}
        {value?.next && <a href={withQuery({ after: value.next })}>Next {pageRows}</a>}
      </footer>
      {batch && (
        <BatchDialog
          verb={batch}
          ids={[...choice.picked]}
          onClose={(isDone) => {
            setBatch(null)
            if (isDone) choice.clear()
            again()
          }}
        />
      )}
    </div>
  )
}

const filters = ['text', 'kind', 'status', 'attention', 'time', 'after']

function RunsHead({ total }: { total: number | null }) {
  const { query } = place.value
  const search = useRef<HTMLInputElement>(null)
  useKeys({ '/': () => search.current?.focus() })
  const title = query.get('attention') === '1' ? 'Needs a person' : query.get('all') === '1' ? 'Timelines' : 'Runs'
  const no = whyNot('write')
  return (
    <div class="screen-head">
      <h1>{title}</h1>
      {total !== null && <span class="dim">{count(total)}</span>}
      <span class="grow" />
      <label class="search">
        <span class="sr">Search by id, status, attribute or error</span>
        <Icon name="search" />
        <input
          ref={search}
          type="search"
          placeholder="Search id, error, attribute=value"
          value={query.get('text') ?? ''}
          onInput={(event) => go(withQuery({ text: event.currentTarget.value, after: null }), 'replace')}
        />
        <kbd>/</kbd>
      </label>
      <label>
        <span class="sr">Changed</span>
        <select
          value={query.get('time') ?? ''}
          onChange={(event) => go(withQuery({ time: event.currentTarget.value, after: null }))}
        >
          {spans.map(([name, words]) => (
            <option key={name} value={name}>
              {words}
            </option>
          ))}
        </select>
      </label>
      <Button tone="primary" disabled={no !== undefined} title={no ?? 'Start a run (n)'} onClick={() => startRun()}>
        Start a run…
      </Button>
    </div>
  )
}

function Banners({ attention }: { attention: number }) {
  return (
    <>
      {attention > 0 && place.value.query.get('attention') !== '1' && (
        <a class="banner warn" href={hrefOf(['runs'], { attention: '1' })}>
          <Icon name="alert" />
          <span>
            <strong>{count(attention)}</strong> {attention === 1 ? 'needs' : 'need'} a person
          </span>
          <span class="banner-go">Show</span>
        </a>
      )}
      <SystemBanners />
    </>
  )
}

function commandOf(kinds: readonly string[], statuses: readonly string[]): string {
  const words = ['reprise', 'ls']
  if (kinds[0] !== undefined) words.push(`${kinds[0]}/`)
  if (statuses[0] !== undefined) words.push('--status', statuses[0])
  return words.map(quoted).join(' ')
}

function Kinds({
  counts,
  chosen,
  isAll,
}: {
  counts: Readonly<Record<string, number>>
  chosen: readonly string[]
  isAll: boolean
}) {
  const runs = new Set(about.value?.runs ?? [])
  const names = Object.keys(counts).sort((a, b) => Number(runs.has(b)) - Number(runs.has(a)) || a.localeCompare(b))
  const none = { status: null, after: null }
  const isAttention = place.value.query.get('attention') === '1'
  return (
    <nav class="kinds" aria-label="Kinds">
      <a
        href={withQuery({ kind: null, all: null, attention: null, ...none })}
        aria-current={chosen.length === 0 && !isAll && !isAttention ? 'true' : undefined}
      >
        Runs
      </a>
      <a
        href={withQuery({ kind: null, all: '1', attention: null, ...none })}
        aria-current={chosen.length === 0 && isAll ? 'true' : undefined}
      >
        Everything
      </a>
      <span class="rule" aria-hidden="true" />
      {names
        .filter((name) => name !== '')
        .map((name) => (
          <a
            key={name}
            href={withQuery({ kind: name, ...none })}
            aria-current={chosen.includes(name) ? 'true' : undefined}
          >
            {name} <span class="dim">{count(counts[name]!)}</span>
          </a>
        ))}
    </nav>
  )
}

/** The bar is the filter: the width of each part is its share. */
function StatusBar({ statuses, chosen }: { statuses: Readonly<Record<string, number>>; chosen: readonly string[] }) {
  const entries = Object.entries(statuses).sort((a, b) => b[1] - a[1])
  const total = entries.reduce((sum, [, value]) => sum + value, 0)
  if (total === 0) return null
  let at = 0
  return (
    <div class="status-bar">
      <svg viewBox="0 0 1000 8" preserveAspectRatio="none" aria-hidden="true">
        {entries.map(([status, value]) => {
          const width = (value / total) * 1000
          const x = at
          at += width
          return (
            <rect key={status} class={`tone-${toneOf(status)}`} x={x} y="0" width={Math.max(width - 2, 2)} height="8" />
          )
        })}
      </svg>
      <fieldset aria-label="Filter by status">
        {entries.map(([status, value]) => {
          const isOn = chosen.includes(status)
          const next = isOn ? chosen.filter((each) => each !== status) : [...chosen, status]
          return (
            <button
              key={status}
              type="button"
              class={`pill tone-${toneOf(status)}`}
              aria-pressed={isOn}
              onClick={() => go(withQuery({ status: next, after: null }))}
            >
              <i aria-hidden="true" />
              {status || 'no status'} <span class="dim">{count(value)}</span>
            </button>
          )
        })}
      </fieldset>
    </div>
  )
}

interface Queue {
  readonly queue: string
  readonly due: number
  readonly running: number
  readonly oldestAt: number | null
}

/** Obstacles for runs: queues without workers, stuck workers, failing checkpoints. */
function SystemBanners() {
  const isWhole = about.value?.scopes === null
  const workers = useGet<{ workers: readonly { isStuck: boolean; failing: readonly unknown[] }[] }>(
    isWhole ? 'v1/workers' : null,
  )
  const queues = useGet<{ queues: readonly Queue[] }>(isWhole ? 'v1/queues' : null)
  usePaced(() => Promise.all([workers.again(), queues.again()]), 5000)
  const stuck = workers.value?.workers.filter(({ isStuck }) => isStuck).length ?? 0
  const failing = workers.value?.workers.flatMap((worker) => worker.failing).length ?? 0
  const waiting = queues.value?.queues.filter(
    ({ due, running, oldestAt }) => due > 0 && running === 0 && oldestAt !== null && now.value - oldestAt > 5000,
  )
  return (
    <>
      {stuck > 0 && <SystemBanner>{count(stuck, 'worker')} stuck: alive, without progress</SystemBanner>}
      {failing > 0 && <SystemBanner>checkpoints of {count(failing, 'timeline')} fail</SystemBanner>}
      {waiting?.map(({ queue, due }) => (
        <SystemBanner key={queue}>
          {count(due, 'run')} due in {queue}, and no worker executes {due === 1 ? 'it' : 'them'}
        </SystemBanner>
      ))}
    </>
  )
}

function SystemBanner({ children }: { children: preact.ComponentChildren }) {
  return (
    <a class="banner warn" href={hrefOf(['system'])}>
      <Icon name="alert" />
      <span>{children}</span>
      <span class="banner-go">Look</span>
    </a>
  )
}

function Nothing({ isFiltered }: { isFiltered: boolean }) {
  if (isFiltered) {
    return (
      <Empty title="Nothing matches">
        <a href={hrefOf(['runs'])}>Clear the filters</a>
      </Empty>
    )
  }
  return (
    <Empty title="No runs yet">
      <p>Start one here, or in a terminal; it appears by itself:</p>
      <Button
        tone="primary"
        disabled={whyNot('write') !== undefined}
        title={whyNot('write')}
        onClick={() => startRun()}
      >
        Start a run…
      </Button>
      <CommandLine command="npx reprise init && npx reprise run papers.mjs" />
    </Empty>
  )
}
