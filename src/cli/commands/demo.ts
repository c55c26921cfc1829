// reprise demo: a job with real work is killed with SIGKILL at random moments and resumes each time. The work writes a file
// outside the store, so that repeated and lost items are counted independently of the engine.

import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Command, flag, text } from '../command.ts'
import { exit, UsageError } from '../exit.ts'
import { ms } from '../format.ts'
import type { Output } from '../output.ts'
import type { DemoReport } from './demo-child.ts'

const childPath = fileURLToPath(
  new URL(`./demo-child${import.meta.url.endsWith('.ts') ? '.ts' : '.js'}`, import.meta.url),
)

const demo: Command = async ({ options, output }) => {
  const items = Number(text(options, 'items') ?? 2000)
  const kills = Number(text(options, 'kills') ?? 3)
  if (!(items >= 10 && items <= 1_000_000) || !(kills >= 0 && kills <= 100)) {
    throw new UsageError('--items must be 10 to 1,000,000, --kills must be 0 to 100')
  }
  const folder = mkdtempSync(join(tmpdir(), 'reprise-demo-'))
  const { bold, dim, red, green } = output.errorColours
  output.note(bold(`A job of ${items} items, 8 at a time. It will be killed ${kills} times; no clean-up, no warning.`))
  output.note('')
  const startedAt = performance.now()
  const killedAt: number[] = []
  let report: DemoReport | null = null
  while (!report) {
    const before = traces(folder).length
    const left = kills - killedAt.length
    // At a random point in its share of the remaining items.
    const target = left > 0 ? before + Math.ceil(((items - before) / (left + 1)) * (0.4 + Math.random() * 0.9)) : null
    const { answer, wasKilled } = await runChild(folder, items, target)
    if (wasKilled) {
      killedAt.push(traces(folder).length)
      output.note(`${red('✗ SIGKILL')} after ${traces(folder).length} items. ${dim('Restarting it:')}`)
    } else if (answer) report = answer
    else throw new Error('the demo ended without a result')
  }
  const seconds = performance.now() - startedAt
  const result = summarize(traces(folder), items, killedAt.length, report, seconds)
  output.result(result, () => printSummary(result, output))
  if (flag(options, 'keep')) output.note(`inspect it: reprise ls --url sqlite:${join(folder, 'demo.db')}`)
  else rmSync(folder, { recursive: true, force: true })
  output.note(result.lost === 0 ? green('Nothing was lost.') : red('Something was lost: please report this.'))
  output.line()
  output.lines(
    `What to type next:\n  ${bold('reprise init')}      a first job of your own, ready to run\n  ${bold('reprise advise')}    which configuration suits your case, with code`,
  )
  return result.lost === 0 ? exit.ok : exit.failed
}

export default demo

function summarize(done: readonly string[], items: number, kills: number, report: DemoReport, elapsedMs: number) {
  const distinct = new Set(done)
  return {
    items,
    kills,
    done: distinct.size,
    repeated: done.length - distinct.size,
    repeatedAtMost: kills * 8,
    lost: items - distinct.size,
    replayedEntries: report.replayedEntries,
    recoverMs: report.recoverMs,
    elapsedMs,
  }
}

function printSummary(result: ReturnType<typeof summarize>, output: Output): void {
  output.line()
  output.facts([
    ['items', String(result.items)],
    ['killed', `${result.kills} times`],
    ['items repeated', `${result.repeated} (in flight when it was killed; at most ${result.repeatedAtMost})`],
    ['items lost', output.colours.bold(String(result.lost))],
    ['replayed entries', String(result.replayedEntries)],
    ['time to recover', ms(result.recoverMs)],
    ['in total', ms(result.elapsedMs)],
  ])
  output.line()
}

/** The lines that the work wrote outside the store. */
function traces(folder: string): string[] {
  try {
    return readFileSync(join(folder, 'outside.txt'), 'utf8').split('\n').filter(Boolean)
  } catch {
    return []
  }
}

async function runChild(
  folder: string,
  items: number,
  killAfter: number | null,
): Promise<{ answer: DemoReport | null; wasKilled: boolean }> {
  const child: ChildProcess = spawn(process.execPath, [childPath, folder, String(items)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let text = ''
  child.stdout!.on('data', (piece: Buffer) => {
    text += piece.toString()
  })
  const watch = setInterval(() => {
    if (killAfter !== null && traces(folder).length >= killAfter) child.kill('SIGKILL')
  }, 10)
  const signal = await new Promise<string | null>((resolve) => child.once('close', (_, by) => resolve(by)))
  clearInterval(watch)
  if (signal === 'SIGKILL' && process.stderr.isTTY) process.stderr.write('\n')
  return { answer: text ? (JSON.parse(text) as DemoReport) : null, wasKilled: signal === 'SIGKILL' }
}
