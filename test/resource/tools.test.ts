// Every tool on a kind of resource: read, verify, move; and its refusals with the reason.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { hostOf } from '../../src/engine/host/host.ts'
import { GiveUp, open } from '../../src/index.ts'
import { controller, resource } from '../../src/layers/resource/index.ts'
import { describeTimeline } from '../../src/operations/describe.ts'
import { checkStore } from '../../src/operations/doctor.ts'
import { entriesAfter } from '../../src/operations/history.ts'
import { declareKinds } from '../../src/operations/known-models.ts'
import { workFolder } from '../cli/support.ts'
import { cli } from '../cli/warm.ts'
import { onEveryStore } from '../support/worlds.ts'

const sites = resource<{ n: number }>('sites')

onEveryStore('tools on a kind of resource', (world) => {
  it('show its content, verify and drill it, and refuse actions that would reuse revisions', async () => {
    const here = await world()
    const writer = await (await here.engine()).open(sites)
    await writer.create({ name: 'a', finalizers: ['x'], spec: { n: 1 } })
    await writer.create({ name: 'b', spec: { n: 1 } })
    await writer.report({ name: 'b', observedGeneration: 1, status: {} })
    await writer.change('b', () => ({ spec: { n: 2 } }))
    await writer.delete('a')
    await writer.checkpoint()
    // A tool that has nothing but the store.
    const tool = await here.engine({ worker: 'tool' })
    await declareKinds(tool)
    const head = (await tool.head('resource/sites'))!
    const { shown } = await describeTimeline(tool, head)
    expect(shown).toMatchObject({
      kind: 'resource',
      summary: { objects: 2, deleting: 1, outdated: 1 },
      statusLine: { text: '2 objects, 1 being deleted, 1 whose status reports an older generation' },
    })
    expect(Object.keys(shown.refuses)).toEqual(['rollback', 'fork'])
    const model = hostOf(tool).models.find(head.timeline)!
    const told: string[] = []
    for await (const entry of entriesAfter(tool, head, 0)) told.push(model.entryRow!(entry)!.title)
    expect(told).toEqual(['a added', 'b added', 'b modified', 'b modified', 'a modified'])
    expect((await tool.verify()).faults).toEqual([])
    expect(await tool.drill()).toMatchObject({ ok: true })
    await expect(tool.rollback({ to: { timeline: 'resource/sites', seq: 2 } })).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
    })
    await expect(tool.fork({ timeline: 'resource/sites', seq: 2 }, 'resource/copy')).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
    })
    await expect(tool.groups.capture('cut', ['resource/sites'])).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
      message: expect.stringContaining('cannot be part of a group'),
    })
    expect(await tool.groups.cuts()).toEqual([])
    expect((await checkStore(tool)).filter(({ state }) => state === 'bad')).toEqual([])
    expect((await writer.list()).items).toHaveLength(2)
  })

  it('move it with its revisions: watchers get an error, and continue from the same revision at the new place', async () => {
    const [from, to] = [await world(), await world()]
    const rp = await from.engine()
    const writer = await rp.open(sites)
    const { revision } = await writer.create({ name: 'a', spec: { n: 1 } })
    const watch = writer.watch({ from: revision })
    const told = expect(watch.next()).rejects.toMatchObject({ code: 'NOT_FOUND' })
    const there = await to.engine()
    await rp.move('resource/sites', there)
    await told
    const moved = await there.open(sites)
    const on = moved.watch({ from: watch.revision })
    await moved.change('a', () => ({ spec: { n: 2 } }))
    expect(await on.next()).toMatchObject({ type: 'modified', revision: revision + 1 })
    on.close()
    watch.close()
  })

  it('import it into another store under any id, but no second time beside itself: uids and keys of effects would be the same', async () => {
    const [from, to] = [await world(), await world()]
    const folder = mkdtempSync(join(tmpdir(), 'reprise-sites-'))
    const file = join(folder, 'sites.reprise')
    try {
      const rp = await from.engine()
      const writer = await rp.open(sites)
      await writer.create({ name: 'a', spec: { n: 1 } })
      await rp.export({ timeline: 'resource/sites', seq: 1 }, file)
      // It has continued since: the file contains its beginning.
      await writer.change('a', () => ({ spec: { n: 2 } }))
      const again = { code: 'INVALID_ARGUMENT', message: expect.stringContaining('resource/sites exists here') }
      await expect(rp.import(file, { as: 'resource/sites/eu' })).rejects.toMatchObject(again)
      expect(await rp.head('resource/sites/eu')).toBeNull()
      const there = await to.engine()
      // One of the same name that has another history is not an original of it.
      await (await there.open(sites)).create({ name: 'b', spec: { n: 1 } })
      await there.import(file, { as: 'resource/sites/eu' })
      expect((await (await there.open(sites, 'eu')).get('a'))?.spec).toEqual({ n: 1 })
      const twice = { code: 'INVALID_ARGUMENT', message: expect.stringContaining('resource/sites/eu exists here') }
      await expect(there.import(file, { as: 'resource/sites/us' })).rejects.toMatchObject(twice)
    } finally {
      rmSync(folder, { recursive: true })
    }
  })

  it('a controller leads at the new place, however many led it at the old one', async () => {
    const [from, to] = [await world(), await world()]
    const rp = await from.engine()
    const there = await to.engine()
    await (await rp.open(sites)).create({ name: 'a', spec: { n: 1 } })
    const reports = () =>
      controller('scaler', {
        watch: [sites],
        reconcile: async ({ object, report }) => void (object && (await report({}))),
      })
    for (let n = 0; n < 3; n++) {
      const working = await rp.open(reports())
      await working.settled()
      await working.close()
    }
    await rp.move('resource/sites', there)
    const moved = await there.open(sites)
    await moved.change('a', () => ({ spec: { n: 2 } }))
    for (let n = 0; n < 2; n++) {
      const working = await there.open(reports())
      await working.settled()
      await working.close()
    }
    expect(await moved.get('a')).toMatchObject({ generation: 2, observedGeneration: 2 })
  })
})

it('the command line lists the dead letters of a controller, redrives and discards them', async () => {
  const place = workFolder()
  const env = { REPRISE_URL: `sqlite:${place.path}/x.db` }
  const run = async (...args: string[]) => {
    const { code, stdout, stderr } = await cli([...args, '--json'], { cwd: place.path, env })
    return { code, said: stdout === '' ? stderr : JSON.parse(stdout) }
  }
  try {
    const rp = await open(env.REPRISE_URL)
    const handle = await rp.open(sites)
    for (const name of ['a', 'b', 'c']) await handle.create({ name, spec: { n: 1 } })
    const reconcile = () => {
      throw new GiveUp('no such site')
    }
    const working = await rp.open(controller('scaler', { watch: [sites], reconcile }))
    await working.settled()
    await rp.close()
    const asked = await run('state', 'get', 'sites', 'spec', 'a')
    expect([asked.code, asked.said.error.message]).toEqual([2, expect.stringContaining('reprise at resource/sites')])
    expect((await run('state', 'get', 'nothing', 'spec', 'a')).code).toBe(4)
    // It works on objects as they are: an item in place of the stored one would be ignored.
    const replaced = await run('redrive', 'controller/scaler', 'a', '--item', '{"n":2}')
    expect(replaced.code).not.toBe(0)
    expect(JSON.stringify(replaced.said)).toContain('change the object instead')
    expect(await run('redrive', 'controller/scaler', 'x')).toMatchObject({
      code: 4,
      said: { error: { code: 'NOT_FOUND' } },
    })
    expect(await run('redrive', 'controller/scaler', 'a')).toEqual({ code: 0, said: { redriven: ['a'], missing: [] } })
    expect(await run('dead', 'controller/scaler', '--discard', 'b')).toMatchObject({ said: { discarded: ['b'] } })
    expect((await run('dead', 'controller/scaler')).said).toMatchObject([{ key: 'c' }])
  } finally {
    place.remove()
  }
})
