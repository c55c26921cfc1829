// An item that kills its process (out of memory, a crash in native code): it must not keep the job from ever finishing.

import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { open } from '../../src/index.ts'
import { readLetters } from '../../src/layers/job/index.ts'
import { programPath } from '../support/programs.ts'

const program = programPath('job-worker')

it('an item that kills the process again and again becomes a dead letter, and the others are done (B1, a poison item)', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'reprise-poison-'))
  const url = `sqlite:${join(folder, 'poison.db')}`
  const ledger = join(folder, 'ledger.txt')
  try {
    let crashes = 0
    for (;;) {
      const child = spawn(process.execPath, [program, url, 'default', 'poisoned', '300', '1', '4', ledger, 'item-150'])
      let errors = ''
      child.stderr.on('data', (piece: Buffer) => {
        errors += piece
      })
      const [code, signal] = await new Promise<unknown[]>((resolve) => child.once('close', (...end) => resolve(end)))
      if (signal === null) {
        expect(code, errors).toBe(0)
        break
      }
      crashes += 1
      expect(crashes).toBeLessThan(10)
    }
    // One crash finds out that there is something, three more that it is this item.
    expect(crashes).toBe(4)
    const engine = await open(url)
    const letters = await readLetters(engine, 'job/poisoned')
    expect(letters.map((letter) => [letter.key, letter.hasItem])).toEqual([['item-150', true]])
    expect(letters[0]!.error.message).toContain('died 3 times')
    await engine.close()
    expect(new Set(readFileSync(ledger, 'utf8').trim().split('\n')).size).toBe(300)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})
