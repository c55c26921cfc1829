// The checkpoints of one timeline: their costs, their drills, and the cost of a recovery now.

import { useState } from 'preact/hooks'
import { at, post } from './api.ts'
import { Chart } from './chart.tsx'
import { bytes, count, duration, quoted } from './format.ts'
import { useLive } from './live.ts'
import { useGet } from './loading.ts'
import { go, withQuery } from './route.ts'
import { whyNot } from './session.ts'
import { Table } from './table.tsx'
import type { Checkpoint, Timeline } from './types.ts'
import { Button, Chip, CommandLine, Empty, Facts, Problems, Time, toast, toastProblem } from './ui.tsx'

type Axis = 'authority' | 'captured' | 'scope' | 'economics' | 'replay'

interface Card {
  readonly axes: Readonly<Record<Axis, { readonly is: string; readonly because: string }>>
  readonly captured: {
    readonly id: string
    readonly seq: number
    readonly at: number
    readonly drilledAt: number | null
    readonly drill: string | null
  } | null
  readonly history: {
    readonly floor: number
    readonly head: number
    readonly entriesAfterCheckpoint: number
    readonly again: { readonly what: string; readonly ms: number } | null
  }
  readonly floor: {
    readonly seq: number
    readonly because: string
    readonly heldBy: readonly { readonly what: string; readonly seq: number }[]
  }
  readonly checkpointing: { readonly because: readonly string[]; readonly failureEveryMs: number | null }
  readonly settings: readonly {
    readonly name: string
    readonly value: unknown
    readonly from: 'stored' | 'declared' | 'kind' | 'usual'
  }[]
  readonly effects: Readonly<
    Record<'safe' | 'compensatable' | 'irreversible' | 'byDefinition' | 'inDoubt', number>
  > | null
  readonly recovery: { readonly ms?: number; readonly totalMs?: number } | null
  readonly missing: string | null
  readonly invalid: string | null
}

interface DrillAnswer {
  readonly results: readonly {
    readonly ok: boolean
    readonly recoveryMs: number
    readonly entriesLost: number
    readonly note: string
  }[]
}

export function Checkpoints({ timeline }: { timeline: Timeline }) {
  const id = timeline.timeline
  const catalog = useGet<{ checkpoints: readonly Checkpoint[] }>(at(id, 'checkpoints'))
  const card = useGet<Card>(at(id, 'card'))
  const [isBusy, setBusy] = useState(false)
  useLive((changed) => changed.has(id) && catalog.again())
  const drill = async () => {
    setBusy(true)
    try {
      const { results } = await post<DrillAnswer>('v1/drill', { timelines: [id] })
      const good = results.filter(({ ok }) => ok)
      const slowest = Math.max(0, ...results.map(({ recoveryMs }) => recoveryMs))
      const lost = results.reduce((sum, { entriesLost }) => sum + entriesLost, 0)
      const words = `${good.length} of ${results.length} restored, ${duration(slowest)} at most, ${count(lost)} lost`
      toast(results.length === 0 ? 'nothing to restore yet' : words, good.length === results.length ? 'good' : 'bad')
    } catch (error) {
      toastProblem(error)
    }
    setBusy(false)
    catalog.again()
    card.again()
  }
  const list = catalog.value?.checkpoints ?? []
  const oldestFirst = [...list].sort((a, b) => a.createdAt - b.createdAt)
  return (
    <div class="checkpoints">
      <div class="row-head">
        <h2>If it had to recover now</h2>
        <span class="grow" />
        <Button
          disabled={isBusy || whyNot('operate') !== undefined}
          title={whyNot('operate')}
          onClick={() => void drill()}
        >
          Try a restore
        </Button>
      </div>
      <Problems problem={card.problem} />
      {card.value && <CardFacts card={card.value} />}
      <h2>Catalog</h2>
      <Problems problem={catalog.problem} retry={catalog.again} />
      {catalog.value && list.length === 0 && (
        <Empty title="No checkpoints">
          <p>Its history is short, or replaying it costs less than a checkpoint would. A savepoint makes one now:</p>
          <CommandLine command={`reprise savepoint ${quoted(id)}`} />
        </Empty>
      )}
      {oldestFirst.length > 1 && (
        <Chart
          title="Size"
          times={oldestFirst.map(({ createdAt }) => createdAt)}
          series={[
            { label: 'whole', values: oldestFirst.map(({ totalBytes }) => totalBytes), colour: 'accent' },
            { label: 'added', values: oldestFirst.map(({ addedBytes }) => addedBytes), colour: 'warn' },
          ]}
          format={bytes}
        />
      )}
      {timeline.hasFold && timeline.summary !== null && <Durations timeline={id} />}
      {list.length > 0 && <Catalog checkpoints={list} />}
    </div>
  )
}

function Catalog({ checkpoints }: { checkpoints: readonly Checkpoint[] }) {
  return (
    <Table
      name="Checkpoints, newest first"
      heads={['Entry', '>Taken', 'Why', 'Consistency', '>Whole', '>Added', 'Restorable', '.Look']}
      rows={checkpoints.map((each) => ({
        key: each.id,
        cells: [
          <span key="e">
            <b>{count(each.seq)}</b> <span class="dim">epoch {each.epoch}</span>
          </span>,
          <Time key="t" at={each.createdAt} />,
          <span key="w">
            {each.trigger} {each.label && <Chip>{each.label}</Chip>} {each.isPinned && <Chip tone="busy">pinned</Chip>}
          </span>,
          each.consistency,
          bytes(each.totalBytes),
          bytes(each.addedBytes),
          <Restorable key="r" checkpoint={each} />,
          <Button key="s" tone="quiet" onClick={() => go(withQuery({ tab: 'travel', seq: String(each.seq) }))}>
            State here
          </Button>,
        ],
      }))}
    />
  )
}

interface Taken {
  readonly at: number
  readonly ms: number
  readonly longestStallMs: number
}

/** Draws a state's record of its last checkpoints (a pipeline has one). */
function Durations({ timeline }: { timeline: string }) {
  const { value } = useGet<{ state: unknown }>(at(timeline, 'state'))
  const { recent } = (value?.state ?? {}) as { recent?: unknown }
  const taken = (Array.isArray(recent) ? recent : []).filter(isTaken)
  if (taken.length < 2) return null
  return (
    <Chart
      title="How long the last ones took"
      times={taken.map((each) => each.at)}
      series={[
        { label: 'whole', values: taken.map(({ ms }) => ms), colour: 'accent' },
        { label: 'longest stall', values: taken.map(({ longestStallMs }) => longestStallMs), colour: 'warn' },
      ]}
      format={duration}
    />
  )
}

function isTaken(value: unknown): value is Taken {
  const { at: when, ms, longestStallMs } = (value ?? {}) as Partial<Taken>
  return [when, ms, longestStallMs].every((each) => typeof each === 'number')
}

/** Whether a checkpoint was restored by a drill, or why it cannot be. */
export function Restorable({ checkpoint }: { checkpoint: Checkpoint }) {
  const { invalid, drilledAt, drill, verifiedAt } = checkpoint
  if (invalid) return <Chip tone="bad">{invalid}</Chip>
  if (drilledAt) {
    return (
      <>
        <Chip tone="good">tried</Chip> <Time at={drilledAt} /> <span class="dim">{drill}</span>
      </>
    )
  }
  return <span class="dim">{verifiedAt ? 'read back when it was written' : 'not tried yet'}</span>
}

const settingNames: Readonly<Record<string, string>> = { retain: 'retention', checkpoint: 'checkpoint policy' }
const origins = {
  stored: 'stored with it',
  declared: 'declared by the code here',
  kind: 'the same for all of its kind',
  usual: 'the default of its kind',
}

function settingShown(value: unknown, from: keyof typeof origins) {
  return (
    <>
      {value === null ? 'not set' : <code>{JSON.stringify(value)}</code>} <span class="dim">{origins[from]}</span>
    </>
  )
}

const axisNames = [
  ['authority', 'authority'],
  ['captured', 'content'],
  ['scope', 'scope'],
  ['economics', 'economics'],
  ['replay', 'replay'],
] as const

function CardFacts({ card }: { card: Card }) {
  const { axes, captured, history, floor, effects, missing, invalid, settings } = card
  return (
    <>
      {missing && <p class="why-not">{missing}</p>}
      {invalid && <p class="why-not">The state is invalid by its definition: {invalid}</p>}
      <Facts
        facts={[
          ...axisNames.map(
            ([name, label]) =>
              [
                label,
                <>
                  {axes[name].is} <span class="dim">{axes[name].because}</span>
                </>,
              ] as const,
          ),
          [
            'from',
            captured ? (
              <>
                checkpoint at {count(captured.seq)}, <Time at={captured.at} />
              </>
            ) : (
              'the first entry'
            ),
          ],
          ['to replay', `${count(history.entriesAfterCheckpoint)} entries`],
          ...(history.again
            ? ([['to do again', `${duration(history.again.ms)}: ${history.again.what}`]] as const)
            : []),
          ['history kept', `${count(history.floor)} to ${count(history.head)}`],
          ['kept because', floor.because],
          ...(floor.heldBy.length > 0 ? ([['held by', floor.heldBy.map(({ what }) => what).join(', ')]] as const) : []),
          ['effects in doubt', effects ? count(effects.inDoubt) : 'not known'],
          ...settings.map(({ name, value, from }) => [settingNames[name] ?? name, settingShown(value, from)] as const),
        ]}
      />
    </>
  )
}
