// The engine's events as metrics of a meter: the same that /metrics shows.

import type { Meter } from '@opentelemetry/api'
import type { Events } from '../../engine/base/events.ts'
import { droppedMail } from '../../engine/host/shaped-mail.ts'

export function measure(events: Events, meter: Meter): () => void {
  const count = (name: string, description: string) => meter.createCounter(`reprise.${name}`, { description })
  const seconds = (name: string, description: string) => {
    return meter.createHistogram(`reprise.${name}`, { description, unit: 's' })
  }
  const commits = count('commits', 'Commits that became durable')
  const entries = count('entries', 'Entries that became durable')
  const commitTime = seconds('commit.duration', 'Time of one batch of commits')
  const checkpoints = count('checkpoints', 'Checkpoints, by outcome')
  const checkpointTime = seconds('checkpoint.duration', 'Time to take and publish a checkpoint')
  const stall = seconds('checkpoint.stall', 'Longest time that a checkpoint blocked the process')
  const size = meter.createHistogram('reprise.checkpoint.size', { description: 'Size of a checkpoint', unit: 'By' })
  const recoveryTime = seconds('recovery.duration', 'Time to recover a timeline')
  const drills = count('drills', 'Drills, by outcome')
  const fenced = count('fenced', 'Timelines that another owner took over')
  const retries = count('store.retries', 'Commits that were retried')
  const recalls = count('memo.lookups', 'Lookups of memos in this process, by memo and level')
  const problems = count('problems', 'Problems that were reported')
  const dropped = count('messages.dropped', 'Messages that their receiver could not use and dropped')
  const offs = [
    events.on('committed', (event) => {
      commits.add(event.commits)
      entries.add(event.entries)
      commitTime.record(event.ms / 1000)
    }),
    events.on('checkpoint-published', (event) => {
      checkpoints.add(1, { outcome: 'published' })
      checkpointTime.record(event.ms / 1000)
      stall.record(event.longestStallMs / 1000)
      size.record(event.totalBytes)
    }),
    events.on('checkpoint-failed', () => checkpoints.add(1, { outcome: 'failed' })),
    events.on('recovered', ({ report }) => recoveryTime.record(report.totalMs / 1000)),
    events.on('drilled', ({ ok }) => drills.add(1, { outcome: ok ? 'ok' : 'failed' })),
    events.on('fenced', () => fenced.add(1)),
    events.on('store-retry', () => retries.add(1)),
    events.on('recalled', ({ memo, from }) => recalls.add(1, { memo, result: from })),
    events.on('problem', () => problems.add(1)),
    events.on('report', ({ kind }) => kind === droppedMail && dropped.add(1)),
  ]
  return () => {
    for (const off of offs) off()
  }
}
