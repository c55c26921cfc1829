// The actual work of the server: every statement's plan with its actual rows and buffers, including statements inside
// functions, as logged by the server's module auto_explain.

import pg from 'pg'
import type { TestPostgres } from './postgres.ts'
import { until } from './until.ts'

/** Settings of a server whose plans are watched. */
export const planSettings = {
  session_preload_libraries: 'auto_explain',
  'auto_explain.log_min_duration': '0',
  'auto_explain.log_analyze': 'on',
  'auto_explain.log_buffers': 'on',
  'auto_explain.log_timing': 'off',
  'auto_explain.log_nested_statements': 'on',
  'auto_explain.log_format': 'json',
  log_line_prefix: '@@',
  autovacuum: 'off',
  fsync: 'off',
  full_page_writes: 'off',
  max_wal_size: '4GB',
}

interface PlanNode {
  readonly 'Node Type': string
  readonly 'Relation Name'?: string
  readonly 'Index Name'?: string
  readonly 'Actual Rows'?: number
  readonly 'Actual Loops'?: number
  readonly 'Rows Removed by Filter'?: number
  readonly 'Rows Removed by Index Recheck'?: number
  readonly 'Rows Removed by Join Filter'?: number
  readonly 'Shared Hit Blocks'?: number
  readonly 'Shared Read Blocks'?: number
  readonly Plans?: readonly PlanNode[]
}

export interface Work {
  readonly text: string
  /** The rows that the busiest node returned and discarded, over all its loops. */
  readonly rows: number
  readonly buffers: number
  /** Tables that were read from one end to the other. */
  readonly scanned: readonly string[]
  readonly plan: PlanNode
}

/** Runs the work and returns the plans that the server executed for it. */
export async function watchPlans(server: TestPostgres, work: () => Promise<unknown>): Promise<Work[]> {
  let log = ''
  const end = server.listen((text) => {
    log += text
  })
  try {
    await work()
    const mark = `marker ${Math.random()}`
    const client = new pg.Client(server.url)
    await client.connect()
    await client.query(`SET auto_explain.log_min_duration = -1; DO $$ BEGIN RAISE LOG '${mark}'; END $$`)
    await client.end()
    await until(() => log.includes(mark))
    return parseLog(log)
  } finally {
    end()
  }
}

function parseLog(log: string): Work[] {
  return log.split('\n@@').flatMap((record) => {
    const start = record.indexOf('plan:\n')
    if (start === -1) return []
    const parsed = JSON.parse(record.slice(start + 6)) as { 'Query Text': string; Plan: PlanNode }
    const plan = parsed.Plan
    const nodes = nodesOf(plan)
    const scanned = nodes.filter((node) => node['Node Type'] === 'Seq Scan').map((node) => node['Relation Name']!)
    const buffers = (plan['Shared Hit Blocks'] ?? 0) + (plan['Shared Read Blocks'] ?? 0)
    return [{ text: parsed['Query Text'], rows: Math.max(...nodes.map(rowsOf)), buffers, scanned, plan }]
  })
}

function nodesOf(node: PlanNode): PlanNode[] {
  return [node, ...(node.Plans ?? []).flatMap(nodesOf)]
}

function rowsOf(node: PlanNode): number {
  const removed =
    (node['Rows Removed by Filter'] ?? 0) +
    (node['Rows Removed by Index Recheck'] ?? 0) +
    (node['Rows Removed by Join Filter'] ?? 0)
  return ((node['Actual Rows'] ?? 0) + removed) * (node['Actual Loops'] ?? 1)
}

/** For the message of a failed test. */
export function showPlan(node: PlanNode, depth = 0): string {
  const where = [node['Relation Name'], node['Index Name']].filter(Boolean).join(' ')
  const line = `${'  '.repeat(depth)}${node['Node Type']} ${where} rows ${rowsOf(node)} loops ${node['Actual Loops']}`
  return [line, ...(node.Plans ?? []).map((child) => showPlan(child, depth + 1))].join('\n')
}
