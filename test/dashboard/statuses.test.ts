// One word and one dot per outcome: the dots of the page belong to the statuses of docs/decisions/statuses.md, and no screen
// shows a status in another way.

import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { statusTones, toneOf } from '../../dashboard/src/statuses.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const screens = readdirSync(`${root}/dashboard/src`).filter((name) => name.endsWith('.tsx'))

it('every status of the table has its dot, and no other word has one', () => {
  const page = readFileSync(`${root}/docs/decisions/statuses.md`, 'utf8')
  const listed = [...page.matchAll(/^\| (`.*?) \|/gm)].flatMap(([, cell]) =>
    [...cell!.matchAll(/`([a-z-]+)`/g)].map(([, word]) => word!),
  )
  expect(listed.length).toBeGreaterThan(30)
  expect([...statusTones.keys()].sort()).toEqual([...listed].sort())
  expect(new Set(['completed', 'failed', 'held', 'running', 'waiting'].map(toneOf)).size).toBe(5)
  // A status of the user's that is also a name of every object.
  expect(toneOf('constructor')).toBe('calm')
})

/** Statuses in text, and tones chosen by a status. @example otherWays('{head.status}') // ['{head.status}'] */
function otherWays(text: string): string[] {
  return [
    ...text.matchAll(
      /(?<!\b(?:status|key)=)\{[\w.!?]*\bstatus\b[^{}:,=]*\}|tone=\{[^}]*\b(?:status|state) ===[^}]*\}/gi,
    ),
  ].map(([found]) => found)
}

it('screens show a status by the part for it, and choose no dot themselves', () => {
  expect(otherWays('<b>{head.status}</b>')).toEqual(['{head.status}'])
  expect(otherWays("<Chip tone={a.status === 'failed' ? 'bad' : 'good'}>")).toHaveLength(1)
  expect(otherWays('<Status status={status} />')).toEqual([])
  const found = screens.flatMap((name) =>
    otherWays(readFileSync(`${root}/dashboard/src/${name}`, 'utf8')).map((text) => `${name}: ${text}`),
  )
  // The part itself, the filter with its bar, and the doctor's checks, which have a vocabulary of their own.
  expect(found).toEqual([
    "runs.tsx: {status || 'no status'}",
    "system.tsx: tone={state === 'ok' ? 'good' : state === 'warning' ? 'warn' : 'bad'}",
    "ui.tsx: {status || 'no status'}",
  ])
})
