// The table of `npm run prove` in docs/proofs.md, between its markers: one row for each proof and commit. Rows of other machines
// or earlier commits stay; those of the same proof and commit are replaced.

import { readFileSync, renameSync, writeFileSync } from 'node:fs'

export const begin = '<!-- proofs: written by npm run prove -->'
export const end = '<!-- end of proofs -->'
const head = [
  '| proof | promise | passed, of the target | slices that failed | seeds or trials | commit | date |',
  '|---|---|---|---|---|---|---|',
]
const keptCommits = 3
const rangesMax = 6

/** Sums of slices. */
export function rowsOf(proofs, slices) {
  const rows = new Map()
  for (const slice of slices) {
    const proof = proofs.find(({ id }) => id === slice.proof)
    if (!proof) continue
    const key = `${slice.proof} ${slice.commit}`
    const row = rows.get(key) ?? {
      id: slice.proof,
      promises: proof.promises,
      what: proof.what,
      target: proof.target,
      commit: slice.commit,
      done: 0,
      failed: 0,
      ranges: [],
      at: slice.at,
    }
    if (slice.isOk) {
      row.done += slice.count
      row.ranges.push([slice.from + 1, slice.from + slice.count])
    }
    row.failed += slice.failures
    if (slice.at > row.at) row.at = slice.at
    rows.set(key, row)
  }
  return [...rows.values()]
}

export function updatePage(path, rows) {
  const page = readFileSync(path, 'utf8')
  const [from, to] = [page.indexOf(begin), page.indexOf(end)]
  if (from === -1 || to === -1) throw new Error(`${path} has no place for the table: ${begin} … ${end}`)
  const lines = new Map()
  for (const row of rows) lines.set(`${row.id} ${row.commit}`, lineOf(row))
  for (const line of page.slice(from, to).split('\n').slice(3)) {
    const cells = line.split('|').map((cell) => cell.trim())
    const key = `${cells[1]} ${cells[6]}`
    if (cells.length > 7 && !lines.has(key)) lines.set(key, line)
  }
  const byProof = new Map()
  for (const [key, line] of lines) {
    const id = key.split(' ')[0]
    byProof.set(id, [...(byProof.get(id) ?? []), line])
  }
  const kept = [...byProof].sort(([a], [b]) => (a < b ? -1 : 1)).flatMap(([, all]) => all.slice(0, keptCommits))
  const text = `${page.slice(0, from)}${[begin, ...head, ...kept].join('\n')}\n${page.slice(to)}`
  // Written to a temporary file, then renamed: a kill leaves the old page or the new one.
  writeFileSync(`${path}.new`, text)
  renameSync(`${path}.new`, path)
}

const number = (n) => n.toLocaleString('en-US')

/** The passed trials, without the failed ones: `1–500, 1,001–1,500`. */
function seedsOf(ranges) {
  const joined = []
  for (const [first, last] of [...ranges].sort((a, b) => a[0] - b[0])) {
    const before = joined.at(-1)
    if (before && first <= before[1] + 1) before[1] = Math.max(before[1], last)
    else joined.push([first, last])
  }
  const texts = joined.map(([first, last]) => `${number(first)}–${number(last)}`)
  if (texts.length === 0) return 'none'
  return texts.length > rangesMax
    ? `${texts.slice(0, rangesMax).join(', ')} and ${texts.length - rangesMax} more`
    : texts.join(', ')
}

function lineOf({ id, promises, what, target, done, failed, ranges, commit, at }) {
  const cells = [
    id,
    promises,
    `${number(done)} of ${number(target)} ${what}`,
    number(failed),
    seedsOf(ranges),
    commit,
    at,
  ]
  return `| ${cells.join(' | ')} |`
}
