// The programs of examples/any-program, interrupted in the middle by SIGTERM and by kill -9: their final result is the same as
// without interruption.

import { spawn, spawnSync } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { bin } from '../cli/support.ts'
import { temporaryFolder, until } from '../support/fixture.ts'

const examples = fileURLToPath(new URL('../../examples/any-program', import.meta.url))
const folder = temporaryFolder('exec-examples')

const hasPython = spawnSync('python3', ['--version']).status === 0
const hasNumpy = hasPython && spawnSync('python3', ['-c', 'import numpy']).status === 0
if (!hasPython) console.log('skipped: there is no python3')
else if (!hasNumpy) console.log('skipped: python3 has no numpy')

/** Runs it to its end, interrupted once after its first capture if a signal is given. Answers with its last line. */
async function runExample(
  name: string,
  command: readonly string[],
  when: string,
  signal?: NodeJS.Signals,
): Promise<string> {
  const cwd = join(folder, `${name}-${signal ?? 'whole'}`)
  mkdirSync(cwd)
  for (const isInterrupted of signal ? [true, false] : [false]) {
    const args = ['exec', '--id', name, '--state', 'ckpt', '--when', when, '--', ...command]
    const child = spawn(process.execPath, [bin, ...args], { cwd, stdio: ['ignore', 'pipe', 'pipe'] })
    let [said, noted] = ['', '']
    child.stdout.on('data', (piece) => {
      said += piece
    })
    child.stderr.on('data', (piece) => {
      noted += piece
    })
    const ended = new Promise<number | null>((resolve) => child.once('close', resolve))
    if (isInterrupted) {
      await until(() => /: [1-9]\d* files?, .*(?:rename|word)/.test(noted), ended)
      child.kill(signal)
    }
    const code = await ended
    if (!isInterrupted) {
      expect(code, noted).toBe(0)
      if (signal) expect(said).toContain('goes on after')
      return said.trim().split('\n').at(-1)!
    }
    expect(code).not.toBe(0)
  }
  return ''
}

it('C12: a shell loop that reports when its files are complete', async () => {
  const command = ['sh', join(examples, 'loop.sh'), '60']
  expect(await runExample('loop', command, 'word', 'SIGKILL')).toBe('the sum is 1830')
})

it.runIf(hasPython)('C12: a plain Python script', async () => {
  const command = ['python3', join(examples, 'pi.py'), 'ckpt', '480']
  const whole = await runExample('pi', command, 'rename')
  expect(whole).toMatch(/^pi is about 3\.14\d+$/)
  expect(await runExample('pi', command, 'rename', 'SIGTERM')).toBe(whole)
})

it.runIf(hasNumpy)('C12: a training loop with numpy', async () => {
  const command = ['python3', join(examples, 'train.py'), '300']
  const whole = await runExample('train', command, 'rename')
  expect(await runExample('train', command, 'rename', 'SIGTERM')).toBe(whole)
})
