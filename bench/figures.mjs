// The recorded figures (bench/figures.json) and the tables generated from them in bench/README.md, README.md and the pages that
// compare. `--record` of the runner replaces the figures of the benches that it ran, and writes the tables again.

import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { cpus } from 'node:os'
import { describeTarget } from './judge.mjs'

/** The folder of the figures; its parent has README.md. */
const here = new URL('.', import.meta.url)
const start = '<!-- figures -->'
const end = '<!-- /figures -->'

/** The figures of README.md, each with its description. */
const quoted = [
  ['items-trivial', 'a job of 1,000,000 trivial items, each recorded, over bare inserts of the same keys'],
  ['append-sequential-sqlite', 'durable appends one after another, over bare INSERT + COMMIT in SQLite'],
  ['append-concurrent-sqlite', 'durable appends of 64 writers at once, over bare inserts in transactions of 64'],
  ['recover-from-checkpoint', 'recovery with a checkpoint 1,000 entries back, over a full replay of 1,000,000'],
  ['runs-3-steps-versus-restate', '1,000 workflow runs of three durable steps at once, over Restate'],
  ['runs-3-steps-versus-dbos', 'the same, both on PostgreSQL, over DBOS'],
  ['recover-200-inflight', '200 workflow runs in flight, the process killed with SIGKILL: time until all resume'],
  ['takeover-another-host', 'the same, resumed on another host'],
  ['cli-start', 'start of the command line over bare node'],
]

/** The measured rows of the pages that compare, each with its description and the name of its baseline. */
export const compared = {
  'docs/comparison-workflows.md': [
    ['runs-3-steps-versus-dbos', '1,000 runs of three durable steps at once, both on PostgreSQL', 'DBOS'],
    [
      'runs-3-steps-versus-dbos-by-default',
      'the same, each on the store that it opens by default',
      'DBOS (PostgreSQL)',
    ],
    ['runs-3-steps-versus-restate', 'the same, ours on SQLite', 'Restate'],
    ['runs-3-steps-versus-openworkflow', 'the same, both on SQLite', 'OpenWorkflow'],
    [
      'commit-to-first-step-versus-pg-boss',
      'commit of your transaction to first step, median',
      'pg-boss, polling each 0.5 s',
    ],
    ['commit-to-first-step-versus-graphile-worker', 'the same, in other rounds', 'graphile-worker'],
  ],
  'docs/comparison-pipelines.md': [
    ['kafka-count-to-kafka', 'count by key, Kafka to Kafka, exactly once', "the client's bare loop"],
    ['keyed-count-10k', 'count by 10,000 keys', 'a bare batch loop'],
    ['keyed-count-1m', 'count by 1,000,000 keys', 'a bare batch loop'],
    ['windows-10k', 'windows of 10,000 keys', 'a bare loop with a watermark'],
  ],
  'docs/comparison-caches.md': [
    ['hit-small', 'a small result that is stored', 'bare SQLite reads by key'],
    ['hit-small-store', 'the same, read from the store and checked each time', 'bare SQLite reads by key'],
    ['tree-second-look', '20,000 files, in a new engine', 'git status'],
    ['restore-artifact', 'an artifact that does not compress', 'cp'],
  ],
  'docs/comparison-resources.md': [
    ['etcd-put', 'writes at once, ours in this process on SQLite', 'etcd 3.4 over its JSON gateway'],
    ['etcd-watch-100', 'the same, until 100 watchers have seen the last', 'etcd 3.4 over its JSON gateway'],
  ],
}

export function readFigures(folder = here) {
  return JSON.parse(readFileSync(new URL('figures.json', folder), 'utf8'))
}

/** The table of bench/README.md. */
export function figuresTable({ figures }) {
  const rows = figures.map((each) => {
    const { suite, bench, unit, target, met, date, commit, machine, condition } = each
    const verdict = met === null ? '' : met ? 'yes' : '**no**'
    const cells = [suite, `\`${bench}\``, `${count(each.value)} ${unit}`, count(each.baseline), count(each.ratio)]
    return row([...cells, percent(each.spread), target, verdict, date, commit, `${machine}, ${condition}`])
  })
  const heads = ['suite', 'bench', 'value', 'baseline', 'ratio', 'spread', 'target', 'met', 'date', 'commit', 'machine']
  return [row(heads), `|${heads.map(() => '---|').join('')}`, ...rows].join('\n')
}

/** The rows of README.md. */
export function quotedTable({ figures }) {
  const rows = quoted.map(([bench, what]) => {
    const figure = figures.find((each) => each.bench === bench)
    const { value, unit, baseline, ratio, condition, date, suite } = figure
    const parts = [
      `${count(value)} ${unit}`,
      baseline && `baseline ${count(baseline)}`,
      ratio && `ratio ${count(ratio)}`,
    ]
    const text = `${parts.filter(Boolean).join(', ')} (${condition} machine, ${date})`
    return row([what, text, `\`npm run bench -- ${suite} --only ${bench}\``])
  })
  return [row(['what', 'figure', 'command']), '|---|---|---|', ...rows].join('\n')
}

/** The measured rows of a page that compares. */
export function comparedTable({ figures }, page) {
  const rows = compared[page].map(([bench, what, peer]) => {
    const { value, unit, baseline, condition, date, machine } = figures.find((each) => each.bench === bench)
    return row([
      what,
      `${count(value)} ${unit}`,
      `${count(baseline)} ${unit} (${peer})`,
      `${date}, ${condition} machine ${machine}`,
    ])
  })
  return [row(['measured', 'Reprise', 'beside it', 'when']), '|---|---|---|---|', ...rows].join('\n')
}

/** Replaces the table between the two marks of a page. */
export function withTable(page, table) {
  const [before, rest] = page.split(start)
  const after = rest?.split(end)[1]
  if (after === undefined) throw new Error(`the page has no ${start} … ${end}`)
  return `${before}${start}\n${table}\n${end}${after}`
}

/** Stores the results of a suite, measured now on this machine. `load`: the load average before the first bench. */
export function record(suite, results, load, folder = here) {
  const recorded = readFigures(folder)
  const machine = machineOf(recorded)
  const now = { date: new Date().toISOString().slice(0, 10), commit: commitNow(), machine }
  const condition = load < cpus().length / 2 ? 'quiet' : 'loaded'
  for (const result of results) {
    if (result.value === null) continue
    const { name: bench, value, unit, baseline, ratio, spread, met } = result
    const target = describeTarget(result.target) || 'reported'
    const figure = { suite, bench, value, unit, baseline, ratio, spread, target, met, ...now, condition }
    const index = recorded.figures.findIndex((each) => each.suite === suite && each.bench === bench)
    if (index < 0) recorded.figures.push(figure)
    else recorded.figures[index] = figure
  }
  writeFileSync(new URL('figures.json', folder), `${JSON.stringify(recorded, null, 2)}\n`)
  for (const [page, table] of [
    ['README.md', figuresTable(recorded)],
    ['../README.md', quotedTable(recorded)],
    ...Object.keys(compared).map((page) => [`../${page}`, comparedTable(recorded, page)]),
  ]) {
    const path = new URL(page, folder)
    writeFileSync(path, withTable(readFileSync(path, 'utf8'), table))
  }
}

function machineOf({ machines }) {
  const [first] = cpus()
  const text = `${cpus().length} cores (${first?.model.trim() ?? process.arch}), ${process.platform}, Node ${process.versions.node}`
  const known = Object.keys(machines).find((name) => machines[name] === text)
  const name = known ?? String.fromCharCode('A'.charCodeAt(0) + Object.keys(machines).length)
  machines[name] = text
  return name
}

function commitNow() {
  return execFileSync('git', ['rev-parse', '--short=8', 'HEAD'], { encoding: 'utf8' }).trim()
}

function count(value) {
  if (value === null) return ''
  return Number(value.toPrecision(value >= 1000 ? 12 : 4)).toLocaleString('en', { maximumFractionDigits: 4 })
}

function percent(spread) {
  return spread === null ? '' : `${Math.round(spread * 100)} %`
}

function row(cells) {
  return `|${cells.map((cell) => (cell === '' ? ' ' : ` ${cell} `)).join('|')}|`
}
