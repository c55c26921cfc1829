// The system: workers and their progress, queues, schedules, consumers and their lag, and the findings of the doctor.

import type { ComponentChildren } from 'preact'
import { type Query, urlOf } from './api.ts'
import { Configs, Resources } from './configs.tsx'
import { count, duration } from './format.ts'
import { now } from './live.ts'
import { type Loaded, useGet, usePaced } from './loading.ts'
import { hrefOf } from './route.ts'
import { about } from './session.ts'
import { type Setting, Settings } from './settings.tsx'
import { Table, type TableRow } from './table.tsx'
import type { Letter, SearchAnswer, Worker } from './types.ts'
import { Chip, CommandLine, OpenJson, Problems, Status, Time, TimelineLink } from './ui.tsx'

interface Queue {
  readonly queue: string
  readonly timelines: number
  readonly running: number
  readonly due: number
  readonly mail: number
  readonly nextAt: number | null
  readonly oldestAt: number | null
}

interface Schedule {
  readonly schedule: string
  readonly timeline: string
  readonly nextAt: number | null
  readonly lastAt: number | null
  readonly run: string | null
  readonly fired: number
  readonly skipped: number
}

interface CacheUse {
  readonly door: string
  readonly hits: number
  readonly misses: number
}

interface MemoUse {
  readonly memo: string
  readonly hits: number
  readonly misses: number
  readonly missed: readonly { readonly at: number; readonly why: string }[]
}

interface Consumer {
  readonly name: string
  readonly owner: string
  readonly movedAt: number
  readonly behind: number
  readonly isMore: boolean
}

interface Doctor {
  readonly checks: readonly {
    readonly name: string
    readonly state: 'ok' | 'warning' | 'bad'
    readonly what: string
    readonly cure?: string
  }[]
}

export function System() {
  return (
    <div class="screen">
      <div class="screen-head">
        <h1>System</h1>
        <span class="grow" />
        <CommandLine command="reprise workers --all" />
        <OpenJson href={urlOf('v1/workers', { all: true })} />
      </div>
      <Findings />
      <Workers />
      <Queues />
      <Schedules />
      <Pipelines />
      <ConfigsAndResources />
      <Caches />
      <Consumers />
      <DeadLetters />
      <StoreSettings />
    </div>
  )
}

/** Information about the whole store is hidden from a token that reaches a part of it. */
function useWhole<T>(path: string, query: Query = {}): Loaded<T> {
  return useGet<T>(about.value?.scopes === null ? path : null, query)
}

/** Repeats a request every two seconds while the page is visible, less often if it takes long. */
function useOften<T>(loaded: Loaded<T>): Loaded<T> {
  usePaced(async () => {
    if (document.visibilityState === 'visible') await loaded.again()
  }, 2000)
  return loaded
}

function Findings() {
  const doctor = useWhole<Doctor>('v1/doctor')
  return (
    <Part title="Doctor" loaded={doctor} count={doctor.value?.checks.length} none="There was nothing to check.">
      <ul class="doctor">
        {doctor.value?.checks.map(({ name, state, what, cure }) => (
          <li key={`${name} ${what}`} class={state}>
            <Chip tone={state === 'ok' ? 'good' : state === 'warning' ? 'warn' : 'bad'}>{state}</Chip>
            <b>{name}</b>
            <span>
              {what}
              {cure && <span class="dim"> {cure}</span>}
            </span>
          </li>
        ))}
      </ul>
    </Part>
  )
}

function Queues() {
  const queues = useOften(useWhole<{ queues: readonly Queue[] }>('v1/queues'))
  return (
    <Listing
      title="Queues"
      loaded={queues}
      none="No run waits in a queue."
      heads={['Queue', '>Timelines', '>Running', '>Due', '>Mail', '>Oldest due', '>Next']}
      rows={queues.value?.queues.map((each) => ({
        key: each.queue,
        cells: [
          each.queue,
          count(each.timelines),
          count(each.running),
          each.due > 0 && each.running === 0 ? <Chip tone="warn">{count(each.due)}</Chip> : count(each.due),
          count(each.mail),
          each.oldestAt === null ? '' : duration(Math.max(0, now.value - each.oldestAt)),
          each.nextAt === null ? '' : <Time at={each.nextAt} />,
        ],
      }))}
    />
  )
}

function Schedules() {
  const schedules = useGet<{ schedules: readonly Schedule[] }>('v1/schedules')
  return (
    <Listing
      title="Schedules"
      loaded={schedules}
      none="Nothing is scheduled."
      heads={['Schedule', '>Next', '>Last', '>Fired', '>Skipped', 'Last run']}
      rows={schedules.value?.schedules.map((each) => ({
        key: each.schedule,
        cells: [
          <a key="s" href={hrefOf(['t', each.timeline])}>
            {each.schedule}
          </a>,
          <Time key="n" at={each.nextAt} />,
          <Time key="l" at={each.lastAt} />,
          count(each.fired),
          count(each.skipped),
          each.run ?? '',
        ],
      }))}
    />
  )
}

function Pipelines() {
  const pipelines = useOften(useGet<SearchAnswer>('v1/search', { kind: 'pipeline', limit: 50 }))
  return (
    <Listing
      title="Pipelines"
      loaded={pipelines}
      none="No pipeline has run here."
      heads={['Pipeline', 'Status', 'Current state', '>Changed']}
      rows={pipelines.value?.timelines.map((each) => ({
        key: each.timeline,
        cells: [
          <TimelineLink key="p" id={each.timeline} />,
          <Status key="s" status={each.status} />,
          each.statusLine?.text ?? '',
          <Time key="t" at={each.updatedAt} />,
        ],
      }))}
    />
  )
}

function ConfigsAndResources() {
  const configs = useGet<{ items: readonly { readonly config: string }[] }>('v1/configs')
  const resources = useGet<SearchAnswer>('v1/search', { kind: 'resource', limit: 50 })
  return (
    <>
      <Part
        title="Pushed configuration"
        loaded={configs}
        count={configs.value?.items.length}
        none="This server has no definition of a configuration."
      >
        <Configs names={(configs.value?.items ?? []).map(({ config }) => config)} />
      </Part>
      <Part title="Resources" loaded={resources} count={resources.value?.total} none="There are no resources.">
        {resources.value && <Resources found={resources.value} />}
      </Part>
    </>
  )
}

function Caches() {
  const memos = useOften(useGet<SearchAnswer>('v1/search', { kind: 'memo', limit: 50 }))
  const caches = useOften(useWhole<{ caches: readonly CacheUse[]; memos: readonly MemoUse[] }>('v1/caches'))
  return (
    <>
      <Listing
        title="Remembered results"
        loaded={memos}
        count={memos.value?.total}
        none="There are no stored results."
        heads={['Result', '>Last used', '>Computed']}
        rows={memos.value?.timelines.map((each) => ({
          key: each.timeline,
          cells: [
            <TimelineLink key="m" id={each.timeline} />,
            <Time key="u" at={Number(each.attributes.used ?? 0)} />,
            <Time key="t" at={each.createdAt} />,
          ],
        }))}
      />
      <Listing
        title="Build caches"
        loaded={caches}
        none="No build tool has sent a request since this server started."
        heads={['Cache', '>Hit rate', '>Hits', '>Misses']}
        rows={caches.value?.caches.map(({ door, hits, misses }) => hitRow(door, hits, misses))}
      />
      <Listing
        title="Memos"
        loaded={caches}
        none="No memo was called in the process of this server since it started; other processes count their own calls in /metrics."
        heads={['Memo', '>Hit rate', '>Hits', '>Misses']}
        rows={caches.value?.memos.map(({ memo, hits, misses }) => hitRow(memo, hits, misses))}
      />
      <Listing
        title="Why memos missed"
        loaded={caches}
        none="No misses since this server started."
        heads={['Memo', 'Reason', '>When']}
        rows={caches.value?.memos.flatMap(({ memo, missed }) =>
          missed.map(({ at, why }, i) => ({ key: `${memo} ${at} ${i}`, cells: [memo, why, <Time key="a" at={at} />] })),
        )}
      />
    </>
  )
}

function hitRow(name: string, hits: number, misses: number): TableRow {
  return { key: name, cells: [name, `${Math.round((100 * hits) / (hits + misses))} %`, count(hits), count(misses)] }
}

function Consumers() {
  const consumers = useOften(useWhole<{ consumers: readonly Consumer[] }>('v1/consumers'))
  return (
    <Listing
      title="Consumers of the feed"
      loaded={consumers}
      none="The feed has no named readers."
      heads={['Consumer', 'Held by', '>Behind', '>Moved']}
      rows={consumers.value?.consumers.map((each) => ({
        key: each.name,
        cells: [
          each.name,
          <a key="o" href={hrefOf(['t', each.owner])}>
            {each.owner}
          </a>,
          `${count(each.behind)}${each.isMore ? ' or more' : ''}`,
          <Time key="t" at={each.movedAt} />,
        ],
      }))}
    />
  )
}

function DeadLetters() {
  const letters = useGet<{ letters: readonly Letter[] }>('v1/dead-letters')
  return (
    <Listing
      title="Dead letters"
      loaded={letters}
      count={letters.value?.letters.length}
      none="There are no dead letters."
      heads={['Key', 'Of', 'Error', '>Attempts', '>Given up']}
      rows={letters.value?.letters.slice(0, 200).map((each) => ({
        key: `${each.timeline} ${each.key}`,
        cells: [
          <code key="k">{each.key}</code>,
          <a key="t" href={hrefOf(['t', each.timeline])}>
            {each.timeline}
          </a>,
          `${each.error.name}: ${each.error.message}`,
          count(each.attempts),
          <Time key="a" at={each.at} />,
        ],
      }))}
    />
  )
}

function StoreSettings() {
  const settings = useWhole<{ settings: readonly Setting[] }>('v1/settings')
  return (
    <Part title="Settings" loaded={settings} count={settings.value?.settings.length} none="There are no settings.">
      <Settings settings={settings.value?.settings ?? []} />
    </Part>
  )
}

/** A part that is one table. Default of `count`: the number of rows. */
function Listing(props: {
  title: string
  loaded: Loaded<unknown>
  count?: number | undefined
  none: string
  heads: readonly string[]
  rows: readonly TableRow[] | undefined
}) {
  const { title, loaded, none, heads, rows, count: number = rows?.length } = props
  return (
    <Part title={title} loaded={loaded} count={number} none={none}>
      <Table name={title} heads={heads} rows={rows ?? []} />
    </Part>
  )
}

function Part(props: {
  title: string
  loaded: Loaded<unknown>
  count: number | undefined
  none: string
  children: ComponentChildren
}) {
  const { title, loaded, count: number, none, children } = props
  return (
    <section>
      <h2>
        {title} {number !== undefined && number > 0 && <span class="dim">{count(number)}</span>}
      </h2>
      {loaded.isAsked ? (
        <Problems problem={loaded.problem} retry={loaded.again} />
      ) : (
        <p class="dim">This needs a token that reaches the whole store.</p>
      )}
      {number === 0 && <p class="dim">{none}</p>}
      {number !== undefined && number > 0 && children}
    </section>
  )
}

function Workers() {
  const workers = useOften(useWhole<{ workers: readonly Worker[] }>('v1/workers', { all: true }))
  const all = workers.value?.workers
  const sorted = [...(all ?? [])].sort((a, b) => Number(b.isAlive) - Number(a.isAlive) || b.beatAt - a.beatAt)
  return (
    <Listing
      title="Workers"
      loaded={workers}
      count={all?.length}
      none="No worker is running on this store."
      heads={['Worker', 'State', 'In hand', '>Owns', '>Progress', '>Heartbeat', '>Up']}
      rows={sorted.slice(0, 100).map((worker) => ({
        key: worker.id,
        cells: [
          <span key="w" title={`${worker.host} ${worker.process}`}>
            <b>{worker.name}</b> <code>{worker.id}</code>
          </span>,
          worker.isStuck ? (
            <Chip tone="warn" title={worker.stuck.join('; ')}>
              stuck
            </Chip>
          ) : (
            <Chip tone={worker.isAlive ? 'good' : 'calm'}>{worker.isAlive ? 'alive' : 'gone'}</Chip>
          ),
          worker.underWay.length > 0 ? (
            <a key="u" href={hrefOf(['t', worker.underWay[0]!.timeline])}>
              {worker.underWay[0]!.what} {worker.underWay.length > 1 && `and ${worker.underWay.length - 1} more`}
            </a>
          ) : (
            <span class="dim">{worker.isAlive ? 'nothing that takes long' : ''}</span>
          ),
          count(worker.owns),
          <span key="p">
            {count(worker.progress)}, <Time at={worker.progressAt} />
          </span>,
          <Time key="b" at={worker.beatAt} />,
          duration(Math.max(0, worker.beatAt - worker.startedAt)),
        ],
      }))}
    />
  )
}
