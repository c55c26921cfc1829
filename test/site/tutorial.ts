// Follows the tutorial as its reader: writes the files that the page shows, runs its commands in a shell one after another, and
// kills the process whose number the screen shows.

import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

export interface Ran {
  readonly command: string
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

interface Running {
  readonly child: ChildProcess
  readonly seen: () => string
  readonly ended: Promise<Ran>
}

/** The blocks of a page, in order: files to save, and lines to type. */
export function stepsOf(text: string): { readonly file?: string; readonly text: string }[] {
  return [...text.matchAll(/^```(js|sh)\n([\s\S]*?)^```$/gm)].flatMap(([, language, body]) => {
    if (language === 'sh')
      return body!
        .trim()
        .split('\n')
        .map((line) => ({ text: line }))
    const [, file] = /^\/\/ (\S+)\n/.exec(body!)!
    return [{ file: file!, text: body! }]
  })
}

/**
 * Follows the steps in this folder. A command before `kill -9` keeps running until `isTimeToKill`. Commands that `isDone` accepts
 * are left out.
 */
export async function follow(
  page: string,
  home: string,
  isDone: (command: string) => boolean,
  isTimeToKill: () => Promise<boolean>,
): Promise<Ran[]> {
  const steps = stepsOf(page)
  const ran: Ran[] = []
  let running: Running | null = null
  for (const [i, step] of steps.entries()) {
    if (step.file) writeFileSync(join(home, step.file), step.text)
    else if (isDone(step.text)) continue
    else if (step.text.startsWith('kill -9 ')) {
      ran.push(await killed(running!, isTimeToKill))
      running = null
    } else {
      const started = start(step.text, home)
      if (steps[i + 1]?.text.startsWith('kill -9 ')) running = started
      else ran.push(await started.ended)
    }
  }
  return ran
}

function start(command: string, home: string): Running {
  const child = spawn(command, { cwd: home, shell: true, stdio: ['ignore', 'pipe', 'pipe'] })
  let stdout = ''
  let stderr = ''
  child.stdout.on('data', (chunk) => {
    stdout += chunk
  })
  child.stderr.on('data', (chunk) => {
    stderr += chunk
  })
  const ended = new Promise<Ran>((resolve) => {
    child.on('close', (code) => resolve({ command, code, stdout, stderr }))
  })
  return { child, seen: () => stdout + stderr, ended }
}

async function killed(running: Running, isTimeToKill: () => Promise<boolean>): Promise<Ran> {
  const hint = /To cause a crash: kill -9 (\d+)/
  while (!hint.test(running.seen()) || !(await isTimeToKill())) {
    if (running.child.exitCode !== null) throw new Error(`ended before it was killed: ${running.seen()}`)
    await sleep(20)
  }
  process.kill(Number(hint.exec(running.seen())![1]), 'SIGKILL')
  return await running.ended
}

/** The lines of a file, or none before it exists. */
export function linesOf(file: string): string[] {
  return existsSync(file) ? readFileSync(file, 'utf8').trim().split('\n') : []
}

/** Starts a Node program and kills it as soon as the condition holds; fails if it ends before. */
export async function killOnce(args: readonly string[], home: string, isTime: () => boolean): Promise<void> {
  const child = spawn(process.execPath, args, { cwd: home, stdio: 'ignore' })
  const closed = new Promise((resolve) => child.once('close', resolve))
  while (!isTime()) {
    if (child.exitCode !== null) throw new Error(`${args.join(' ')} ended before it was killed`)
    await sleep(10)
  }
  child.kill('SIGKILL')
  await closed
}
