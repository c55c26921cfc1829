// The system: workers and their progress, queues, schedules, consumers and their lag, and the findings of the doctor.

import type { ComponentChildren } from 'preact'
import { useEffect } from 'preact/hooks'
import { urlOf } from './api.ts'
import { Configs, Resources } from './configs.tsx'
import { count, duration } from './format.ts'
import { now } from './live.ts'
import { type Loaded, useGet } from './loading.ts'
import { hrefOf } from './route.ts'
import { about } from './session.ts'
import { type Setting, Settings } from './settings.tsx'
import { Table } from './table.tsx'
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

const rate = (hits: number, misses: number) => `${Math.round((100 * hits) / (hits + misses))} %`

export function System() {
  // Information about the whole store is hidden from a token that reaches a part of it.
  const isWhole = about.value?.scopes === null
  const whole = (path: string) => (isWhole ? path : null)
  const workers = useGet<{ workers: readonly Worker[] }>(whole('v1/workers'), { all: true })
  const queues = useGet<{ queues: readonly Queue[] }>(whole('v1/queues'))
  const schedules = useGet<{ schedules: readonly Schedule[] }>('v1/schedules')
  const consumers = useGet<{ consumers: readonly Consumer[] }>(whole('v1/consumers'))
  const letters = useGet<{ letters: readonly Letter[] }>('v1/dead-letters')
  const pipelines = useGet<SearchAnswer>('v1/search', { kind: 'pipeline', limit: 50 })
  const memos = useGet<SearchAnswer>('v1/search', { kind: 'memo', limit: 50 })
  const caches = useGet<{ caches: readonly CacheUse[]; memos: readonly MemoUse[] }>(whole('v1/caches'))
  const configs = useGet<{ items: readonly { readonly config: string }[] }>('v1/configs')
  const resources = useGet<SearchAnswer>('v1/search', { kind: 'resource', limit: 50 })
  const settings = useGet<{ settings: readonly Setting[] }>(whole('v1/settings'))
  const doctor = useGet<Doctor>(whole('v1/doctor'))
  const missed = caches.value?.memos.flatMap((each) =>
    each.missed.map(({ at, why }, i) => ({
      key: `${each.memo} ${at} ${i}`,
      cells: [each.memo, why, <Time key="a" at={at} />],
    })),
  )
  useEffect(() => {
    const often = [workers, queues, consumers, pipelines, memos, caches]
    const timer = setInterval(() => {
      if (document.visibilityState === 'visible') for (const each of often) each.again()
    }, 2000)
    return () => clearInterval(timer)
  }, [])
  return (
    <div class="screen">
      <div class="screen-head">
        <h1>System</h1>
        <span class="grow" />
        <CommandLine command="reprise workers --all" />
        <OpenJson href={urlOf('v1/workers', { all: true })} />
      </div>
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
      <Part
        title="Workers"
        loaded={workers}
        count={workers.value?.workers.length}
        none="No worker is running on this store."
      >
        <Workers workers={workers.value?.workers ?? []} />
      </Part>
      <Part title="Queues" loaded={queues} count={queues.value?.queues.length} none="No run waits in a queue.">
        <Table
          name="Queues"
          heads={['Queue', '>Timelines', '>Running', '>Due', '>Mail', '>Oldest due', '>Next']}
          rows={(queues.value?.queues ?? []).map((each) => ({
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
      </Part>
      <Part title="Schedules" loaded={schedules} count={schedules.value?.schedules.length} none="Nothing is scheduled.">
        <Table
          name="Schedules"
          heads={['Schedule', '>Next', '>Last', '>Fired', '>Skipped', 'Last run']}
          rows={(schedules.value?.schedules ?? []).map((each) => ({
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
      </Part>
      <Part
        title="Pipelines"
        loaded={pipelines}
        count={pipelines.value?.timelines.length}
        none="No pipeline has run here."
      >
        <Table
          name="Pipelines"
          heads={['Pipeline', 'Status', 'Where it stands', '>Changed']}
          rows={(pipelines.value?.timelines ?? []).map((each) => ({
            key: each.timeline,
            cells: [
              <TimelineLink key="p" id={each.timeline} />,
              <Status key="s" status={each.status} />,
              each.stands?.text ?? '',
              <Time key="t" at={each.updatedAt} />,
            ],
          }))}
        />
      </Part>
      <Part
        title="Pushed configuration"
        loaded={configs}
        count={configs.value?.items.length}
        none="This server has the definition of none."
      >
        <Configs names={(configs.value?.items ?? []).map(({ config }) => config)} />
      </Part>
      <Part title="Resources" loaded={resources} count={resources.value?.total} none="There are none here.">
        {resources.value && <Resources found={resources.value} />}
      </Part>
      <Part title="Remembered results" loaded={memos} count={memos.value?.total} none="There are no stored results.">
        <Table
          name="Remembered results"
          heads={['Result', '>Last used', '>Computed']}
          rows={(memos.value?.timelines ?? []).map((each) => ({
            key: each.timeline,
            cells: [
              <TimelineLink key="m" id={each.timeline} />,
              <Time key="u" at={Number(each.attributes.used ?? 0)} />,
              <Time key="t" at={each.createdAt} />,
            ],
          }))}
        />
      </Part>
      <Part
        title="Build caches"
        loaded={caches}
        count={caches.value?.caches.length}
        none="No build tool has sent a request since this server started."
      >
        <Table
          name="Build caches"
          heads={['Cache', '>Hit rate', '>Hits', '>Misses']}
          rows={(caches.value?.caches ?? []).map(({ door, hits, misses }) => ({
            key: door,
            cells: [door, rate(hits, misses), count(hits), count(misses)],
          }))}
        />
      </Part>
      <Part
        title="Memos"
        loaded={caches}
        count={caches.value?.memos.length}
        none="No memo was called in the process of this server since it started; other processes count their own calls in /metrics."
      >
        <Table
          name="Memos"
          heads={['Memo', '>Hit rate', '>Hits', '>Misses']}
          rows={(caches.value?.memos ?? []).map(({ memo, hits, misses }) => ({
            key: memo,
            cells: [memo, rate(hits, misses), count(hits), count(misses)],
          }))}
        />
      </Part>
      <Part title="Why memos missed" loaded={caches} count={missed?.length} none="No misses since this server started.">
        <Table name="Why memos missed" heads={['Memo', 'Why it was not there', '>When']} rows={missed ?? []} />
      </Part>
      <Part
        title="Consumers of the feed"
        loaded={consumers}
        count={consumers.value?.consumers.length}
        none="The feed has no named readers."
      >
        <Table
          name="Consumers"
          heads={['Consumer', 'Held by', '>Behind', '>Moved']}
          rows={(consumers.value?.consumers ?? []).map((each) => ({
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
      </Part>
      <Part title="Dead letters" loaded={letters} count={letters.value?.letters.length} none="Nothing was given up.">
        <Table
          name="Dead letters"
          heads={['Key', 'Of', 'Error', '>Attempts', '>Given up']}
          rows={(letters.value?.letters ?? []).slice(0, 200).map((each) => ({
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
      </Part>
      <Part title="Settings" loaded={settings} count={settings.value?.settings.length} none="None are told.">
        <Settings settings={settings.value?.settings ?? []} />
      </Part>
    </div>
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

function Workers({ workers }: { workers: readonly Worker[] }) {
  const sorted = [...workers].sort((a, b) => Number(b.isAlive) - Number(a.isAlive) || b.beatAt - a.beatAt)
  return (
    <Table
      name="Workers"
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
