// A6.5: a housekeeper is stopped (SIGSTOP) after it looked at ended runs, the runs are restarted and wait for signals, and the
// housekeeper continues (SIGCONT), also after it was declared dead. None of the runs that wait goes. Real processes.

import { afterAll, describe, expect, inject, it } from 'vitest'
import { hostOf } from '../../src/engine/host/host.ts'
import { workflow } from '../../src/layers/workflow/index.ts'
import { pause, until } from '../support/fixture.ts'
import { dropSchema, newSchemaName } from '../support/schema.ts'
import { Child, newFolder, openEngine, removeFolder, type Where } from './support.ts'

interface Line {
  readonly op: 'stops' | 'done'
  readonly expired: readonly string[]
  readonly kept: readonly string[]
}

const greet = workflow('greet', async (ctx, name: string) => {
  if (name === 'wait') return await ctx.signal<string>('go')
  return await ctx.step('say', () => `hello ${name}`)
})
const names = ['a', 'b', 'c', 'd', 'e']
const linesOf = (child: Child) => child.lines.map((line) => JSON.parse(line) as Line)
const has = (op: Line['op']) => (child: Child) => linesOf(child).some((line) => line.op === op)

async function trial(where: Where, isWeak: boolean, isRetired: boolean): Promise<void> {
  const rp = await openEngine(where)
  const runs = await Promise.all(names.map((id) => rp.run(greet, id, { id })))
  await Promise.all(runs.map((run) => run.result()))
  await pause(100)
  const child = new Child('stopped-housekeeper', { where, isWeak })
  try {
    await child.until(has('stops'))
    expect(child.errors).toBe('')
    await Promise.all(runs.map((run) => run.restart('wait')))
    const { store } = hostOf(rp).kernel
    await until(async () => {
      const heads = await rp.list({ prefix: 'workflow/' })
      return heads.every(({ status, wakeup, owner }) => status === 'waiting' && wakeup === null && owner === null)
    })
    const others = (await store.workers()).filter(({ name }) => name === 'housekeeper')
    expect(others).toHaveLength(1)
    if (isRetired) await store.retire(others.map(({ id }) => id))
    child.signal('SIGCONT')
    await child.until(has('done'))
    await child.ended
    const left = (await rp.list({ prefix: 'workflow/' })).map(({ timeline }) => timeline).sort()
    if (isWeak) return expect(left).toEqual([])
    expect(left).toEqual(names.map((id) => `workflow/greet/${id}`))
    await Promise.all(runs.map((run, i) => run.signal('go', names[i])))
    expect(await Promise.all(runs.map((run) => run.result()))).toEqual(names)
    expect((await rp.verify()).faults).toEqual([])
  } finally {
    child.signal('SIGCONT')
    await child.kill()
    await rp.close()
  }
}

describe('a stopped housekeeper that continues', () => {
  const folders: string[] = []
  const schemas: string[] = []
  afterAll(async () => {
    for (const folder of folders) removeFolder(folder)
    for (const schema of schemas) await dropSchema(inject('postgresUrl'), schema)
  })
  const places: Record<string, () => Where> = {
    sqlite() {
      folders.push(newFolder())
      return { kind: 'sqlite', file: `${folders.at(-1)}/test.db` }
    },
    postgres() {
      schemas.push(newSchemaName())
      return { kind: 'postgres', url: inject('postgresUrl'), schema: schemas.at(-1)! }
    },
  }

  for (const [kind, place] of Object.entries(places)) {
    it.each([false, true])(
      `A6.5: deletes no run that waits (${kind}, declared dead: %s)`,
      { timeout: 60_000 },
      (dead) => trial(place(), false, dead),
    )
    it(`A6.5: with a guard that accepts any head, it deletes all of them (${kind})`, { timeout: 60_000 }, () =>
      trial(place(), true, false),
    )
  }
})
