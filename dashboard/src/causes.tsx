// Errors grouped by cause, with counts over time. A cause leads to the timelines that have it.

import { count } from './format.ts'
import { hrefOf } from './route.ts'
import type { Cause } from './types.ts'
import { Time } from './ui.tsx'

export function Causes({ causes }: { causes: readonly Cause[] }) {
  if (causes.length === 0) return null
  return (
    <section class="causes" aria-label="Causes">
      <h2>Causes</h2>
      <ul>
        {causes.map((cause) => (
          <li key={cause.error}>
            <strong>{count(cause.count)}</strong>
            <Spark times={cause.times} />
            <a href={hrefOf(['runs'], { attention: '1', text: searchFor(cause.error) })}>{cause.error}</a>
            <span class="dim">
              last <Time at={cause.lastAt} />
            </span>
          </li>
        ))}
      </ul>
    </section>
  )
}

/** The words of the cause; without the parts that differ between its errors. */
function searchFor(error: string): string {
  return error === 'no error is recorded'
    ? ''
    : error
        .replaceAll(/…/g, ' ')
        .replaceAll(/\s\S*=\S*/g, ' ')
        .trim()
}

function Spark({ times }: { times: readonly number[] }) {
  const most = Math.max(1, ...times)
  return (
    <svg class="spark" viewBox={`0 0 ${times.length * 5} 16`} width={times.length * 5} height="16" aria-hidden="true">
      {times.map((value, i) => {
        const height = value === 0 ? 1 : 2 + (value / most) * 14
        return <rect key={i} x={i * 5} y={16 - height} width="4" height={height} class={value === 0 ? 'none' : ''} />
      })}
    </svg>
  )
}
