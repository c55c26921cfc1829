// The flow of a pipeline: its parts as a graph with the load of each, and the same as a table.

import { at, urlOf } from './api.ts'
import { box, layoutOf, type Placed } from './flow-layout.ts'
import { bytes, count, duration, exact } from './format.ts'
import { now, useLive } from './live.ts'
import { useGet } from './loading.ts'
import { hrefOf } from './route.ts'
import { Table } from './table.tsx'
import type { FlowPart, FlowTask, FlowView, Timeline } from './types.ts'
import { Chip, Facts, OpenJson, Problems, Time } from './ui.tsx'

const shares = ['busy', 'backpressured', 'idle'] as const

export function Flow({ timeline }: { timeline: Timeline }) {
  const path = at(timeline.timeline, 'flow')
  const { value, problem, again } = useGet<{ flow: FlowView | null }>(path)
  useLive(again)
  const flow = value?.flow ?? null
  return (
    <section class="flow" aria-label="What flows">
      <div class="flow-head">
        <h2>What flows</h2>
        {flow && <Since flow={flow} timeline={timeline} />}
        <span class="grow" />
        <OpenJson href={urlOf(path)} />
      </div>
      <Problems problem={problem} retry={again} />
      {value && !flow && (
        <p class="dim">No figures yet: each checkpoint stores them, and there was none since the start.</p>
      )}
      {flow && <Drawn flow={flow} />}
    </section>
  )
}

/** The age of the figures: those of a run in another process are as of its last checkpoint. */
function Since({ flow, timeline }: { flow: FlowView; timeline: Timeline }) {
  const span = `over the last ${duration(flow.spanMs)}`
  const isRunning = timeline.owner !== null && timeline.isOwnerAlive
  return (
    <span class="dim">
      {flow.from === 'process' ? `as it is now, ${span}` : `as checkpoint ${flow.checkpoint?.checkpoint} noted it `}
      {flow.from === 'checkpoint' && (
        <>
          <Time at={flow.at} />, {span} before it: it {isRunning ? 'runs in another process' : 'does not run now'}
        </>
      )}
    </span>
  )
}

function Drawn({ flow }: { flow: FlowView }) {
  const { parts, stages = [], checkpoint, failures, lastFailure, lateRecords, tasks } = flow
  const layout = layoutOf(parts)
  return (
    <>
      {failures > 0 && (
        <p>
          <Chip tone="bad">{count(failures, 'failed checkpoint')}</Chip> {lastFailure}
        </p>
      )}
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a scrollable region must be reachable by keyboard. */}
      <section class="flow-graph" tabIndex={0} aria-label="The graph; its figures are in the table below">
        <svg width={layout.width} height={layout.height} aria-hidden="true">
          <defs>
            <marker id="flow-tip" viewBox="0 0 6 6" refX="2" refY="3" markerWidth="6" markerHeight="6" orient="auto">
              <path d="M0 0 6 3 0 6Z" />
            </marker>
          </defs>
          {layout.lines.map(({ key, path, isHeld }) => (
            <path key={key} class={isHeld ? 'line held' : 'line'} d={path} marker-end="url(#flow-tip)" />
          ))}
          {layout.boxes.map((placed) => (
            <Box key={placed.part.name} placed={placed} />
          ))}
        </svg>
      </section>
      <p class="flow-legend dim">
        {shares.map((name) => (
          <span key={name}>
            <i class={`flow-swatch ${name}`} aria-hidden="true" /> {name}
          </span>
        ))}
      </p>
      <Table
        name="Parts of the flow"
        heads={[
          'Part',
          'Kind',
          '>Busy',
          '>Backpressured',
          '>Idle',
          '>Per second',
          '>Records',
          '>Watermark',
          '>Lag',
          '>Cells',
          '>In flight',
        ]}
        rows={parts.map((part) => ({ key: part.name, cells: cellsOf(part) }))}
      />
      {stages.length > 0 && <Stages tasks={stages} />}
      <Facts
        facts={[
          ...(checkpoint ? ([['last checkpoint', <LastCheckpoint key="c" checkpoint={checkpoint} />]] as const) : []),
          ['late records', count(lateRecords)],
          ...(tasks.length > 0 ? ([['tasks', <Tasks key="t" tasks={tasks} />]] as const) : []),
        ]}
      />
    </>
  )
}

/** The tasks of a run on several threads. */
function Stages({ tasks }: { tasks: readonly FlowTask[] }) {
  return (
    <Table
      name="Stages on threads"
      heads={[
        'Task',
        'Parts',
        'Why it is apart',
        ...['>Busy', '>Backpressured', '>Idle', '>Aligning', '>Per second', '>Records', '>Watermark'],
      ]}
      rows={tasks.map((task) => ({ key: task.name, cells: taskCells(task) }))}
    />
  )
}

function taskCells(task: FlowTask) {
  const { name, parts, why, aligning, waitingChannels, channels, perSecond, records, watermark } = task
  return [
    <b key="n">{name}</b>,
    parts.join(', '),
    why,
    ...shares.map((share) => percent(task[share])),
    waitingChannels > 0 ? `${percent(aligning)}, ${waitingChannels} of ${channels} wait` : percent(aligning),
    rate(perSecond),
    count(records),
    watermark === null ? '' : <span title={exact(watermark)}>{behind(watermark)}</span>,
  ]
}

function LastCheckpoint({ checkpoint }: { checkpoint: NonNullable<FlowView['checkpoint']> }) {
  const { checkpoint: number, at: made, ms, bytes: size, addedBytes } = checkpoint
  return (
    <span>
      {number}, <Time at={made} />
      {ms !== null && `, took ${duration(ms)}`}, {bytes(size)} ({bytes(addedBytes)} added)
    </span>
  )
}

function Tasks({ tasks }: { tasks: readonly string[] }) {
  return (
    <span>
      {tasks.map((task, i) => (
        <span key={task}>
          {i > 0 && ', '}
          <a href={hrefOf(['t', task])}>{task.slice(task.lastIndexOf('/@') + 2)}</a>
        </span>
      ))}
    </span>
  )
}

function cellsOf(part: FlowPart) {
  const { name, kind, perSecond, records, watermark, lagMs, keys, inFlight, isEnded } = part
  return [
    <b key="n">{name}</b>,
    isEnded ? `${kind}, ended` : kind,
    ...shares.map((share) => percent(part[share])),
    rate(perSecond),
    count(records),
    watermark === null ? '' : <span title={exact(watermark)}>{behind(watermark)}</span>,
    lagMs === null || isEnded ? '' : duration(lagMs),
    keys > 0 ? count(keys) : '',
    inFlight > 0 ? count(inFlight) : '',
  ]
}

function Box({ placed: { part, x, y } }: { placed: Placed }) {
  const { name, kind, perSecond, watermark } = part
  const inner = box.width - 20
  let from = x + 10
  return (
    <g class={`part ${kind}`}>
      <title>{name}</title>
      <rect class="part-box" x={x} y={y} width={box.width} height={box.height} rx="8" />
      <text class="part-name" x={x + 10} y={y + 20}>
        {name.length > 20 ? `${name.slice(0, 19)}…` : name}
      </text>
      <text class="part-note" x={x + 10} y={y + 37}>
        {kind} · {rate(perSecond)}/s
      </text>
      <text class="part-note" x={x + 10} y={y + 52}>
        {watermark === null ? '' : `watermark ${behind(watermark)}`}
      </text>
      {shares.map((share) => {
        const width = part[share] * inner
        const start = from
        from += width
        return <rect key={share} class={`share ${share}`} x={start} y={y + 59} width={width} height="7" />
      })}
    </g>
  )
}

/** The lag of the watermark behind the clock of the page. */
function behind(watermark: number): string {
  const ms = now.value - watermark
  return ms < 0 ? `${duration(-ms)} ahead` : `${duration(ms)} behind`
}

function percent(share: number): string {
  if (share > 0 && share < 0.005) return '< 1 %'
  return `${Math.round(share * 100)} %`
}

function rate(perSecond: number): string {
  return perSecond > 0 && perSecond < 10 ? perSecond.toFixed(1) : count(Math.round(perSecond))
}
