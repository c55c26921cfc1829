// A chart over time, drawn by uPlot in the colours of the page.

import { useEffect, useRef } from 'preact/hooks'
import type uPlot from 'uplot'

export interface Series {
  readonly label: string
  readonly values: readonly (number | null)[]
  /** A colour of the page. */
  readonly colour: string
}

export interface ChartProps {
  readonly title: string
  /** Milliseconds since 1970, increasing. */
  readonly times: readonly number[]
  readonly series: readonly Series[]
  readonly format: (value: number) => string
}

const height = 160

/** The chart has its latest figures beside it as text. */
export function Chart({ title, times, series, format }: ChartProps) {
  const ref = useRef<HTMLDivElement>(null)
  const key = `${times.length}:${times.at(-1)}`
  useEffect(() => {
    const box = ref.current!
    const styles = getComputedStyle(document.documentElement)
    const colour = (name: string) => styles.getPropertyValue(`--${name}`).trim()
    const axis = {
      stroke: colour('dim'),
      grid: { stroke: colour('line'), width: 1 },
      ticks: { show: false },
      font: '11px system-ui',
    }
    let plot: uPlot | null = null
    let isOver = false
    const draw = (Plot: typeof uPlot) => {
      if (isOver) return
      plot = new Plot(
        {
          width: Math.max(200, box.clientWidth),
          height,
          legend: { show: false },
          cursor: { y: false },
          scales: { y: { range: (_, __, max) => [0, Math.max(1, max * 1.1)] } },
          axes: [axis, { ...axis, size: 60, values: (_, values) => values.map(format) }],
          series: [
            {},
            ...series.map(({ label, colour: name }) => ({
              label,
              stroke: colour(name),
              fill: `color-mix(in srgb, ${colour(name)} 14%, transparent)`,
              width: 1.5,
              points: { show: times.length < 40, size: 5, fill: colour(name) },
            })),
          ],
        },
        [times.map((time) => time / 1000), ...series.map(({ values }) => [...values])] as uPlot.AlignedData,
        box,
      )
    }
    // If uPlot cannot be loaded, only the figures remain.
    import('uplot').then(
      ({ default: Plot }) => draw(Plot),
      () => undefined,
    )
    const observer = new ResizeObserver(() => plot?.setSize({ width: Math.max(200, box.clientWidth), height }))
    observer.observe(box)
    return () => {
      isOver = true
      observer.disconnect()
      plot?.destroy()
    }
  }, [key])
  return (
    <figure class="chart">
      <figcaption>
        <b>{title}</b>
        {series.map(({ label, values, colour }) => (
          <span key={label}>
            <i class={`swatch ${colour}`} aria-hidden="true" />
            {label} {format(values.findLast((value) => value !== null) ?? 0)}
          </span>
        ))}
      </figcaption>
      <div ref={ref} aria-hidden="true" />
    </figure>
  )
}
