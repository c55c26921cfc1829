// G1, G2: killed at every boundary between system calls that change files. strace ends the process with SIGKILL when it enters
// its Nth call; N counts from 1 to beyond the last. After each kill the store must be whole, and a second process continues
// from there: half of the sweep kills in a new file, half in one with history, checkpoints and a log to recover.

import { spawn } from 'node:child_process'
import { cpSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { programPath } from '../support/programs.ts'
import { whyNoStrace } from './strace.ts'
import { type Acks, amount, checkAfterCrash, newFolder, noteAck, removeFolder, type Where } from './support.ts'

const ids = ['plain/a', 'ledger/b', 'shelf/c']
const writes = '?pwrite64,?pwritev,write,?writev'
const others = 'fsync,fdatasync,ftruncate,?unlink,?unlinkat,?rename,?renameat,?renameat2,?mkdirat,?mkdir'
const folder = newFolder()
afterAll(() => removeFolder(folder))

interface Life {
  readonly acks: Acks
  readonly wasKilled: boolean
}

/** One life of the writer; with `boundary` it is killed when it enters that call. */
function live(where: Where, boundary: { readonly calls: string; readonly number: number } | null): Promise<Life> {
  // A directory has something to show only once the state is too large for the manifest.
  const size = where.kind === 'sqlite' && where.chunks ? { ids: ['shelf/c'], count: 9 } : { ids, count: 5 }
  const options = { where, ...size, lanes: 1, every: 4, collect: 4, moveLog: 3, close: true }
  const command = [process.execPath, programPath('crash-writer'), JSON.stringify(options)]
  const inject = boundary ? [`-e`, `inject=${boundary.calls}:signal=KILL:when=${boundary.number}`] : []
  const words = ['-f', '-qq', '-o', '/dev/null', '-e', `trace=${boundary?.calls ?? 'none'}`, ...inject, ...command]
  const child = spawn('strace', words, {
    env: { ...process.env, UV_THREADPOOL_SIZE: '1' },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const acks: Acks = new Map()
  let text = ''
  let errors = ''
  child.stdout.on('data', (piece) => {
    text += String(piece)
  })
  child.stderr.on('data', (piece) => {
    errors += String(piece)
  })
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('close', (code, signal) => {
      const lines = text.split('\n')
      // The text after the last line break was not written completely.
      for (const line of lines.slice(0, -1)) noteAck(acks, line)
      const wasKilled = signal === 'SIGKILL' || code === 137
      if (!wasKilled && code !== 0) reject(new Error(`the writer failed with ${code}: ${errors}`))
      else resolve({ acks, wasKilled })
    })
  })
}

/** Kills at N = 1, 1 + step, … until the writer reaches its end. Returns the number of boundaries. */
async function sweep(
  name: string,
  calls: string,
  step: number,
  prepared: string | null,
  hasChunks: boolean,
): Promise<number> {
  let kills = 0
  for (let number = 1; ; number += step) {
    const place = join(folder, `${name}-${number}`)
    if (prepared) cpSync(prepared, place, { recursive: true })
    else mkdirSync(place)
    const where = whereIn(place, hasChunks)
    const { acks, wasKilled } = await live(where, { calls, number })
    const found = await checkAfterCrash(where, acks, ids)
    for (const [id, n] of acks)
      expect(found.get(id), `${name}: killed at ${number} of ${calls}`).toBeGreaterThanOrEqual(n)
    removeFolder(place)
    if (!wasKilled) return kills
    kills += 1
  }
}

function whereIn(place: string, hasChunks: boolean): Where {
  return { kind: 'sqlite', file: join(place, 'store.db'), ...(hasChunks && { chunks: join(place, 'chunks') }) }
}

const reason = whyNoStrace()
if (reason) console.log(`kills at every boundary: skipped, ${reason}`)
// REPRISE_BOUNDARY_STEP=1 visits every one; CI takes every 45th write and every 9th of the others.
const step = amount('REPRISE_BOUNDARY_STEP', 0)

describe.skipIf(reason)('SIGKILL at system call boundaries', () => {
  const minutes = 60 * 60_000

  it(
    'G1, G2: in a store that is being made',
    async () => {
      const [a, b] = await Promise.all([
        sweep('new-writes', writes, step || 45, null, false),
        sweep('new-others', others, step || 9, null, false),
      ])
      console.log(`new store: killed at ${a} writes and ${b} syncs, truncations and changes of names`)
      expect(Math.min(a, b)).toBeGreaterThan(3)
    },
    minutes,
  )

  it(
    'G1, G2: in a store with history, checkpoints and a log to recover',
    async () => {
      const prepared = join(folder, 'prepared')
      mkdirSync(prepared)
      const where = whereIn(prepared, false)
      await live(where, null)
      await live(where, { calls: 'fsync', number: 25 })
      const [a, b] = await Promise.all([
        sweep('old-writes', writes, step || 45, prepared, false),
        sweep('old-others', others, step || 9, prepared, false),
      ])
      console.log(`old store: killed at ${a} writes and ${b} syncs, truncations and changes of names`)
      expect(Math.min(a, b)).toBeGreaterThan(3)
    },
    minutes,
  )

  it(
    'G2: with chunks in a directory',
    async () => {
      const [a, b] = await Promise.all([
        sweep('chunk-writes', writes, step || 45, null, true),
        sweep('chunk-others', others, step || 9, null, true),
      ])
      console.log(`chunks in a directory: killed at ${a} writes and ${b} syncs, truncations and changes of names`)
      expect(Math.min(a, b)).toBeGreaterThan(3)
    },
    minutes,
  )
})
