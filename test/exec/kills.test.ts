// A program under `reprise exec` is killed, its supervisor is killed, both are, and it gets SIGTERM, repeatedly: the next start
// finds whole files, never older than the last reported capture. More rounds, of every way to write, on every store:
// REPRISE_EXEC_ROUNDS=20.

import { type ChildProcess, spawn } from 'node:child_process'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, describe, expect, it } from 'vitest'
import { open } from '../../src/index.ts'
import { bin } from '../cli/support.ts'
import { temporaryFolder, until } from '../support/fixture.ts'
import { seeded } from '../support/seeded.ts'
import { storeUrls } from '../support/store-urls.ts'

const writer = fileURLToPath(new URL('../programs/exec-writer.mjs', import.meta.url))
const rounds = Number(process.env.REPRISE_EXEC_ROUNDS ?? 0)
const seed = Number(process.env.REPRISE_SEED ?? 1)
const folder = temporaryFolder('exec-kills')
const children: ChildProcess[] = []
afterAll(() => {
  for (const child of children) child.kill('SIGKILL')
})

const kinds = ['program', 'supervisor', 'both', 'term'] as const
const rules: Readonly<Record<string, readonly string[]>> = {
  rename: ['--when', 'rename'],
  place: ['--quiet', '120ms'],
  marker: ['--marker', 'DONE'],
  word: ['--when', 'word'],
}

interface Started {
  readonly restored: number | null
  readonly step: number
  readonly lastCaptured: number | null
  readonly captured: readonly number[]
}

/** One start: it is killed once it has captured something, at a moment left to chance. */
async function startAndKill(
  url: string,
  how: string,
  kind: (typeof kinds)[number],
  chance: () => number,
): Promise<Started> {
  const state = join(folder, `${new URL(url).protocol.slice(0, -1)}-${how}-${Math.floor(chance() * 2)}`)
  const args = ['exec', '--id', how, '--state', state, '--url', url, '--keep', '4', '--grace', '5s', '--wait', '60s']
  const child = spawn(process.execPath, [bin, ...args, ...rules[how]!, '--', process.execPath, writer, how], {
    cwd: folder,
  })
  children.push(child)
  let said = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (piece) => {
      said += piece
    })
  }
  const ended = new Promise<number | null>((resolve) => child.once('close', resolve))
  const captured = () =>
    [...said.matchAll(/captured (\d+)(?: \(.*\))?: .* (?:rename|quiet|marker|word|end),/g)].map(([, seq]) =>
      Number(seq),
    )
  await until(
    () => captured().length >= 1 && /^at \d+/m.test(said),
    ended.then((code) => {
      throw new Error(`it ended with ${code} before: ${said}`)
    }),
  )
  await new Promise((resolve) => setTimeout(resolve, chance() * 300))
  const pid = Number(/process (\d+)$/m.exec(said)?.[1])
  if (kind === 'program' || kind === 'both') process.kill(-pid, 'SIGKILL')
  if (kind === 'supervisor' || kind === 'both') child.kill('SIGKILL')
  if (kind === 'term') child.kill('SIGTERM')
  await ended
  await until(() => !isAlive(pid))
  return {
    restored: Number(/restored capture (\d+)/.exec(said)?.[1] ?? 0) || null,
    step: Number(/^at (\d+)/m.exec(said)![1]),
    captured: captured(),
    lastCaptured: captured().at(-1)!,
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

describe.each(Object.keys(storeUrls))('C12: kill -9 and SIGTERM at random (%s)', (store) => {
  const hows = rounds > 0 ? Object.keys(rules) : store === 'sqlite' ? ['place', 'word'] : ['rename']
  it.each(hows)(
    'a program that writes by %s never finds damaged files, nor older ones than were said',
    async (how) => {
      const chance = seeded(seed * 1000 + how.length)
      const { url, remove } = storeUrls[store]!()
      try {
        let before: Started | null = null
        for (let round = 0; round < Math.max(2, rounds); round++) {
          const kind = kinds[Math.floor(chance() * kinds.length)]!
          const started: Started = await startAndKill(url, how, rounds > 0 || round > 0 ? kind : 'both', chance)
          if (before) {
            expect(started.restored).toBeGreaterThanOrEqual(before.lastCaptured!)
            expect(started.step).toBeGreaterThan(before.step)
          }
          before = started
        }
        const rp = await open(url, { housekeeping: false })
        try {
          expect((await rp.verify()).ok).toBe(true)
          expect((await rp.checkpoints(`exec/${how}`)).length).toBeGreaterThan(1)
        } finally {
          await rp.close()
        }
      } finally {
        await remove()
      }
    },
    240_000 + rounds * 60_000,
  )
})
