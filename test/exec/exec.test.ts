// Programs under reprise/exec: captures, restores, signals, failures and second owners.

import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { readManifest } from '../../src/engine/history/recover.ts'
import { hostOf } from '../../src/engine/host/host.ts'
import { stateIo } from '../../src/engine/snapshot/kernel-io.ts'
import { liveChunks } from '../../src/engine/snapshot/restore.ts'
import { open, type Reprise } from '../../src/index.ts'
import { type ExecEvent, type ExecOptions, exec } from '../../src/layers/exec/index.ts'
import { temporaryFolder, until } from '../support/fixture.ts'

const folder = temporaryFolder('exec')
const opened: Reprise[] = []
let number = 0
let state = ''
let rp: Reprise
beforeEach(async () => {
  number += 1
  state = join(folder, `state-${number}`)
  rp = await another()
})
afterEach(async () => {
  for (const each of opened.splice(0)) await each.close()
})

async function another(): Promise<Reprise> {
  const engine = await open(`sqlite:${join(folder, `${number}.db`)}`, { housekeeping: false })
  opened.push(engine)
  return engine
}

/** A shell program that runs in its state folder. */
function shell(script: string, more: Partial<ExecOptions> = {}) {
  const command = ['sh', '-c', `cd "$REPRISE_EXEC_STATE"; ${script}`]
  return exec('p', {
    command,
    state,
    when: 'rename',
    grace: '10s',
    ...more,
    retry: { attempts: 1, backoff: '1ms', ...more.retry },
  })
}

async function run(script: string, more: Partial<ExecOptions> = {}, how: { replace?: boolean } = {}) {
  const events: ExecEvent[] = []
  const onEvent = (event: ExecEvent) => void events.push(event)
  const running = await rp.run(shell(script, more), { onEvent, ...how })
  return { ...(await running.result()), events }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return !readFileSync(`/proc/${pid}/stat`, 'utf8').includes(') Z ')
  } catch {
    return false
  }
}

it('C12: the exit code is the program’s, and the program learns what was restored', async () => {
  const first = await run('echo "[$REPRISE_EXEC_RESTORED] $REPRISE_EXEC_RUN" > said; exit 7')
  expect([first.exitCode, first.status, readFileSync(join(state, 'said'), 'utf8')]).toEqual([7, 'failed', '[] 1\n'])
  const second = await run('echo "[$REPRISE_EXEC_RESTORED] $REPRISE_EXEC_RUN" > new.tmp; mv new.tmp said')
  expect([second.exitCode, second.status]).toEqual([0, 'completed'])
  expect(readFileSync(join(state, 'said'), 'utf8')).toBe(`[${second.restored!.seq}] 2\n`)
  expect((await run('kill -9 $$')).exitCode).toBe(137)
  await expect(rp.run(exec('q', { command: ['/no/such/program'], state })).result()).rejects.toMatchObject({
    code: 'INVALID_ARGUMENT',
  })
})

it('C12: another machine gets contents, modes, times and links, and nothing that was not captured', async () => {
  await run(
    'mkdir -p deep; echo one > deep/a.tmp; chmod 750 deep/a.tmp; touch -t 200109090146.40 deep/a.tmp; mv deep/a.tmp deep/a; ln -s deep/a link; : > empty; echo no > x.tmp',
  )
  const { mtimeMs } = statSync(join(state, 'deep/a'))
  const elsewhere = join(folder, `elsewhere-${number}`)
  mkdirSync(elsewhere)
  writeFileSync(join(elsewhere, 'foreign'), 'x')
  symlinkSync('/etc', join(elsewhere, 'deep'))
  // Foreign files are deleted only on request.
  await expect(run('true', { state: elsewhere })).rejects.toMatchObject({ code: 'CONFLICT' })
  expect(readFileSync(join(elsewhere, 'foreign'), 'utf8')).toBe('x')
  const { restored } = await run('true', { state: elsewhere }, { replace: true })
  expect(restored).toMatchObject({ removed: 2 })
  expect(readFileSync(join(elsewhere, 'deep/a'), 'utf8')).toBe('one\n')
  const { mode, mtimeMs: restoredMs } = statSync(join(elsewhere, 'deep/a'))
  expect([mode & 0o777, restoredMs]).toEqual([0o750, mtimeMs])
  expect(readlinkSync(join(elsewhere, 'link'))).toBe('deep/a')
  expect(statSync(join(elsewhere, 'empty')).size).toBe(0)
  expect([existsSync(join(elsewhere, 'foreign')), existsSync(join(elsewhere, 'x.tmp'))]).toEqual([false, false])
})

it('C12: files that were finished and could not be captured are captured by the next start, or set aside', async () => {
  const blobs = join(folder, `blobs-${number}`)
  const away = `${blobs}.away`
  await rp.close()
  opened.length = 0
  rp = await open(`sqlite:${join(folder, `${number}.db`)}`, { housekeeping: false, blobs })
  opened.push(rp)
  const write = (text: string) => `{ head -c 300000 /dev/urandom; echo ${text}; } > a.tmp; mv a.tmp a`
  const isSaid = ({ events }: { events: ExecEvent[] }) =>
    events.some((event) => event.kind === 'not-captured' && event.why.includes('the next start captures them first'))
  const lose = async (text: string) => {
    const lost = await run(`mv ${blobs} ${away}; : > ${blobs}; ${write(text)}`)
    rmSync(blobs)
    renameSync(away, blobs)
    return lost
  }
  const last = (file: string) => readFileSync(file, 'utf8').trimEnd().split('\n').at(-1)!.slice(-3)
  await run(write('one'))
  expect(isSaid(await lose('two'))).toBe(true)
  expect((await run('true')).restored).toMatchObject({ written: 0, removed: 0 })
  expect(last(join(state, 'a'))).toBe('two')

  // It continues elsewhere meanwhile: the local files are neither the newest, nor deleted.
  expect(isSaid(await lose('six'))).toBe(true)
  await run(write('new'), { state: `${state}-b` })
  await run('true')
  expect(last(join(state, 'a'))).toBe('new')
  const aside = readdirSync(folder).find((name) => name.startsWith(`state-${number}.uncaptured-`))!
  expect(last(join(folder, aside, 'a'))).toBe('six')
})

it('C12: an impossible capture is reported once', async () => {
  const { events } = await run('mkfifo pipe; : > "$(printf \'bad\\377\')"; echo x > a.tmp; mv a.tmp a; sleep 0.3')
  const notes = events.filter(({ kind }) => kind === 'note').map((event) => JSON.stringify(event))
  for (const name of ['pipe', '\u{FFFD}']) expect(notes.filter((text) => text.includes(`\\"${name}\\"`)).length).toBe(1)
})

it('C12: a damaged capture is skipped, reported and marked; the previous one is restored', async () => {
  const write = (text: string) => `echo ${text} > a.tmp; mv a.tmp a`
  await run(write('one'))
  await run(write('two'))
  const { kernel } = hostOf(rp)
  const [newest] = await rp.checkpoints('exec/p')
  const named = await liveChunks(readManifest(kernel, newest!), stateIo(kernel))
  expect(named.length).toBeGreaterThan(0)
  await kernel.store.blobs.delete(named, Number.MAX_SAFE_INTEGER)
  const { restored } = await run('cat a > seen')
  expect(restored!.skipped.map(({ seq }) => seq)).toEqual([newest!.seq])
  expect(restored!.seq).toBeLessThan(newest!.seq)
  expect(readFileSync(join(state, 'seen'), 'utf8')).toBe('one\n')
  expect((await rp.checkpoints('exec/p')).find(({ id }) => id === newest!.id)?.invalid ?? 'gone').not.toBeNull()
})

it('C12: SIGTERM is forwarded, the grace time is used, and files written during it are captured', async () => {
  const script = `trap 'echo last > a.tmp; mv a.tmp a; exit 3' TERM; echo on > up.tmp; mv up.tmp up; while :; do sleep 0.05; done`
  let ready = () => {}
  const isReady = new Promise<void>((resolve) => {
    ready = resolve
  })
  const running = await rp.run(shell(script), {
    onEvent: (event) => event.kind === 'captured' && event.files === 1 && ready(),
  })
  await isReady
  const { exitCode, status, runs } = await running.stop({ killSignal: 'SIGTERM' })
  expect([exitCode, status, runs[0]?.why]).toEqual([3, 'stopped', 'stopped'])
  rmSync(state, { recursive: true })
  await run('cat a > seen')
  expect(readFileSync(join(state, 'seen'), 'utf8')).toBe('last\n')
})

it('C12: what ignores the notice is killed when the grace time is over, with all that it started', async () => {
  let pid = 0
  const running = await rp.run(shell("trap '' TERM; sleep 100 & sleep 100", { grace: '300ms' }), {
    onEvent: (event) => {
      if (event.kind === 'started') pid = event.pid
    },
  })
  await until(() => pid !== 0)
  const { exitCode, runs } = await running.stop()
  expect([exitCode, runs[0]?.why]).toEqual([137, 'killed'])
  expect(isAlive(pid)).toBe(false)
})

it('C12: descendants of an ended program are ended', async () => {
  await run('sleep 100 & echo $! > pid.tmp; mv pid.tmp pid; exit 0')
  expect(isAlive(Number(readFileSync(join(state, 'pid'), 'utf8')))).toBe(false)
})

it('C12: a second one is refused while the first runs; one that takes over fences it, and its program is stopped', async () => {
  let pid = 0
  const first = await rp.run(shell('while :; do echo x > a.tmp; mv a.tmp a; sleep 0.05; done'), {
    onEvent: (event) => {
      if (event.kind === 'started') pid = event.pid
    },
  })
  const ended = first.result().then(
    () => 'ended',
    (error) => error.code,
  )
  await until(() => pid !== 0)
  const other = await another()
  await expect(other.run(shell('true')).result()).rejects.toMatchObject({ code: 'OWNED' })
  const { exitCode } = await (await other.run(shell('true'), { takeover: true })).result()
  expect(exitCode).toBe(0)
  expect(await ended).toBe('FENCED')
  expect(isAlive(pid)).toBe(false)
})

it('C12: a failure is retried from the newest capture, and a capture in between resets the count', async () => {
  const script = 'n=$(cat n 2>/dev/null || echo 0); n=$((n+1)); echo $n > n.tmp; mv n.tmp n; [ $n -ge 4 ]'
  const { exitCode, runs } = await run(script, { retry: { attempts: 2 } })
  expect([exitCode, runs.map((each) => each.exitCode)]).toEqual([0, [1, 1, 1, 0]])
  const failing = await run('exit 5', { retry: { attempts: 3 } })
  expect([failing.exitCode, failing.runs.length]).toEqual([5, 3])
})

it('C12: a file that was being written at the kill is not captured, unless it is renamed into place', async () => {
  const cut = await run('echo whole > a; echo half > b; kill -9 $$', { when: 'quiet', quiet: '10s' })
  expect(cut.events).toContainEqual(expect.objectContaining({ kind: 'not-captured' }))
  expect(cut.captures).toBe(1)
  const { restored } = await run('[ ! -e a ]', { when: 'quiet', quiet: '10s' })
  expect(restored).toMatchObject({ files: 0, removed: 2 })
})

it('C12: a rollback makes an older capture the newest, a savepoint stays, and a drill reads every file', async () => {
  for (const step of ['one', 'two', 'three']) await run(`echo ${step} > a.tmp; mv a.tmp a`, { keep: 2 })
  const [, second] = await rp.checkpoints('exec/p')
  expect((await rp.drill({ timelines: ['exec/p'] })).results.map(({ ok }) => ok)).toEqual([true, true])
  await rp.rollback({ to: { timeline: 'exec/p', seq: second!.seq } })
  await rp.savepoint({ timeline: 'exec/p', seq: second!.seq })
  await run('cat a > seen', { keep: 2 })
  expect(readFileSync(join(state, 'seen'), 'utf8')).toBe('two\n')
  for (const step of ['four', 'five']) await run(`echo ${step} > a.tmp; mv a.tmp a`, { keep: 2 })
  expect((await rp.checkpoints('exec/p')).map(({ isPinned }) => isPinned)).toEqual([false, false, true])
})

it('C12: a folder that holds the program’s own directory is refused, and so is what cannot be meant', () => {
  const bad: [Partial<ExecOptions>, string][] = [
    [{ state: '.' }, 'a separate folder'],
    [{ state: '..' }, 'a separate folder'],
    [{ command: [] }, 'a list of words'],
    [{ when: 'marker' }, 'marker requires when'],
    [{ when: 'word', every: '1m' }, 'every cannot be combined with word'],
    [{ keep: 1 }, 'keep must be at least 2'],
    [{ retry: { attempts: 0 } }, 'retry.attempts must be at least 1'],
  ]
  for (const [options, words] of bad) expect(() => shell('true', options)).toThrow(words)
})
