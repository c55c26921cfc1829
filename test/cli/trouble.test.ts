// Invalid input of a new user: each answer has a code, names the mistake and the remedy, and ends with the documented exit
// code. A refused command changes nothing.

import { spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { binIn, workFolder } from './support.ts'
import { cli, json } from './warm.ts'

const folder = workFolder()
const at = { cwd: folder.path }

beforeAll(async () => {
  writeFileSync(
    join(folder.path, 'few.mjs'),
    `import { job } from 'reprise/job'
export const few = job('few', {
  source: ['a', 'b', 'c'],
  retry: { attempts: 1 },
  each: (item) => { if (item === 'c') throw new Error('no c') },
})
export const fewer = job('fewer', { source: ['a'], each: () => undefined })
`,
  )
  writeFileSync(join(folder.path, 'plain.mjs'), 'export const x = 1\n')
  writeFileSync(join(folder.path, 'broken.mjs'), 'export const x = \n')
  writeFileSync(join(folder.path, 'garbage.rp'), 'garbage')
  for (const name of ['few', 'fewer']) await cli(['run', 'few.mjs', name, '--report', 'none'], at)
})
afterAll(() => folder.remove())

describe('a wrong value of a flag', () => {
  it.each([
    [['serve', '--cache-unused', 'soon'], 'INVALID_ARGUMENT', '--cache-unused is not a duration'],
    [['run', 'few.mjs', 'few', '--away-for', 'never'], 'INVALID_ARGUMENT', '--away-for is not a duration'],
    [['serve', '--token-file', 'missing/folder/tokens.json'], 'USAGE', '--token-file: the folder of missing/folder'],
  ])('names the flag: %j', async (args, code, message) => {
    const ran = await json(args, at)
    expect(ran).toMatchObject({ code: 2, value: { error: { code, message: expect.stringContaining(message) } } })
  })
})

describe('a wrong command', () => {
  it.each([
    [['show'], 2, 'USAGE'],
    [['show', 'nope'], 4, 'NOT_FOUND'],
    [['show', 'job/f'], 2, 'INVALID_ARGUMENT'],
    [['at', 'few@9999'], 4, 'OUT_OF_RANGE'],
    [['diff', 'few@1'], 2, 'USAGE'],
    [['fork', 'few@9999', 'x'], 4, 'OUT_OF_RANGE'],
    [['fork', 'few', 'fewer'], 6, 'EXISTS'],
    [['rollback', 'few'], 2, 'USAGE'],
    [['log', 'few', '--limit', 'x'], 2, 'USAGE'],
    [['log', 'few', '--limit=-3'], 2, 'USAGE'],
    [['log', 'few', '--after', '9999'], 4, 'OUT_OF_RANGE'],
    [['tail', '--from', 'tomorrow', '--once'], 2, 'USAGE'],
    [['ls', '--limit', '0'], 2, 'USAGE'],
    [['ls', '--attribute', 'x'], 2, 'USAGE'],
    [['savepoint', 'few', '--release', 'zz'], 4, 'NOT_FOUND'],
    [['export', 'few', '-'], 2, 'USAGE'],
    [['export', 'few', 'x', '--progress', '--state-only'], 2, 'USAGE'],
    [['export', 'few', 'no/such/folder/x.rp'], 4, 'NOT_FOUND'],
    [['export', 'few', 'no/such/folder/x', '--progress'], 1, 'ENOENT'],
    [['import', 'nofile'], 4, 'NOT_FOUND'],
    [['import', 'garbage.rp'], 8, 'NOT_A_SAVEPOINT'],
    [['import', 'garbage.rp', '--progress', 'j', '--shards', 'x'], 2, 'USAGE'],
    [['dead', 'nope'], 4, 'NOT_FOUND'],
    [['dead', 'few', '--discard', 'zz'], 4, 'NOT_FOUND'],
    [['redrive', 'few'], 2, 'USAGE'],
    [['redrive', 'few', 'c', '--item', '{bad'], 2, 'USAGE'],
    [['signal', 'few', 'go'], 2, 'INVALID_ARGUMENT'],
    [['card', 'nope'], 4, 'NOT_FOUND'],
    [['check', 'plain.mjs'], 4, 'NOT_FOUND'],
    [['run', 'few.mjs'], 2, 'USAGE'],
    [['run', 'few.mjs', 'nope'], 4, 'NOT_FOUND'],
    [['run', 'few.mjs', 'few', '--input', '{bad'], 2, 'USAGE'],
    [['run', 'few.mjs', 'few', '--report', 'zz'], 2, 'USAGE'],
    [['run', 'few.mjs', 'few', '--dry-run'], 2, 'USAGE'],
    [['run', 'broken.mjs'], 1, 'ERROR'],
    [['resume', 'nope'], 4, 'NOT_FOUND'],
    [['advise', '--truth', 'zz'], 2, 'USAGE'],
    [['advise', '--budget', 'zz'], 2, 'INVALID_ARGUMENT'],
    [['init', '--template', 'zz', '--yes'], 2, 'USAGE'],
    [['init', '--name', '../x', '--yes'], 2, 'USAGE'],
    [['demo', '--items', '3'], 2, 'USAGE'],
    [['completion', 'tcsh'], 2, 'USAGE'],
    [['ls', '--url', 'sqlite:garbage.rp'], 8, 'STORE_DAMAGED'],
  ] as const)('%o ends with exit code %i and the code %s', async (args, code, name) => {
    const ran = await cli(args, at)
    const lines = ran.stderr.trimEnd().split('\n')
    expect([ran.code, lines[0]!.split(' ')[0], lines.at(-1)!.split(' ')[0]]).toEqual([code, name, expect.any(String)])
    expect(ran.stderr).toMatch(/^cure \S/m)
    expect(ran.stderr).not.toContain('    at ')
    expect(ran.stdout).toBe('')
  })

  it('prints the same in JSON: code, message, why, hint, remedy and data', async () => {
    for (const args of [['show'], ['show', 'nope'], ['export', 'few', 'no/such/folder/x.rp']]) {
      const { value } = await json<{ error: Record<string, unknown> }>(args, at)
      expect(Object.keys(value.error).sort()).toEqual(['code', 'data', 'hint', 'message', 'remedy', 'why'])
    }
  })

  it('speaks of commands and flags in its cures, not of functions', async () => {
    expect((await cli(['show', 'nope'], at)).stderr).toContain('reprise ls lists the timelines')
    expect((await cli(['ls', '--url', 'sqlite:none.db'], at)).stderr).toContain('cure Run something first')
  })

  it('leaves everything as it was', async () => {
    expect((await json<{ key: string }[]>(['dead', 'few'], at)).value.map((letter) => letter.key)).toEqual(['c'])
    const { value } = await json<{ timeline: string }[]>(['ls'], at)
    expect(value.map((head) => head.timeline)).toEqual(['job/few', 'job/fewer'])
  })
})

describe('partly valid input', () => {
  it('discards existing keys, names missing ones, and ends with exit code 3', async () => {
    const { code, value } = await json(['dead', 'few', '--discard', 'c', '--discard', 'zz'], at)
    expect([code, value]).toEqual([3, { discarded: ['c'], missing: ['zz'] }])
    expect((await json(['dead', 'few'], at)).value).toEqual([])
  })

  it('cancel of a finished job reports that', async () => {
    expect(await json(['cancel', 'few'], at)).toMatchObject({ code: 6, value: { error: { code: 'ENDED' } } })
    expect((await cli(['cancel', 'few'], at)).stderr).toContain('few had already ended: completed')
  })
})

describe('a dead database', () => {
  // It accepts the connection and never answers: the worst kind of dead server.
  let silent: Server
  let url = ''
  beforeAll(async () => {
    silent = createServer(() => undefined)
    await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve))
    url = `postgres://nobody@127.0.0.1:${(silent.address() as { port: number }).port}/none`
  })
  afterAll(() => void silent.close())

  it.each([['ls'], ['doctor'], ['run', 'few.mjs', 'few']])(
    'answers %s by itself, with exit code 7',
    async (...args) => {
      const ran = await cli([...args, '--url', url], at)
      expect(ran.code).toBe(7)
      expect(ran.stdout + ran.stderr).toContain('STORE_UNREACHABLE')
    },
  )

  it('never shows the password of a URL', async () => {
    const ran = await cli(['doctor', '--url', url.replace('nobody@', 'nobody:secret@')], at)
    expect(ran.stdout + ran.stderr).not.toContain('secret')
  })
})

describe('when its output is not read', () => {
  it.each([
    [['show', 'nope'], 4],
    [['show', 'few@', '--json'], 4],
    [['nonsense'], 2],
    [['ls'], 0],
    [['ls', '--url', 'postgres://127.0.0.1:1/x'], 7],
    [['tail', '--from', 'start'], 0],
    [['tail', '--from', 'start', '--json'], 0],
  ])('%o ends with its own code', async (args, code) => {
    const child = spawn(process.execPath, [binIn(folder.path), ...args], {
      cwd: folder.path,
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    // Long before its first output: as `| head -0` does.
    child.stdout.destroy()
    child.stderr.destroy()
    const ended = await new Promise((resolve) => child.once('exit', (...end) => resolve(end)))
    expect(ended).toEqual([code, null])
  })
})
