// The rate limit of a job is shared by all its processes: they start, end, are stopped and are killed, and in no window do they
// together start more items than declared. The check uses the times that the processes recorded, not durations.

import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, inject, it } from 'vitest'
import { pause } from '../support/fixture.ts'
import { programPath } from '../support/programs.ts'
import { newSchemaName } from '../support/schema.ts'

const program = programPath('rate-worker')
/** More than will be started: the processes are ended once each was at work. */
const items = 2000
const max = 10
const perMs = 500

interface Start {
  readonly at: number
  readonly process: string
  readonly key: string
}

function startsIn(ledger: string): Start[] {
  try {
    const lines = readFileSync(ledger, 'utf8').split('\n').slice(0, -1)
    return lines
      .map((line) => {
        const [at, process, key] = line.split(' ') as [string, string, string]
        return { at: Number(at), process, key }
      })
      .sort((a, b) => a.at - b.at)
  } catch {
    return []
  }
}

async function comeAndGo(url: string, folder: string): Promise<{ starts: Start[]; errors: string }> {
  const ledger = join(folder, 'ledger.txt')
  const namespace = newSchemaName()
  let errors = ''
  const start = () => {
    const args = [program, url, namespace, items, 4, max, perMs, ledger].map(String)
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'ignore', 'pipe'] })
    child.stderr.on('data', (piece: Buffer) => {
      errors += piece
    })
    return child
  }
  const closed = (child: ChildProcess) =>
    child.exitCode !== null || child.signalCode !== null
      ? Promise.resolve()
      : new Promise<void>((resolve) => child.once('close', () => resolve()))
  const isAtWork = async (child: ChildProcess, count = 1) => {
    const own = String(child.pid)
    while (startsIn(ledger).filter((each) => each.process === own).length < count && errors === '') {
      await pause(20)
    }
  }
  const first = start()
  await isAtWork(first)
  const second = start()
  await isAtWork(second)
  first.kill('SIGKILL')
  const third = start()
  await isAtWork(third, 2 * max)
  for (const child of [second, third]) child.kill('SIGKILL')
  await Promise.all([first, second, third].map(closed))
  return { starts: startsIn(ledger), errors }
}

it.each(['sqlite', 'postgres'])('a rate limit holds over all processes on the job together (%s)', async (kind) => {
  const folder = mkdtempSync(join(tmpdir(), 'reprise-rate-'))
  try {
    const url = kind === 'sqlite' ? `sqlite:${join(folder, 'rate.db')}` : inject('postgresUrl')
    const { starts, errors } = await comeAndGo(url, folder)
    expect(errors).toBe('')
    expect(new Set(starts.map((start) => start.process)).size).toBe(3)
    const over = starts.slice(max).filter((start, i) => start.at - starts[i]!.at < perMs)
    expect(over).toEqual([])
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})
