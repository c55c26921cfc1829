// The five axes on the recovery card, the consistency of each checkpoint, and state that another system holds.

import { expect, it } from 'vitest'
import { type Reprise, timeline } from '../../src/index.ts'
import { save } from '../../src/layers/save/index.ts'
import { shownCheckpoints } from '../../src/operations/describe.ts'
import { onEveryStore } from '../support/worlds.ts'

type Moved = { readonly type: 'moved' | 'closed'; readonly by: number }

const moved = (by: number): Moved => ({ type: 'moved', by })
const counting = {
  initial: () => ({ total: 0 }),
  apply: (state: { total: number }, entry: Moved) => ({ total: state.total + entry.by }),
}
const plain = timeline('plain', counting)
const checked = timeline('checked', { ...counting, valid: ({ total }) => total >= 0 })
const milestones = timeline('milestones', { ...counting, checkpoint: { on: ['closed'] } })
const quick = timeline('quick', { ...counting, checkpoint: { recoverWithin: '1h' } })
const settings = save<{ volume: number }>('settings')

const levelsOf = async (rp: Reprise, id: string) =>
  (await shownCheckpoints(rp, id)).map(({ trigger, consistency }) => `${trigger} ${consistency}`)

onEveryStore('D9: the five axes', (world) => {
  it('grows from crash to application consistency with a check, a milestone, or a save of the application', async () => {
    const rp = await (await world()).engine()
    for (const definition of [plain, checked]) {
      const open = await rp.open(definition, 'a')
      await open.append(moved(1))
      await open.checkpoint()
      await open.close()
    }
    const open = await rp.open(milestones, 'a')
    await open.append(moved(1))
    await open.append({ type: 'closed', by: 0 })
    await open.close()
    const saved = await rp.open(settings, 'a')
    await saved.put({ volume: 3 })
    await saved.close()
    expect(await levelsOf(rp, 'plain/a')).toEqual(['manual crash'])
    expect(await levelsOf(rp, 'checked/a')).toEqual(['manual application'])
    expect(await levelsOf(rp, 'milestones/a')).toEqual(['event application'])
    expect(await levelsOf(rp, 'save/settings/a')).toEqual(['save application'])
    const { axes } = await rp.card('checked/a')
    expect(axes.authority.is).toBe('history')
    expect(axes.captured).toEqual({
      is: 'state and history',
      because: 'checkpoint at 1, consistent for the application',
    })
    expect(axes.scope.is).toBe('timeline')
    expect(axes.economics.is).toBe('no budget')
    expect(axes.replay).toEqual({ is: 'safe', because: '0 recorded effects are not executed again' })
    expect((await rp.card('save/settings/a')).axes.authority.is).toBe('state')
  })

  it('names the missing data if a known definition cannot be recovered', async () => {
    const rp = await (await world()).engine()
    const saved = await rp.open(settings, 'lost')
    await saved.put({ volume: 1 })
    await saved.close()
    const [only] = await rp.checkpoints('save/settings/lost')
    await rp.markCheckpoint('save/settings/lost', only!.id, { why: 'wrong import', by: 'ann' })
    const { axes, missing } = await rp.card('save/settings/lost')
    expect(axes.economics).toEqual({ is: 'not measured', because: `it cannot be recovered: ${missing}` })
  })

  it('has the savepoints of a complete cut as distributed, and a label of the same form as nothing more', async () => {
    const rp = await (await world()).engine()
    for (const id of ['a', 'b']) await (await rp.open(plain, id)).append(moved(1))
    await rp.savepoint({ timeline: 'plain/a', seq: 1 }, { label: 'cut forged' })
    expect(await levelsOf(rp, 'plain/a')).toEqual(['savepoint crash'])
    for (const id of ['a', 'b']) await (await rp.open(plain, id)).append(moved(1))
    await rp.groups.capture('nightly', ['plain/a', 'plain/b'])
    expect(await levelsOf(rp, 'plain/b')).toEqual(['savepoint distributed'])
    expect((await rp.card('plain/b')).axes.scope).toEqual({ is: 'group', because: 'cut nightly' })
  })

  it('measures the recovery against its budget, reports doubt, and names the history that a fork reads', async () => {
    const rp = await (await world()).engine()
    const open = await rp.open(quick, 'a')
    await open.append(moved(1))
    expect((await rp.card('quick/a')).axes.economics.is).toBe('within budget')
    const never = new Promise<never>(() => undefined)
    void open.effects.run('charge', () => never).catch(() => undefined)
    await expect.poll(async () => (await rp.card('quick/a')).axes.replay.is).toBe('in doubt')
    expect((await rp.card('quick/a')).axes.replay.because).toBe('the outcome of 1 effect is not recorded')
    await rp.fork({ timeline: 'quick/a', seq: 1 }, 'quick/b')
    expect((await rp.card('quick/b')).axes.scope).toEqual({
      is: 'lineage',
      because: 'a recovery also reads the history of another timeline',
    })
  })
})

onEveryStore('A1.5: state that another system holds', (world) => {
  const bucket = new Map<string, string>()
  const files = timeline('files', {
    initial: () => ({ written: [] as string[] }),
    apply: ({ written }, { name }: { readonly type: 'written'; readonly name: string }) => ({
      written: [...written, name],
    }),
    authority: 'external',
    rebuild: ({ written }) => {
      if (bucket.has('away')) throw new Error('connect ECONNREFUSED')
      return written.filter((name) => bucket.has(name))
    },
    check: (found: string[], { written }) => {
      const lost = written.filter((name) => !found.includes(name))
      return lost.length === 0 || `the bucket lacks ${lost.join(', ')}`
    },
  })

  it('is rebuilt from there and compared by a drill, which reports a difference and an unreachable system', async () => {
    bucket.clear()
    const rp = await (await world()).engine()
    const open = await rp.open(files, 'a')
    for (const name of ['x', 'y']) {
      bucket.set(name, 'bytes')
      await open.append({ type: 'written', name })
    }
    await open.checkpoint()
    const card = await rp.card('files/a')
    expect(card.axes.authority.is).toBe('external')
    const notes = async () => {
      const { ok, results } = await rp.drill()
      return [ok, results.at(-1)!.note]
    }
    expect(await notes()).toEqual([true, 'rebuilt from the other system, and equal to the progress'])
    bucket.delete('y')
    expect(await notes()).toEqual([false, 'rebuilt state differs from the progress: the bucket lacks y'])
    bucket.set('away', '')
    expect(await notes()).toEqual([false, 'not rebuilt from the other system: connect ECONNREFUSED'])
    expect((await rp.checkpoints('files/a')).map(({ invalid }) => invalid)).toEqual([null])
    expect((await rp.card('files/a')).captured!.drill).toBe(
      'failed: not rebuilt from the other system: connect ECONNREFUSED',
    )
    bucket.delete('away')
    bucket.set('y', 'bytes')
    await rp.drill()
    expect((await rp.card('files/a')).captured!.drill).toBe('ok: equal to full replay')
  })

  it('is limited in time, compared with unchanged progress, and reported as not compared if the check throws', async () => {
    const rp = await (await world()).engine()
    const note = async (name: string, external: object) => {
      const definition = timeline(name, { ...counting, authority: 'external', ...external } as never)
      const open = await rp.open(definition, 'a')
      await open.append(moved(4) as never)
      const { results } = await rp.drill({ timelines: [`${name}/a`], timeout: 200 })
      return results.at(-1)!.note
    }
    const never = new Promise<never>(() => undefined)
    let isStopped = false
    const silent = (_: unknown, { signal }: { signal: AbortSignal }) => {
      signal.addEventListener('abort', () => {
        isStopped = true
      })
      return never
    }
    expect(await note('silent', { rebuild: silent })).toBe('not rebuilt from the other system: no answer within 200ms')
    expect(isStopped).toBe(true)
    const broken = () => {
      throw new Error('no column total')
    }
    expect(await note('broken', { rebuild: () => 4, check: broken })).toBe('not compared: no column total')
    const careless = (progress: { total: number }) => {
      progress.total = 0
      return 0
    }
    const check = (found: number, { total }: { total: number }) => found === total
    expect(await note('careless', { rebuild: careless, check })).toBe('rebuilt state differs from the progress')
  })

  it('refuses an external authority without a way to rebuild, and a way without the authority', () => {
    const refused = (options: object) => () => timeline('t', { ...counting, ...options } as never)
    for (const options of [
      { authority: 'external' },
      { rebuild: () => 1 },
      { check: () => true },
      { authority: 'elsewhere' },
    ])
      expect(refused(options)).toThrow(expect.objectContaining({ code: 'INVALID_ARGUMENT' }))
  })
})
