// Determinism without holes (A5.1, G13): each nondeterministic source comes from history or is refused with the line of the
// user's code; other code gets the original, also at the same moment.

import { spawn } from 'node:child_process'
import nodeCrypto, { randomInt, webcrypto } from 'node:crypto'
import dgram from 'node:dgram'
import { lookup, Resolver, promises as resolving } from 'node:dns'
import http from 'node:http'
import { connect as connectHttp2 } from 'node:http2'
import net, { connect, Socket } from 'node:net'
import os, { cpus } from 'node:os'
import { scheduler } from 'node:timers/promises'
import { promisify } from 'node:util'
import { getHeapStatistics } from 'node:v8'
import vm from 'node:vm'
import { MessageChannel, Worker } from 'node:worker_threads'
import pg from 'pg'
import { afterEach, describe, expect, inject, it } from 'vitest'
import { isReprise, open, type Reprise } from '../../src/index.ts'
import { checkDefinitions, workflow } from '../../src/layers/workflow/index.ts'
import { pause } from '../support/fixture.ts'

const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

async function engine(): Promise<Reprise> {
  const rp = await open('memory:')
  cleanups.push(() => rp.close())
  return rp
}

const precise = new Intl.DateTimeFormat('en', { second: 'numeric', fractionalSecondDigits: 3 } as object)

/** Two calls a while apart return different values, so each of them is a source. */
const values: Record<string, () => unknown> = {
  'Date.now': () => Date.now(),
  'new Date': () => new Date().toISOString(),
  'the constructor of a date': () => new (new Date(0).constructor as DateConstructor)().getTime(),
  'Math.random': () => Math.random(),
  'performance.now': () => performance.now(),
  'performance.now of the prototype': () => Object.getPrototypeOf(performance).now.call(performance),
  'process.hrtime': () => process.hrtime().join('.'),
  'process.hrtime.bigint': () => process.hrtime.bigint(),
  'process.uptime': () => process.uptime(),
  'Intl.DateTimeFormat.format': () => precise.format(),
  'a format that is passed on': () => [undefined].map(precise.format as () => string)[0],
  'Intl.DateTimeFormat.formatToParts': () => JSON.stringify(precise.formatToParts()),
  'the time stamp of an event': () => new Event('x').timeStamp,
  'crypto.randomUUID': () => crypto.randomUUID(),
  'crypto.getRandomValues': () => crypto.getRandomValues(new Uint32Array(4)).join(),
  'crypto.getRandomValues of the prototype': () =>
    Object.getPrototypeOf(crypto).getRandomValues.call(crypto, new Uint8Array(8)).join(),
  'getRandomValues of webcrypto': () => webcrypto.getRandomValues(new Uint8Array(8)).join(),
  'node:crypto getRandomValues': () => nodeCrypto.getRandomValues(new Uint8Array(8)).join(),
  'crypto.randomBytes': () => nodeCrypto.randomBytes(8).toString('hex'),
  'crypto.pseudoRandomBytes': () => nodeCrypto.pseudoRandomBytes(8).toString('hex'),
  'crypto.randomInt': () => randomInt(2 ** 40),
}

/** A cell, so that the call is in a line of this file. */
const refused: Record<string, () => unknown> = {
  'net.connect': () => connect(1),
  'net.Socket.connect': () => new Socket().connect(1),
  'net.createServer': () => net.createServer(),
  'http2.connect': () => connectHttp2('http://localhost:1'),
  'http.get': () => http.get('http://localhost:1'),
  'dgram.createSocket': () => dgram.createSocket('udp4'),
  'dns.lookup': () => lookup('localhost', () => undefined),
  'dns.promises.lookup': () => resolving.lookup('localhost'),
  'dns.Resolver.resolve4': () => new Resolver().resolve4('localhost', () => undefined),
  'child_process.spawn': () => spawn('true'),
  'os.cpus': () => cpus(),
  'os.freemem': () => os.freemem(),
  'os.hostname': () => os.hostname(),
  'v8.getHeapStatistics': () => getHeapStatistics(),
  'process.memoryUsage': () => process.memoryUsage(),
  'process.cpuUsage': () => process.cpuUsage(),
  'performance.mark': () => performance.mark('here'),
  'performance.nodeTiming': () => performance.nodeTiming.duration,
  'crypto.subtle.generateKey': () =>
    crypto.subtle.generateKey({ name: 'AES-GCM', length: 128 }, true, ['encrypt', 'decrypt']),
  'crypto.subtle.digest': () => webcrypto.subtle.digest('SHA-256', new Uint8Array(1)),
  'crypto.generateKeyPairSync': () => nodeCrypto.generateKeyPairSync('ed25519'),
  'crypto.ECDH.generateKeys': () => nodeCrypto.createECDH('prime256v1').generateKeys(),
  'crypto.randomBytes': () => nodeCrypto.randomBytes(4, () => undefined),
  'crypto.scrypt': () => nodeCrypto.scrypt('a', 'b', 8, () => undefined),
  setTimeout: () => promisify(setTimeout)(1),
  'timers/promises.scheduler.wait': () => scheduler.wait(1),
  'AbortSignal.timeout': () => AbortSignal.timeout(10),
  'vm.runInNewContext': () => vm.runInNewContext('Date.now()'),
  'worker_threads.Worker': () => new Worker('0', { eval: true }),
  'worker_threads.MessageChannel': () => new MessageChannel(),
  'WeakRef.deref': () => new WeakRef({}).deref(),
}

describe('a source that history can give', () => {
  it.each(Object.keys(values))(
    '%s differs from call to call outside, and is the same in each replay (A5.1)',
    async (name) => {
      const ask = values[name]!
      const before = String(ask())
      await pause(3)
      expect(String(ask())).not.toBe(before)
      const seen: string[] = []
      const given = workflow('given', async (ctx) => {
        const first = String(ask())
        await ctx.step('a', () => pause(3))
        seen.push(`${first} ${String(ask())}`)
        await ctx.signal('go')
        return seen.at(-1)
      })
      const rp = await engine()
      const run = await rp.run(given, { id: 'one' })
      while (seen.length === 0) await pause(1)
      const report = await checkDefinitions(rp, [given])
      expect(report).toMatchObject({ ok: true, checked: 1 })
      expect(new Set(seen).size).toBe(1)
      expect(seen.length).toBeGreaterThanOrEqual(2)
      await run.signal('go')
      expect(await run.result()).toBe(seen[0])
    },
  )

  it('agrees with the others: one clock for all APIs', async () => {
    const rp = await engine()
    const clocks = workflow('clocks', async () => {
      const now = Date.now()
      const [s, ns] = process.hrtime()
      return {
        now,
        all: [
          performance.timeOrigin + performance.now(),
          s * 1000 + ns / 1e6,
          Number(process.hrtime.bigint() / 1_000_000n),
          process.uptime() * 1000,
          new Event('x').timeStamp,
        ].map((ms) => Math.round(ms - now)),
        spent: process.hrtime([s, ns]),
        written: precise.format() === precise.format(now),
      }
    })
    const { all, spent, written } = await (await rp.run(clocks)).result()
    expect(all).toEqual([0, 0, 0, 0, 0])
    expect(spent).toEqual([0, 0])
    expect(written).toBe(true)
  })
})

describe('a source that history cannot give', () => {
  it.each(Object.keys(refused))(
    '%s is refused with the line, and free in a step and elsewhere (A5.1)',
    async (name) => {
      const call = refused[name]!
      const rp = await engine()
      const bad = workflow('bad', async () => void (await call()))
      const error = await (await rp.run(bad)).result().catch((thrown) => thrown)
      expect(isReprise(error, 'NON_DETERMINISTIC')).toBe(true)
      expect(error.message).toContain(name)
      expect(error.data.at).toMatch(/sources\.test\.ts:\d+:\d+/)
    },
  )

  it('os, memory and key generation are free in a step', async () => {
    const rp = await engine()
    const free = workflow('free', async (ctx) => ({
      cpus: await ctx.step('cpus', () => cpus().length),
      rss: await ctx.step('rss', () => process.memoryUsage().rss > 0),
      key: await ctx.step('key', async () => (await crypto.subtle.digest('SHA-256', new Uint8Array(1))).byteLength),
    }))
    expect(await (await rp.run(free)).result()).toEqual({ cpus: cpus().length, rss: true, key: 32 })
  })
})

/** Answers each line with the same line; `late` after a while. */
async function echo(): Promise<number> {
  const server = net.createServer((socket) => {
    socket.on('data', (data) => setTimeout(() => socket.write(data), 5))
    socket.on('error', () => undefined)
  })
  await new Promise<void>((resolve) => server.listen(0, resolve))
  cleanups.push(() => new Promise((resolve) => server.close(resolve)))
  return (server.address() as net.AddressInfo).port
}

describe('a connection that others use too', () => {
  it('continues for them, while the run that wrote to it fails with the line', async () => {
    const socket = net.connect(await echo())
    cleanups.push(() => socket.destroy())
    await new Promise((resolve) => socket.once('connect', resolve))
    const waiting: ((answer: string) => void)[] = []
    let heard = 0
    socket.on('data', (data) => {
      heard += 1
      waiting.shift()!(String(data))
    })
    const ask = (text: string) =>
      new Promise<string>((resolve) => {
        waiting.push(resolve)
        socket.write(text)
      })
    const rp = await engine()
    const bad = workflow('bad', async () => await ask('from workflow code'))
    const error = await (await rp.run(bad)).result().catch((thrown) => thrown)
    expect(isReprise(error, 'NON_DETERMINISTIC')).toBe(true)
    expect(error.message).toContain('net.Socket.write')
    expect(error.data.at).toMatch(/sources\.test\.ts:\d+:\d+/)
    while (heard === 0) await pause(1)
    expect(await ask('from outside')).toBe('from outside')
    const good = workflow('good', async (ctx) => await ctx.step('ask', () => ask('from a step')))
    expect(await (await rp.run(good)).result()).toBe('from a step')
  })

  it('a database client is refused in every way it can be used, and serves others afterwards', async () => {
    const pool = new pg.Pool({ connectionString: inject('postgresUrl'), max: 2 })
    const client = new pg.Client({ connectionString: inject('postgresUrl') })
    await client.connect()
    cleanups.push(
      () => pool.end(),
      () => client.end(),
    )
    const ask = async (of: { query(text: string): Promise<{ rows: { one: number }[] }> }) =>
      (await of.query('SELECT 1 AS one')).rows[0]!.one
    const ways: Record<string, () => Promise<unknown>> = {
      'a connection that is open': () => ask(client as never),
      // Busy for another client: the query is sent later, from the context of the connection.
      'a connection that is busy': () => ask(client as never),
      'a new connection': async () => {
        const own = new pg.Client({ connectionString: inject('postgresUrl') })
        own.on('error', () => undefined)
        await own.connect()
      },
      'a pool without a connection': () => ask(pool as never),
      'a pool with an idle connection': () => ask(pool as never),
    }
    let busy: Promise<unknown> = Promise.resolve()
    const rp = await engine()
    for (const [name, way] of Object.entries(ways)) {
      if (name.includes('busy')) busy = client.query('SELECT pg_sleep(0.05)')
      if (name.includes('idle')) expect(await ask(pool as never)).toBe(1)
      const bad = workflow('bad', async (ctx) => {
        await way()
        return await ctx.step('after', () => 1)
      })
      const own = await engine()
      const error = await (await own.run(bad)).result().catch((thrown) => thrown)
      expect([name, isReprise(error, 'NON_DETERMINISTIC')]).toEqual([name, true])
    }
    await busy
    expect(await ask(client as never)).toBe(1)
    expect(await Promise.all([1, 2, 3, 4, 5].map(() => ask(pool as never)))).toEqual([1, 1, 1, 1, 1])
    const good = workflow('good', async (ctx) => await ctx.step('ask', () => ask(pool as never)))
    expect(await (await rp.run(good)).result()).toBe(1)
  })
})

describe('code that continues without an outcome', () => {
  /** Turns of the event loop, not time: the run must not be released before. */
  async function comesToRest() {
    for (let i = 0; i < 20; i++) await new Promise((resolve) => setImmediate(resolve))
  }

  it('is refused, with the line at which it continued', async () => {
    const elsewhere: { resolve?: (value: number) => void } = {}
    const rp = await engine()
    const bad = workflow('bad', async (ctx) => {
      const value = await new Promise<number>((resolve) => Object.assign(elsewhere, { resolve }))
      return await ctx.step('after', () => value)
    })
    const run = await rp.run(bad)
    while (!elsewhere.resolve) await pause(1)
    await comesToRest()
    elsewhere.resolve(7)
    const error = await run.result().catch((thrown) => thrown)
    expect(isReprise(error, 'NON_DETERMINISTIC')).toBe(true)
    expect(error.data.at).toMatch(/sources\.test\.ts:\d+:\d+/)
  })

  it('is refused also when it ends with it', async () => {
    const rp = await engine()
    let resolve: ((value: number) => void) | undefined
    const bad = workflow('bad', async () => {
      return await new Promise<number>((given) => {
        resolve = given
      })
    })
    const run = await rp.run(bad)
    while (!resolve) await pause(1)
    await comesToRest()
    resolve(7)
    await expect(run.result()).rejects.toMatchObject({ code: 'NON_DETERMINISTIC' })
  })

  it('is refused also when it never continues: nothing in history would wake it', async () => {
    const rp = await engine()
    const bad = workflow('bad', async (ctx) => {
      await ctx.step('before', () => 1)
      return await new Promise<number>(() => undefined)
    })
    const run = await rp.run(bad)
    await expect(run.result()).rejects.toMatchObject({ code: 'NON_DETERMINISTIC' })
  })

  it('is free to wait for what its own branches and handlers do', async () => {
    const rp = await engine()
    const good = workflow('good', async (ctx) => {
      let open: (value: string) => void = () => undefined
      const gate = new Promise<string>((resolve) => {
        open = resolve
      })
      ctx.onUpdate('open', (by: string) => open(by))
      const [first] = await ctx.parallel([async () => await gate, async () => await ctx.step('a', () => 1)])
      await new Promise<void>((resolve) => process.nextTick(resolve))
      await new Promise<void>((resolve) => queueMicrotask(resolve))
      return `${first} ${await ctx.step('b', () => 2)}`
    })
    const run = await rp.run(good)
    await run.update('open', 'ann')
    expect(await run.result()).toBe('ann 2')
  })
})
