// Every command on a store full of escape sequences: names of workers, attributes, labels, statuses, errors, messages and
// data that would clear the screen, set the title, turn text around or forge a line. Nothing of it reaches the terminal
// as it is, in a pipe, on a terminal or as JSON.

import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { commands } from '../../src/cli/commands.ts'
import { runCli } from '../../src/cli/main.ts'
import type { Terminal } from '../../src/cli/output.ts'
import { open, timeline } from '../../src/index.ts'
import { job } from '../../src/layers/job/index.ts'
import { save } from '../../src/layers/save/index.ts'
import { workflow } from '../../src/layers/workflow/index.ts'
import { hostOf } from '../support/host.ts'
import { workFolder } from './support.ts'

/** C0, C1, CSI, OSC 0 and 8, DEL, marks of direction, a forged line, a carriage return. */
const evil =
  '\x1b[2J\x1b[31mred\x1b]0;title\x07\x1b]8;;http://x\x1b\\link\x9b1m\x85\x7f\u202eturned\u2066\u200b\rback\nFORGED line\x00\tend'
/** For what may not hold controls: ids and names that layers check. */
const turned = 'a\u202eb\u2066c'
/** All but the newline that ends a line. */
const raw = /(?!\n)[\p{Cc}\u200b\u202a-\u202e\u2066-\u2069]/u
const colour = new RegExp(`${String.fromCharCode(27)}\\[(?:1|2|22|31|32|33|36|39)m`, 'g')

const folder = workFolder()
const url = `sqlite:${join(folder.path, 'store.db')}`
const at = (name: string) => join(folder.path, name)

beforeAll(async () => {
  const rp = await open(url, { worker: evil.replaceAll('\0', '') })
  const notes = timeline('notes', {
    initial: () => ({ texts: [] as string[] }),
    apply: (state, { text }: { type: string; text: string }) => ({ texts: [...state.texts, text] }),
  })
  const a = await rp.open(notes, 'a')
  for (let i = 0; i < 3; i++) await a.append({ type: 'noted', text: `${evil}${i}` })
  await a.checkpoint()
  await rp.savepoint(a.coordinate, { label: evil.replaceAll('\0', '') })
  await a.append({ type: 'more', text: evil })
  await rp.send('notes/a', evil.replaceAll('\0', ''), { evil }, { key: evil.replaceAll('\0', '') })
  await a.close()
  const raw = await hostOf(rp).openTimeline('notes/a' as never, notes.fold)
  const text = evil.replaceAll('\0', '')
  await raw.write([], { attributes: { [text]: text, name: text }, status: text, queue: text, wakeup: 1 })
  await raw.close()
  const failing = job('failing', {
    source: [{ id: `key${evil}` }],
    key: (item: { id: string }) => item.id,
    retry: { attempts: 1 },
    each: () => {
      throw new Error(evil)
    },
  })
  await (await rp.run(failing)).result().catch(() => undefined)
  const broken = workflow('broken', async (ctx) => {
    await ctx.step(`s${turned}`, async () => evil)
    throw new Error(evil)
  })
  await (await rp.run(broken, { id: turned })).result().catch(() => undefined)
  const kept = await rp.open(save<{ evil: string }>('kept', { keep: 2 }))
  await kept.put({ evil }, { label: text })
  await rp.close()
})
afterAll(() => folder.remove())

/** The arguments for each command; a new command must be added here. */
const words: Readonly<Record<string, readonly (readonly string[])[]>> = {
  ls: [[], [turned], ['--status', evil]],
  show: [['notes/a'], ['job/failing'], [`workflow/broken/${turned}`], [evil]],
  log: [['notes/a'], ['notes/a', '--full'], ['job/failing'], [`workflow/broken/${turned}`], [evil]],
  tail: [['--no-follow'], [evil, '--no-follow']],
  changes: [[], [evil]],
  checkpoints: [['notes/a'], ['save/kept'], [evil]],
  at: [['notes/a'], ['notes/a@2'], [evil]],
  diff: [['notes/a@1', 'notes/a@3']],
  fork: [
    ['notes/a@2', 'notes/fork'],
    ['notes/a@2', evil],
  ],
  savepoint: [['notes/a', '--label', evil]],
  'give-up': [
    [evil, '--by', evil, '--reason', evil],
    ['notes/a', '--by', evil, '--reason', evil, '--yes'],
  ],
  export: [
    ['notes/a', at('a.reprise')],
    ['job/failing', '-', '--progress'],
    ['notes/a', at(evil.replaceAll('\0', ''))],
  ],
  import: [[at('a.reprise'), '--as', 'notes/again'], [evil]],
  verify: [[], [evil]],
  drill: [[], ['notes/a']],
  rollback: [['notes/fork@1', '--yes'], [evil]],
  prune: [[]],
  tiers: [[]],
  ship: [
    [at('shipped'), '--once'],
    [at(evil.replaceAll('\0', '')), '--once'],
  ],
  dead: [[], ['failing'], ['failing', '--full'], [evil]],
  redrive: [['failing', evil]],
  workers: [[]],
  shards: [[], ['add', evil]],
  queues: [[]],
  signal: [[`workflow/broken/${turned}`, evil, '1']],
  stop: [[`workflow/broken/${turned}`]],
  cancel: [[`workflow/broken/${turned}`]],
  terminate: [[`workflow/broken/${turned}`]],
  retry: [[`workflow/broken/${turned}`]],
  rerun: [[`workflow/broken/${turned}`, evil, '--yes']],
  settle: [[`workflow/broken/${turned}`, evil, 'done']],
  decide: [['notes/a', 'approve']],
  mark: [
    ['notes/a', evil, evil],
    ['notes/a', evil],
  ],
  group: [[evil], ['show', evil]],
  card: [['notes/a'], ['job/failing'], [`workflow/broken/${turned}`]],
  doctor: [[]],
  incarnate: [[]],
  query: [[`workflow/broken/${turned}`, evil]],
  update: [[evil, 'name']],
  effects: [[`workflow/broken/${turned}`], ['notes/a']],
  consumers: [[]],
  saves: [[], ['kept'], [evil]],
  schedules: [[]],
  move: [['notes/a', at('moved.reprise'), '--dry-run']],
  backup: [[at('all.backup')]],
  restore: [[evil]],
  delete: [['notes/again', '--dry-run'], [evil]],
  erase: [['notes/again'], [evil], [evil, '--yes']],
  keys: [[], [evil]],
  rekey: [[], [evil]],
  run: [[evil]],
  link: [['http://127.0.0.1:1', '--token', 'x'.repeat(40)], [evil]],
  serve: [
    ['--port', evil],
    ['--host', evil],
  ],
  dev: [[evil]],
  cache: [['ls'], ['forget', evil], [evil]],
  exec: [
    ['--resume', evil],
    ['--say', evil],
    ['--state', at('ckpt'), '--when', evil, '--', evil],
  ],
  upload: [
    [evil, evil],
    [at('fresh'), evil],
  ],
  download: [[evil, evil]],
  mcp: [['--url', `sqlite:${evil}`]],
  state: [['get', evil, evil, evil]],
  resource: [['ls'], ['ls', evil], ['get', evil, evil], ['apply', 'sites', evil], [evil]],
  config: [['ls'], ['get', evil], ['apply', 'routes', evil], [evil]],
  work: [[evil]],
  resume: [[evil]],
  lint: [[evil]],
  check: [[evil]],
  rebuild: [[evil]],
  explain: [['FENCED'], [evil]],
  completion: [['bash'], [evil]],
  init: [[at('fresh'), '--template', evil]],
  advise: [['--truth', evil]],
  /** Its own job, in its own folder. */
  demo: [],
}

async function run(argv: readonly string[], isTTY: boolean): Promise<{ stdout: string; stderr: string }> {
  const said = { stdout: '', stderr: '' }
  const to = (name: 'stdout' | 'stderr') => ({
    isTTY,
    columns: 100,
    write: (text: string) => {
      said[name] += text
    },
  })
  const terminal: Terminal = { stdout: to('stdout'), stderr: to('stderr'), env: { TERM: 'xterm' } }
  const written = process.stdout.write
  process.stdout.write = ((text: string) => terminal.stdout.write(text)) as typeof written
  try {
    await runCli(argv, terminal)
  } finally {
    process.stdout.write = written
  }
  return said
}

describe('a store full of escape sequences', () => {
  it('has every command tried on it', () => {
    expect(Object.keys(words).sort()).toEqual(commands.map(({ name }) => name).sort())
  })

  it.each(Object.keys(words))(
    'reprise %s prints none of them',
    async (name) => {
      const spec = commands.find((each) => each.name === name)!
      for (const given of words[name]!) {
        const argv = [name, ...given, ...(spec.store === 'none' ? [] : ['--url', url])]
        for (const isTTY of [true, false]) {
          const { stdout, stderr } = await run(argv, isTTY)
          const text = (stdout + stderr).replace(isTTY ? colour : /$^/, '')
          expect(raw.exec(text)?.[0], JSON.stringify(text.slice(0, 2000))).toBeUndefined()
          expect(text.split('\n').filter((line) => line.startsWith('FORGED'))).toEqual([])
        }
        const { stdout, stderr } = await run([...argv, '--json'], false)
        expect(raw.exec(stdout + stderr)?.[0]).toBeUndefined()
        if (stdout !== '') for (const line of stdout.trim().split('\n')) JSON.parse(line)
      }
    },
    60_000,
  )
})
