// reprise cache in a script: output and exit code are those of the command, our own messages go to stderr.

import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { cli, workFolder } from './support.ts'

const folder = workFolder()
afterAll(() => folder.remove())
const at = { cwd: folder.path }
mkdirSync(join(folder.path, 'src'))
writeFileSync(join(folder.path, 'src/a.txt'), 'a\n')
writeFileSync(join(folder.path, 'aside.txt'), 'b\n')

const line = 'mkdir -p dist && cat src/a.txt aside.txt > dist/all && echo "$REPRISE_TEST_WHO" >> dist/all && echo said'
const declared = ['--name', 'build', '--input', 'src/**', '--output', 'dist/**']

it('runs once, puts outputs in place afterwards, explains, checks, lists and forgets', async () => {
  const run = () => cli(['cache', 'run', ...declared, '--', line], at)
  expect(await run()).toMatchObject({ code: 0, stdout: 'said\n', stderr: expect.stringContaining('kept 1 file') })
  rmSync(join(folder.path, 'dist'), { recursive: true })
  expect(await run()).toMatchObject({
    code: 0,
    stdout: 'said\n',
    stderr: expect.stringContaining('put 1 file in place'),
  })
  writeFileSync(join(folder.path, 'src/a.txt'), 'c\n')
  const explained = await cli(['cache', 'explain', ...declared, '--', line], at)
  expect(explained.stdout).toContain('miss: file src/a.txt changed')
  const checked = await cli(['cache', 'check', '--json', ...declared, '--', line], {
    ...at,
    env: { REPRISE_TEST_WHO: 'me' },
  })
  expect(JSON.parse(checked.stdout)).toMatchObject({
    isHermetic: false,
    undeclaredInputs: ['aside.txt'],
    undeclaredEnv: ['REPRISE_TEST_WHO'],
    unstableOutputs: [],
  })
  expect(checked.code).toBe(3)
  const [entry] = JSON.parse((await cli(['cache', 'ls', '--json'], at)).stdout) as { timeline: string }[]
  expect(entry).toMatchObject({ name: 'build', scope: 'main', isEmpty: false })
  expect(await cli(['cache', 'pin', entry!.timeline], at)).toMatchObject({ code: 0 })
  const pruned = await cli(['cache', 'prune', '--bytes', '0', '--yes', '--json'], at)
  expect(JSON.parse(pruned.stdout)).toMatchObject({ entries: 0, kept: 1 })
  expect(await cli(['cache', 'forget', entry!.timeline], at)).toMatchObject({ code: 2 })
  expect(await cli(['cache', 'forget', '--yes', entry!.timeline], at)).toMatchObject({ code: 0 })
})

it('exits as the command does, and refuses undeclared options', async () => {
  expect(await cli(['cache', 'run', '--no-inputs', '--', 'sh', '-c', 'echo --json; exit 7'], at)).toMatchObject({
    code: 7,
    stdout: '--json\n',
  })
  expect(await cli(['cache', 'run', '--', 'ls'], at)).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('name the files that it reads'),
  })
  expect(await cli(['cache', 'run', '--input', 'a/../../x', '--', 'ls'], at)).toMatchObject({ code: 2 })
  expect(await cli(['cache', 'run', '--no-inputs', '--output', '../x', '--', 'ls'], at)).toMatchObject({ code: 2 })
  expect(await cli(['cache', 'forget', 'job/x'], at)).toMatchObject({ code: 2 })
})
