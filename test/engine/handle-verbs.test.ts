// Verbs of handles that do the same in every model: stop takes a reason and a limit, close leaves the work
// of others alone, dead letters are listed, redriven and discarded.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { timelineId } from '../../src/core/coordinate.ts'
import { entryAt } from '../../src/engine/history/history.ts'
import { hostOf } from '../../src/engine/host/host.ts'
import type { Entity } from '../../src/engine/model/definition.ts'
import {
  aggregate,
  commandTo,
  type ProcessManager,
  processManager,
  projection,
  tableProjection,
} from '../../src/layers/events/index.ts'
import { type ExecEvent, exec } from '../../src/layers/exec/index.ts'
import { job } from '../../src/layers/job/index.ts'
import { migrations } from '../../src/layers/migrate/index.ts'
import { collectSink, generatedSource, pipeline } from '../../src/layers/pipeline/index.ts'
import { informer, resource } from '../../src/layers/resource/index.ts'
import { table } from '../../src/layers/table/index.ts'
import { onEveryStore } from '../support/worlds.ts'

const account = aggregate('account', {
  initial: () => ({ cents: 0 }),
  evolve: { paid: (s: { cents: number }, e: { cents: number }) => ({ cents: s.cents + e.cents }) },
  decide: { pay: (_s: { cents: number }, cents: number) => ({ type: 'paid' as const, cents }) },
})

/** The verbs that projections and process managers share. */
type View = Pick<ProcessManager, 'catchUp' | 'deadLetters' | 'discard' | 'close'>

function gate() {
  let open: () => void = () => undefined
  const passed = new Promise<void>((resolve) => {
    open = resolve
  })
  return { passed, open }
}

onEveryStore(
  'verbs of handles',
  (world) => {
    it('stop cuts work off after its timeout, and keeps the reason', async () => {
      const rp = await (await world()).engine()
      const began = gate()
      const endless = job('endless', {
        source: ['a'],
        grace: '1h',
        each: (_, { signal }) => {
          began.open()
          return new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
        },
      })
      const run = await rp.run(endless)
      await began.passed
      expect(run.status()).toMatchObject({ status: 'running', inFlight: 1 })
      expect(await run.stop({ reason: 'the night is over', timeout: 1 })).toMatchObject({
        status: 'stopped',
        cutOff: 1,
      })
      const { seq } = (await rp.head('job/endless'))!
      expect((await entryAt(hostOf(rp).kernel, timelineId('job/endless'), seq))?.data).toMatchObject({
        because: 'the night is over',
      })

      let why: unknown = null
      const stepBegan = gate()
      const schema = migrations('schema', {
        steps: [
          {
            id: '1',
            retry: { attempts: 1 },
            run: ({ signal }) => {
              stepBegan.open()
              return new Promise((_, reject) => {
                signal.addEventListener('abort', () => {
                  why = signal.reason
                  reject(signal.reason)
                })
              })
            },
          },
        ],
      })
      const migrating = await rp.run(schema)
      await stepBegan.passed
      expect(migrating.status()).toEqual({ status: 'running', step: '1', applied: 0 })
      await expect(migrating.stop({ reason: 'too slow', timeout: 1 })).rejects.toMatchObject({ code: 'RUN_FAILED' })
      expect(why).toMatchObject({ code: 'ABORTED', message: expect.stringContaining('too slow') })
      expect(migrating.status().status).toBe('failed')
    })

    it('stop stops waiting when its signal fires, and the run still stops', async () => {
      const rp = await (await world()).engine()
      const [began, hold] = [gate(), gate()]
      const held = job('held', {
        source: ['a', 'b'],
        each: () => {
          began.open()
          return hold.passed
        },
      })
      const run = await rp.run(held)
      await began.passed
      const signal = AbortSignal.abort()
      await expect(run.stop({ signal })).rejects.toMatchObject({ code: 'ABORTED' })
      hold.open()
      expect((await run.result()).status).toBe('stopped')
      await expect(run.stop({ because: 'x' } as never)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
    })

    it('the reason of a stopped pipeline is the label of its savepoint', async () => {
      const rp = await (await world()).engine()
      const endless = pipeline('endless', (p) =>
        p
          .from(
            'numbers',
            generatedSource((n) => n),
          )
          .to('out', collectSink()),
      )
      const run = await rp.run(endless).started()
      expect(run.status()).toMatchObject({ status: 'running' })
      const { checkpoint } = await run.stop({ reason: 'before the move', timeout: '1m' })
      const made = (await rp.checkpoints('pipeline/endless')).find(({ id }) => id === checkpoint)
      expect(made).toMatchObject({ isPinned: true, label: 'before the move' })
    })

    it('a program is stopped within its timeout, and its captures are checkpoints', async () => {
      const rp = await (await world()).engine()
      const state = mkdtempSync(join(tmpdir(), 'reprise-verbs-'))
      const events: ExecEvent[] = []
      const command = ['sh', '-c', 'trap "" TERM; while :; do sleep 0.05; done']
      const stubborn = exec('stubborn', { command, state, grace: '1h' })
      const run = await rp.run(stubborn, { onEvent: (event) => events.push(event) }).started()
      expect([run.id, run.timeline]).toEqual(['stubborn', 'exec/stubborn'])
      expect(run.status()).toMatchObject({ status: 'running', pid: expect.any(Number) })
      const first = await run.checkpoint({ label: 'one' })
      expect((await run.savepoint({ label: 'two' })).seq).toBeGreaterThan(first.seq)
      const result = await run.stop({ reason: 'enough', timeout: '10ms' })
      expect(result).toMatchObject({ status: 'stopped', runs: [{ why: 'killed' }] })
      expect(events).toContainEqual({ kind: 'stopping', signal: 'SIGTERM', graceMs: 10, reason: 'enough' })
      expect(run.status()).toMatchObject({ status: 'stopped', pid: null })
      await expect(run.checkpoint()).rejects.toMatchObject({ code: 'CONFLICT' })
      rmSync(state, { recursive: true, force: true })
    })

    it('close of a process manager leaves the work of rp.work and of other handles alone', async () => {
      const rp = await (await world()).engine()
      const bonus = processManager('bonus', {
        from: [account],
        on: { paid: (e, at) => (at.id === 'ann' ? commandTo(account, 'bank', 'pay', e.cents) : undefined) },
      })
      rp.work([bonus, account])
      await using ann = await rp.open(account, 'ann')
      await (await rp.open(bonus)).close()
      await ann.do('pay', 5)
      const manager = await rp.open(bonus)
      await manager.catchUp()
      expect(manager.status()).toMatchObject({ isCaughtUp: true, quarantined: 0 })
      await manager.close()
      await manager.close()
      await ann.do('pay', 6)
      await using bank = await rp.open(account, 'bank')
      await expect.poll(() => bank.refresh(), { timeout: 20_000 }).toEqual({ cents: 11 })
    })

    it('a process manager without an owner is stopped, and continues when opened again', async () => {
      const rp = await (await world()).engine()
      const seen: number[] = []
      const counts = processManager('counts', { from: [account], on: { paid: (e) => void seen.push(e.cents) } })
      await using ann = await rp.open(account, 'ann')
      const manager = await rp.open(counts)
      await ann.do('pay', 1)
      await manager.catchUp()
      await manager.close()
      expect(await rp.head('process/counts')).toMatchObject({ owner: null })
      await expect(manager.catchUp()).rejects.toMatchObject({ code: 'CLOSED' })
      await ann.do('pay', 2)
      await using again = await rp.open(counts)
      await again.catchUp()
      expect(seen).toEqual([1, 2])
    })

    it('dead letters are listed, redriven and discarded by the same methods', async () => {
      const rp = await (await world()).engine()
      const strict = job('strict', {
        source: ['good', 'bad', 'worse', 'worst'],
        retry: { attempts: 1 },
        shards: 2,
        each: (item) => {
          if (item !== 'good') throw new Error(`${item} is not allowed`)
        },
      })
      const run = await rp.run(strict)
      expect(await run.result()).toMatchObject({ dead: 3 })
      const keys = async () => (await run.deadLetters()).map(({ key }) => key).sort()
      expect(await keys()).toEqual(['bad', 'worse', 'worst'])
      await expect(run.discard(['none'])).rejects.toMatchObject({ code: 'NOT_FOUND' })
      expect(await run.discard(['worst'])).toBe(1)
      expect(await keys()).toEqual(['bad', 'worse'])
      expect(await run.redrive(['bad'], { edits: { bad: 'good' } })).toBe(1)
      expect(await rp.run(strict).result()).toMatchObject({ dead: 1 })
      expect(await run.discard()).toBe(1)
      expect(await run.deadLetters()).toEqual([])

      const sites = resource('sites')
      const cache = await rp.open(
        informer('mirror', {
          of: sites,
          retry: { attempts: 1 },
          handle: () => {
            throw new Error('not now')
          },
        }),
      )
      await cache.led()
      await using site = await rp.open(sites)
      await site.create({ name: 'shop', spec: {} })
      await cache.settled()
      expect(await cache.deadLetters()).toMatchObject([{ key: 'shop' }])
      await expect(cache.discard(['none'])).rejects.toMatchObject({ code: 'NOT_FOUND' })
      expect(await cache.discard(['shop'])).toBe(1)
      await expect.poll(() => cache.deadLetters(), { timeout: 20_000 }).toEqual([])
      await cache.close()
    })

    it('a discarded dead letter of a projection is gone for good, and never applied', async () => {
      const w = await world()
      const rp = await w.engine()
      const on = {
        paid: (_: unknown, e: { readonly cents: number }) => {
          if (e.cents < 0) throw new Error('negative')
        },
      }
      const quarantine = { from: [account], poison: 'quarantine' as const, retry: { attempts: 1 } }
      const views = [
        projection('memory', { ...quarantine, initial: () => ({}), on }),
        tableProjection('tables', { ...quarantine, into: table<number>('sums'), on }),
        processManager('reacts', { ...quarantine, on: { paid: (e) => on.paid(null, e) } }),
      ]
      await using ann = await rp.open(account, 'ann')
      await ann.do('pay', -1)
      for (const definition of views) {
        const view = await rp.open(definition as Entity<View, undefined>)
        await view.catchUp()
        const place = { timeline: 'events/account/ann', seq: 1 }
        expect([definition.name, await view.deadLetters()]).toMatchObject([definition.name, [place]])
        expect(await view.discard([place])).toBe(1)
        expect(await view.deadLetters()).toEqual([])
        await view.close()
        const again = await rp.open(definition as Entity<View, undefined>)
        await again.catchUp()
        expect([definition.name, await again.deadLetters()]).toEqual([definition.name, []])
        await again.close()
      }
    })
  },
  ['memory', 'sqlite'],
)
