// A controller that is stopped (SIGSTOP) between its read and its report, and woken (SIGCONT) after another process has taken
// over and the desired state has changed: its report is refused, and no status of the old generation remains.

import { afterAll, describe, expect, inject, it } from 'vitest'
import { resource } from '../../src/layers/resource/index.ts'
import { Child, newFolder, openEngine, removeFolder, type Where } from '../crash/support.ts'
import { pause } from '../support/fixture.ts'
import { dropSchema, newSchemaName } from '../support/schema.ts'

interface Line {
  readonly op: string
  readonly generation?: number
  readonly code?: string
}

const sites = resource<{ n: number }, { n: number; by: string }>('sites')
const linesOf = (child: Child) => child.lines.map((line) => JSON.parse(line) as Line)
const has = (op: string, generation?: number) => (child: Child) =>
  linesOf(child).some((line) => line.op === op && (generation === undefined || line.generation === generation))

async function haunt(where: Where): Promise<void> {
  const rp = await openEngine(where)
  const handle = await rp.open(sites)
  await handle.create({ name: 'web', spec: { n: 1 } })
  const first = new Child('resource-zombie', { where, name: 'first', pauseMs: 500 })
  let second: Child | undefined
  try {
    await first.until(has('reads', 1))
    first.signal('SIGSTOP')
    second = new Child('resource-zombie', { where, name: 'second', takeover: true, pauseMs: 0 })
    await takeOver(first, second)
    await handle.change('web', () => ({ spec: { n: 2 } }))
    await second.until(has('reports', 2))
    first.signal('SIGCONT')
    await first.until(has('refused'))
    // Its remaining attempts come before the next report of its successor.
    await handle.change('web', () => ({ spec: { n: 3 } }))
    await second.until(has('reports', 3))
    expect(await handle.get('web')).toMatchObject({
      generation: 3,
      observedGeneration: 3,
      status: { n: 3, by: 'second' },
    })
    expect(linesOf(first).find(({ op }) => op === 'refused')?.code).toBe('FENCED')
    const told = handle.watch({ from: 0 })
    const reporters: string[] = []
    for (let event = await told.next(); event && event.revision < handle.revision; event = await told.next()) {
      if (event.type === 'modified' && event.object.status) reporters.push(event.object.status.by)
    }
    told.close()
    // Its reports from before the takeover are in history; none follows a report of its successor.
    expect(reporters.lastIndexOf('first')).toBeLessThan(reporters.indexOf('second'))
  } finally {
    first.signal('SIGCONT')
    await Promise.all([first.kill(), second?.kill()])
    await rp.close()
  }
}

/** A process that is stopped inside a transaction holds the write lock of the file: then it gets another moment. */
async function takeOver(first: Child, second: Child): Promise<void> {
  for (;;) {
    await Promise.race([second.until(has('reports', 1)), pause(3000)])
    if (has('reports', 1)(second)) return
    if (second.isOver) throw new Error(`the heir ended: ${second.errors}`)
    first.signal('SIGCONT')
    await pause(20)
    first.signal('SIGSTOP')
  }
}

describe('a controller that slept through a takeover', { timeout: 120_000 }, () => {
  const folder = newFolder()
  afterAll(() => removeFolder(folder))

  it('is refused when it reports, on SQLite', async () => {
    await haunt({ kind: 'sqlite', file: `${folder}/zombie.db` })
  })

  it('is refused when it reports, on PostgreSQL', async () => {
    const where = { kind: 'postgres', url: inject('postgresUrl'), schema: newSchemaName() } as const
    try {
      await haunt(where)
    } finally {
      await dropSchema(where.url, where.schema)
    }
  })
})
