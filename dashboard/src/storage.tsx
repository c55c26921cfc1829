// Checkpoints and storage: the store, its content by model, the history of checkpoints, the results of drills, and the data
// that retention would remove, each with the reason.

import { useEffect, useState } from 'preact/hooks'
import { get, type Problem, post, problemOf, urlOf } from './api.ts'
import { Chart } from './chart.tsx'
import { Restorable } from './checkpoints.tsx'
import { bytes, count, duration } from './format.ts'
import { useGet } from './loading.ts'
import { hrefOf } from './route.ts'
import { about, whyNot } from './session.ts'
import { Table } from './table.tsx'
import type { Checkpoint, Report } from './types.ts'
import {
  Button,
  Chip,
  CommandLine,
  Empty,
  Facts,
  OpenJson,
  Problems,
  Time,
  TimelineLink,
  toast,
  toastProblem,
} from './ui.tsx'

interface StorageAnswer {
  readonly store: {
    readonly kind: string
    readonly location: string
    readonly schemaVersion: number
    readonly sizeBytes: number | null
    readonly durability: Readonly<Record<string, string>>
  }
  readonly kinds: readonly {
    readonly kind: string | null
    readonly timelines: number
    readonly checkpoints: number
    readonly stateBytes: number
    readonly addedBytes: number
  }[]
  readonly checkpoints: readonly (Checkpoint & { readonly timeline: string; readonly kind: string | null })[]
  readonly looked: number
  readonly isPartial: boolean
}

interface Verdict {
  readonly id: string
  readonly because: string
}

interface CollectAnswer {
  readonly timelines: readonly {
    readonly timeline: string
    readonly keep: readonly Verdict[]
    readonly drop: readonly Verdict[]
    readonly floor: { readonly seq: number; readonly because: string }
  }[]
  readonly unknown: readonly { readonly timeline: string; readonly because: string }[]
  readonly chunks: {
    readonly live: number
    readonly liveBytes: number
    readonly swept: number
    readonly sweptBytes: number
  }
}

export function Storage() {
  if (about.value?.scopes === null) return <WholeStorage />
  return (
    <div class="screen">
      <h1>Checkpoints and storage</h1>
      <Empty title="This needs a token that reaches the whole store">
        <p>The checkpoints of a timeline that you reach are in its own view.</p>
      </Empty>
    </div>
  )
}

function WholeStorage() {
  const { value, problem, again } = useGet<StorageAnswer>('v1/storage')
  useEffect(() => {
    const timer = setInterval(() => document.visibilityState === 'visible' && again(), 5000)
    return () => clearInterval(timer)
  }, [])
  return (
    <div class="screen">
      <div class="screen-head">
        <h1>Checkpoints and storage</h1>
        <span class="grow" />
        <CommandLine command="reprise doctor" />
        <OpenJson href={urlOf('v1/storage')} />
      </div>
      <Problems problem={problem} retry={again} />
      {!value && !problem && <p class="loading">Loading…</p>}
      {value && (
        <>
          <Facts
            facts={[
              ['store', value.store.kind],
              ['at', value.store.location],
              ['size', value.store.sizeBytes === null ? 'unknown' : bytes(value.store.sizeBytes)],
              ['schema', String(value.store.schemaVersion)],
              ...Object.entries(value.store.durability).map(
                ([name, text]) => [name.replaceAll('_', ' '), text] as const,
              ),
            ]}
          />
          <ByKind kinds={value.kinds} isPartial={value.isPartial} looked={value.looked} />
          <Recent checkpoints={value.checkpoints} />
        </>
      )}
      <Drills onDone={again} />
      <Retention />
    </div>
  )
}

function ByKind({ kinds, isPartial, looked }: { kinds: StorageAnswer['kinds']; isPartial: boolean; looked: number }) {
  const most = Math.max(1, ...kinds.map(({ addedBytes }) => addedBytes))
  return (
    <section>
      <h2>By model</h2>
      {isPartial && <p class="dim">Of the first {count(looked)} timelines.</p>}
      <Table
        name="Content of the store, by model"
        heads={['Kind', '>Timelines', '>Checkpoints', '>State now', 'Kept by checkpoints']}
        rows={kinds.map((each) => ({
          key: String(each.kind),
          cells: [
            each.kind ?? 'unknown',
            count(each.timelines),
            count(each.checkpoints),
            bytes(each.stateBytes),
            <span key="s" class="share">
              <svg viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">
                <rect width={(each.addedBytes / most) * 100} height="6" rx="1" />
              </svg>
              {bytes(each.addedBytes)}
            </span>,
          ],
        }))}
      />
    </section>
  )
}

function Recent({ checkpoints }: { checkpoints: StorageAnswer['checkpoints'] }) {
  const oldestFirst = [...checkpoints].reverse()
  const spread = spreadOut(oldestFirst.map(({ createdAt }) => createdAt))
  return (
    <section>
      <h2>Checkpoints taken last</h2>
      {checkpoints.length === 0 && (
        <Empty title="No checkpoints yet">
          <p>A checkpoint is made when a replay would take longer than the policy allows.</p>
        </Empty>
      )}
      {checkpoints.length > 1 && (
        <Chart
          title="Bytes of each"
          times={spread}
          series={[
            { label: 'whole', values: oldestFirst.map(({ totalBytes }) => totalBytes), colour: 'accent' },
            { label: 'added', values: oldestFirst.map(({ addedBytes }) => addedBytes), colour: 'warn' },
          ]}
          format={bytes}
        />
      )}
      {checkpoints.length > 0 && (
        <Table
          name="Checkpoints, newest first"
          heads={['Timeline', '>Entry', 'Why', '>Whole', '>Added', 'Restorable', '>Taken']}
          rows={checkpoints.slice(0, 25).map((each) => ({
            key: each.id,
            cells: [
              <TimelineLink key="t" id={each.timeline} tab="checkpoints" />,
              count(each.seq),
              each.trigger,
              bytes(each.totalBytes),
              bytes(each.addedBytes),
              <Restorable key="v" checkpoint={each} />,
              <Time key="a" at={each.createdAt} />,
            ],
          }))}
        />
      )}
    </section>
  )
}

/** A chart needs increasing times. */
function spreadOut(times: readonly number[]): number[] {
  let last = 0
  return times.map((time) => {
    last = Math.max(time, last + 1)
    return last
  })
}

interface DrillAnswer {
  readonly ok: boolean
  readonly results: readonly {
    readonly timeline: string
    readonly ok: boolean
    readonly recoveryMs: number
    readonly entriesLost: number
    readonly note: string
  }[]
  readonly unknown: readonly string[]
}

interface Unfinished {
  readonly part: 'structures' | 'timelines'
  readonly done: number
  readonly total: number | null
}

/** Reports progress once per second. An interrupted verification is resumed, if the store can be written. */
async function verifyWatched(tell: (far: string) => void): Promise<VerifyAnswer> {
  const look = async () => {
    const { unfinished } = await get<{ unfinished: Unfinished | null }>('v1/verify')
    if (!unfinished) return
    const { part, done, total } = unfinished
    const share = total ? ` of about ${count(Math.max(done, total))}` : ''
    tell(part === 'structures' ? 'the structures of the store' : `${count(done)}${share} timelines`)
  }
  const timer = setInterval(() => void look().catch(() => undefined), 1000)
  try {
    return await post<VerifyAnswer>('v1/verify', { resume: true })
  } catch (error) {
    if (problemOf(error).code !== 'STORE_READ_ONLY') throw error
    return await post<VerifyAnswer>('v1/verify')
  } finally {
    clearInterval(timer)
    tell('')
  }
}

interface VerifyAnswer {
  readonly ok: boolean
  readonly faults: readonly unknown[]
}

function Drills({ onDone }: { onDone: () => void }) {
  const log = useGet<{ reports: readonly Report[] }>('v1/log', { limit: 50 })
  const [busy, setBusy] = useState<string | null>(null)
  const [far, setFar] = useState('')
  const act = async (name: 'drill' | 'verify') => {
    setBusy(name)
    try {
      if (name === 'drill') {
        const { ok, results, unknown } = await post<DrillAnswer>('v1/drill')
        const slowest = Math.max(0, ...results.map(({ recoveryMs }) => recoveryMs))
        const lost = results.reduce((sum, { entriesLost }) => sum + entriesLost, 0)
        const left = unknown.length > 0 ? `, ${unknown.length} need their code` : ''
        toast(
          `${count(results.length)} restored aside, ${duration(slowest)} at most, ${count(lost)} lost${left}`,
          ok ? 'good' : 'bad',
        )
      } else {
        const { ok, faults } = await verifyWatched(setFar)
        toast(ok ? 'every byte is as it was written' : count(faults.length, 'fault'), ok ? 'good' : 'bad')
      }
    } catch (error) {
      toastProblem(error)
    }
    setBusy(null)
    log.again()
    onDone()
  }
  const no = whyNot('operate')
  const reports = [...(log.value?.reports ?? [])].reverse()
  return (
    <section>
      <div class="row-head">
        <h2>Drills and what happened to the store</h2>
        <span class="grow" />
        <Button disabled={busy !== null || no !== undefined} title={no} onClick={() => void act('verify')}>
          {busy === 'verify' ? `Reading every byte… ${far}` : 'Verify'}
        </Button>
        <Button disabled={busy !== null || no !== undefined} title={no} onClick={() => void act('drill')}>
          {busy === 'drill' ? 'Restoring aside…' : 'Drill'}
        </Button>
      </div>
      <Problems problem={log.problem} />
      {log.value && reports.length === 0 && (
        <p class="dim">No reports: no recovery, no failed checkpoint, no repair.</p>
      )}
      <ul class="log">
        {reports.map((report) => (
          <li key={`${report.at} ${report.what}`}>
            <Time at={report.at} />
            <Chip tone={/fail|damage|fault/.test(report.kind) ? 'bad' : 'calm'}>{report.kind}</Chip>
            <span>{report.what}</span>
            {report.timeline && <a href={hrefOf(['t', report.timeline])}>{report.timeline}</a>}
          </li>
        ))}
      </ul>
    </section>
  )
}

function Retention() {
  const [answer, setAnswer] = useState<CollectAnswer | null>(null)
  const [problem, setProblem] = useState<Problem | null>(null)
  const [isBusy, setBusy] = useState(false)
  const no = whyNot('operate')
  const look = async () => {
    setBusy(true)
    setProblem(null)
    try {
      setAnswer(await post<CollectAnswer>('v1/collect', { dryRun: true }))
    } catch (error) {
      setProblem(problemOf(error))
    }
    setBusy(false)
  }
  return (
    <section>
      <div class="row-head">
        <h2>Retention</h2>
        <span class="grow" />
        <CommandLine command="reprise prune --dry-run" />
        <Button disabled={isBusy || no !== undefined} title={no} onClick={() => void look()}>
          {isBusy ? 'Looking…' : 'What would go, and why'}
        </Button>
      </div>
      <Problems problem={problem} />
      {!answer && <p class="dim">A dry run changes nothing: it shows why each checkpoint is kept or removed.</p>}
      {answer && (
        <>
          <p>
            {count(answer.chunks.swept, 'chunk')} would go ({bytes(answer.chunks.sweptBytes)}),{' '}
            {count(answer.chunks.live)} stay ({bytes(answer.chunks.liveBytes)}).
          </p>
          <ul class="verdicts">
            {answer.timelines
              .filter(({ keep, drop }) => keep.length + drop.length > 0)
              .slice(0, 50)
              .map(({ timeline, keep, drop, floor }) => (
                <li key={timeline}>
                  <a href={hrefOf(['t', timeline], { tab: 'checkpoints' })}>{timeline}</a>
                  <span class="dim">
                    {' '}
                    history from {count(floor.seq + 1)}: {floor.because}
                  </span>
                  <ul>
                    {drop.map(({ id, because }) => (
                      <li key={id}>
                        <Chip tone="bad">goes</Chip> <code>{id}</code> {because}
                      </li>
                    ))}
                    {keep.map(({ id, because }) => (
                      <li key={id}>
                        <Chip tone="good">stays</Chip> <code>{id}</code> {because}
                      </li>
                    ))}
                  </ul>
                </li>
              ))}
          </ul>
          {answer.unknown.length > 0 && (
            <p class="dim">
              {count(answer.unknown.length, 'timeline')} unchanged: their retention policy is unknown here.
            </p>
          )}
        </>
      )}
    </section>
  )
}
