// G1, power loss: a reported export or backup is complete afterwards, under its name. One run is recorded system call by system
// call; every point after the report is cut off, and unsynced writes are lost or kept at random.

import { mkdirSync, mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { randomFrom } from '../programs/crash-model.mjs'
import { programPath } from '../support/programs.ts'
import { type Fate, stateAfter } from './power-loss.ts'
import { type Operation, record, whyNoStrace } from './strace.ts'
import { removeFolder } from './support.ts'

const reason = whyNoStrace()
if (reason) console.log(`copies after a power loss: skipped, ${reason}`)

describe.skipIf(reason !== null)('power loss after a copy was reported', () => {
  let folder: string
  let operations: readonly Operation[]
  // Not while tests are listed: that is done also where they are skipped.
  beforeAll(() => {
    const root = mkdtempSync(join(tmpdir(), 'reprise-copied-'))
    folder = join(root, 'copies')
    mkdirSync(folder)
    const where = { kind: 'sqlite', file: join(root, 'store.db') }
    operations = record(root, [[process.execPath, programPath('crash-copier'), JSON.stringify({ where, folder })]])
    removeFolder(root)
  })

  /** The points at which it is not there as it was written. */
  function lostAt(name: string, calls: readonly Operation[]): string[] {
    const path = join(folder, name)
    const random = randomFrom(1)
    const written = stateAfter(calls, calls.length, 'all kept', random).get(path)!
    const reported = calls.findIndex((each) => each.kind === 'said' && each.line.startsWith(`ACK ${name}`))
    expect(reported).toBeGreaterThan(0)
    const lost: string[] = []
    for (let count = reported + 1; count <= calls.length; count++) {
      for (const fate of ['all lost', 'drawn', 'drawn'] satisfies Fate[]) {
        const found = stateAfter(calls, count, fate, random).get(path)
        if (!found || Buffer.compare(found, written) !== 0) lost.push(`${count}: ${fate}`)
      }
    }
    return lost
  }

  it.each(['one.rp', 'all.rpb'])('%s is there, whole', (name) => {
    expect(lostAt(name, operations)).toEqual([])
  })

  it.each(['one.rp', 'all.rpb'])('rings: %s is lost where its folder is not synced', (name) => {
    const unsynced = operations.filter((each) => !(each.kind === 'sync' && each.path === folder))
    expect(lostAt(name, unsynced).length).toBeGreaterThan(0)
  })
})
