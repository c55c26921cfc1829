// The scripts and manifests of examples/recipes, as far as this machine has what they need: a notice of a spot machine and
// the end of a SLURM job's time are sent here, and CRIU refuses where the kernel forbids it.

import { spawn, spawnSync } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { delimiter, join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { bin, root } from '../cli/support.ts'
import { temporaryFolder, until } from '../support/fixture.ts'

const recipes = join(root, 'examples/recipes')
/** Counts to a number, slowly enough that its file is quiet in between. */
const counting = `cd "$REPRISE_EXEC_STATE"; n=0
if [ -s state ]; then read -r n <state; echo "continues after $n"; fi
while [ "$n" -lt "$0" ]; do n=$((n + 1)); echo "$n" >state.tmp; mv state.tmp state; sleep 2; done`
const countTo = (n: number) => ['sh', '-c', counting, String(n)]
const reprise = `${process.execPath} ${bin}`

function start(script: string, args: readonly string[], cwd: string, env: Record<string, string>) {
  const child = spawn('bash', [join(recipes, script), ...args], {
    cwd,
    env: { ...process.env, REPRISE: reprise, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let said = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (piece) => {
      said += piece
    })
  }
  const ended = new Promise<number | null>((resolve) => child.once('close', resolve))
  return { child, ended, said: () => said }
}

it('C12: a program on a spot machine is captured at the notice, and resumes on the next machine', async () => {
  const cwd = temporaryFolder('spot')
  let isTaken = false
  const server = createServer((_request, response) => {
    response.writeHead(isTaken ? 200 : 404).end(isTaken ? '{"action":"terminate"}' : '')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  const env = { NOTICE: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`, NOTICE_EVERY: '0.2', ID: 'sum' }
  const first = start('spot.sh', countTo(1_000_000), cwd, env)
  await until(() => /: captured \d+: 1 file/.test(first.said()))
  isTaken = true
  expect(await first.ended).not.toBe(0)
  expect(first.said()).toContain('the machine will be taken away')
  isTaken = false
  const done = Number(readFileSync(join(cwd, 'state/state'), 'utf8'))
  const second = start('spot.sh', countTo(done + 1), cwd, env)
  expect(await second.ended, second.said()).toBe(0)
  expect(second.said()).toMatch(/continues after \d+/)
})

it('C12: a SLURM job whose time is over is captured, and queued again under its number', async () => {
  const cwd = temporaryFolder('slurm')
  const path = join(cwd, 'bin')
  mkdirSync(path)
  // Stands for the cluster: SLURM itself is not on this machine.
  writeFileSync(join(path, 'scontrol'), `#!/bin/sh\necho "$@" > ${join(cwd, 'asked')}\n`)
  chmodSync(join(path, 'scontrol'), 0o755)
  const env = {
    PATH: `${path}${delimiter}${process.env.PATH}`,
    ...{ REPRISE_URL: `sqlite:${join(cwd, 'store.db')}`, SLURM_JOB_ID: '7', SLURM_JOB_NAME: 'sum' },
    STATE: join(cwd, 'state'),
  }
  const first = start('slurm.sh', countTo(1_000_000), cwd, env)
  await until(() => /: captured \d+: 1 file/.test(first.said()))
  first.child.kill('SIGTERM')
  expect(await first.ended, first.said()).toBe(0)
  expect(readFileSync(join(cwd, 'asked'), 'utf8')).toBe('requeue 7\n')
  const done = Number(readFileSync(join(cwd, 'state/state'), 'utf8'))
  const second = start('slurm.sh', countTo(done + 1), cwd, env)
  expect(await second.ended, second.said()).toBe(0)
  expect(second.said()).toMatch(/continues after \d+/)
})

it('C12: without CRIU, or where the kernel forbids it, nothing is started and the reason is named', async () => {
  const cwd = temporaryFolder('criu')
  if (spawnSync('criu', ['check']).status === 0)
    return console.warn('this machine allows CRIU: the refusal is not tested')
  const started = join(cwd, 'started')
  const run = start('criu.sh', ['touch', started], cwd, { REPRISE_EXEC_STATE: cwd })
  expect(await run.ended).toBe(78)
  expect(run.said()).toMatch(/criu is not installed|forbid it/)
  expect(run.said()).toContain('nothing was started')
  expect(existsSync(started)).toBe(false)
  const without = start('criu.sh', ['true'], cwd, { REPRISE_EXEC_STATE: '' })
  expect(await without.ended).not.toBe(0)
  expect(without.said()).toContain('run it under reprise exec')
})

it('C12: the units are ones that systemd reads, and the manifests name commands and options that exist', () => {
  if (spawnSync('systemd-analyze', ['--version']).status === 0) {
    const units = ['service', 'timer'].map((kind) => join(recipes, `reprise-nightly.${kind}`))
    const { stderr } = spawnSync('systemd-analyze', ['verify', ...units], { encoding: 'utf8' })
    const ours = stderr
      .split('\n')
      .filter((line) => line.includes('reprise-nightly') && !/not executable|npx/.test(line))
    expect(ours).toEqual([])
  }
  const manifest = readFileSync(join(recipes, 'kubernetes.yaml'), 'utf8')
  const commands = [...manifest.matchAll(/command: \[npx, reprise, (.*)\]/g)].map(([, words]) => words!.split(', '))
  expect(commands.map(([name]) => name)).toEqual(['exec', 'run'])
  for (const [name, ...words] of commands) {
    const { stdout } = spawnSync(process.execPath, [bin, 'help', name!], { encoding: 'utf8' })
    for (const option of words.filter((word) => word.startsWith('--'))) expect(stdout).toContain(option)
  }
})

it('C12: the PyTorch program is valid, and runs where PyTorch is installed', async () => {
  const program = join(recipes, 'train_torch.py')
  if (spawnSync('python3', ['--version']).status !== 0) return console.warn('there is no python3')
  const check = `import ast, sys; ast.parse(open(sys.argv[1]).read())`
  expect(spawnSync('python3', ['-c', check, program]).status).toBe(0)
  if (spawnSync('python3', ['-c', 'import torch']).status !== 0) return console.warn('PyTorch is not installed')
  const cwd = temporaryFolder('torch')
  const args = [bin, 'exec', '--id', 'torch', '--state', 'ckpt', '--when', 'rename', '--', 'python3', program, '200']
  expect(spawnSync(process.execPath, args, { cwd }).status).toBe(0)
})
