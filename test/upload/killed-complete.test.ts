// An onComplete that kills its own process: real processes, one after another.

import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { open } from '../../src/engine/api/open.ts'
import { upload } from '../../src/layers/upload/index.ts'

test('onComplete counts the calls in which a process died, and gives up by its policy', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'reprise-complete-'))
  const program = join(folder, 'killed.mjs')
  const dist = new URL('../../dist/', import.meta.url).href
  writeFileSync(
    program,
    `import { appendFileSync } from 'node:fs'
    import { open } from '${dist}index.js'
    import { upload } from '${dist}layers/upload/index.js'
    const rp = await open('sqlite:${join(folder, 'x.db')}')
    const files = upload('files', {
      retry: { attempts: 2, backoff: 1 },
      onComplete(file, { attempt }) {
        appendFileSync('${join(folder, 'calls')}', attempt + ' ')
        process.kill(process.pid, 'SIGKILL')
      },
    })
    const handler = files.handler(rp, { path: '/files', authorize: () => true })
    const headers = { 'tus-resumable': '1.0.0', 'upload-length': '5', 'content-type': 'application/offset+octet-stream' }
    if (process.argv[2] === 'send') await handler(new Request('http://x/files', { method: 'POST', headers, body: 'hello' }))
    for (;;) {
      await new Promise((resolve) => setTimeout(resolve, 20))
      if ((await rp.list({ prefix: 'upload/', status: 'failed' })).length > 0) break
    }
    await rp.close()`,
  )
  try {
    const codes: (number | null)[] = []
    for (const how of ['send', 'wait', 'wait']) {
      const child = spawn(process.execPath, [program, how], { stdio: 'inherit' })
      codes.push(await new Promise((resolve) => child.once('close', resolve)))
    }
    expect([codes, readFileSync(join(folder, 'calls'), 'utf8')]).toEqual([[null, null, 0], '1 2 '])
    const rp = await open(`sqlite:${join(folder, 'x.db')}`)
    try {
      const [head] = await rp.list({ prefix: 'upload/', status: 'failed' })
      expect((await upload('files').file(rp, head!.timeline.split('/').at(-1)!))?.size).toBe(5)
    } finally {
      await rp.close()
    }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}, 60_000)
