// Examples of `reprise/exec`.

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { exec } from 'reprise/exec'
import { example } from './example.ts'

export default [
  example(['exec', 'ExecRun.started', 'ExecRun.result'], async (rp, folder) => {
    const script = 'n=$(cat n 2>/dev/null || echo 0); echo $((n + 1)) > n.tmp; mv n.tmp n; [ "$n" -ge 1 ]'
    const state = join(folder, 'ckpt')
    const counter = exec('counter', {
      command: ['sh', '-c', `cd "$REPRISE_EXEC_STATE"; ${script}`],
      state,
      when: 'rename',
      retry: { attempts: 3, backoff: '10ms' },
    })
    // It fails the first time, is restored to its last capture, and started again.
    const { exitCode, runs } = await (await rp.run(counter).started()).result()
    assert.equal(exitCode, 0)
    assert.deepEqual(
      runs.map((run) => run.exitCode),
      [1, 0],
    )
    assert.equal(readFileSync(join(state, 'n'), 'utf8'), '2\n')
  }),
  example(
    ['ExecRun.status', 'ExecRun.checkpoint', 'ExecRun.savepoint', 'ExecRun.signal', 'ExecRun.stop'],
    async (rp, folder) => {
      let started = () => {}
      const isStarted = new Promise<void>((resolve) => {
        started = resolve
      })
      const sleeper = exec('sleeper', { command: ['sleep', '60'], state: join(folder, 'ckpt') })
      const run = await rp.run(sleeper, {
        onEvent: (event) => event.kind === 'started' && started(),
      })
      await isStarted
      const { seq } = await run.checkpoint({ label: 'by hand' })
      assert.ok((await run.savepoint({ label: 'before the new data' })).seq > seq)
      assert.equal(run.status().status, 'running')
      run.signal('SIGCONT')
      const { status, exitCode } = await run.stop({ reason: 'enough', timeout: '5s' })
      assert.deepEqual([status, exitCode], ['stopped', 143])
    },
  ),
]
