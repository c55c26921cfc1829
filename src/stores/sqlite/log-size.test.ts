// The write-ahead log on disk: a paused reader makes it grow, and after that reader is gone the log is short again, however
// long the file stays open.

import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { open, timeline } from '../../index.ts'
import { loadDriver } from './file/driver.ts'

it('a log that a slow reader made long does not stay so', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'reprise-log-size-'))
  const path = join(folder, 'store.db')
  const noise = timeline('noise', {
    initial: () => 0,
    apply: (n: number, _: { type: 'heard'; bytes: Uint8Array }) => n + 1,
  })
  const rp = await open(`sqlite:${path}`, { housekeeping: false, log: false })
  const reader = (await loadDriver()).open(path, { isReadOnly: true })
  try {
    const handle = await rp.open(noise, 'a')
    const hear = async (times: number) => {
      for (let n = 0; n < times; n++) await handle.append({ type: 'heard', bytes: randomBytes(2 ** 20) })
    }
    const logBytes = () => statSync(`${path}-wal`).size
    await hear(1)
    reader.exec('BEGIN')
    reader.prepare('SELECT count(*) FROM sqlite_master').get()
    await hear(20)
    expect(logBytes()).toBeGreaterThan(20 * 2 ** 20)
    reader.exec('COMMIT')
    await hear(2)
    expect(logBytes()).toBeLessThanOrEqual(16 * 2 ** 20)
  } finally {
    reader.close()
    await rp.close()
    rmSync(folder, { recursive: true, force: true })
  }
})
