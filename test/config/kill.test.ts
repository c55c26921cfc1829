// Real processes, killed with SIGKILL: those that run a rollout, and those that serve clients. Acknowledged answers are kept,
// and every stage of a rollout happens once, in any process.

import { type ChildProcess, spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { afterEach, describe, expect, it } from 'vitest'
import { open } from '../../src/index.ts'
import { type ClientStream, config } from '../../src/layers/config/index.ts'
import { entriesAfter } from '../../src/operations/history.ts'
import { until } from '../support/fixture.ts'
import { hostOf } from '../support/host.ts'
import { programPath } from '../support/programs.ts'
import { storeUrls } from '../support/store-urls.ts'

const flags = config<string>('flags', { forgetAfter: '1h' })
const fleet = 8

describe.each(Object.keys(storeUrls))('a control plane under SIGKILL (%s)', { timeout: 300_000 }, (kind) => {
  const ends: (() => unknown)[] = []
  afterEach(async () => {
    for (const end of ends.splice(0).reverse()) await end()
  })

  /** The store, an engine of this process, and a way to start others. */
  async function place() {
    const { url, remove } = storeUrls[kind]!()
    ends.push(remove)
    const rp = await open(url)
    ends.push(() => rp.close())
    const start = async (args: readonly string[], onAck: (client: string, version: number) => void = () => {}) => {
      const child = spawn(process.execPath, [programPath('config-process'), url, ...args], {
        stdio: ['ignore', 'pipe', 'inherit'],
      })
      const closed = new Promise<void>((resolve) => child.on('close', () => resolve()))
      ends.push(async () => {
        child.kill('SIGKILL')
        await closed
      })
      await new Promise<void>((resolve, reject) => {
        child.on('close', () => reject(new Error('it ended before it was ready')))
        createInterface(child.stdout!).on('line', (line) => {
          const said = JSON.parse(line) as { ready?: true; acked?: [string, number] }
          if (said.ready) resolve()
          if (said.acked) onAck(...said.acked)
        })
      })
      return { child, closed }
    }
    return { rp, push: await rp.open(flags), start }
  }

  async function serve(stream: ClientStream<string>): Promise<void> {
    for await (const { nonce } of stream) await stream.ack(nonce)
  }

  it('each stage happens once, although the process of the rollout is killed in every stage', async () => {
    const { rp, push, start } = await place()
    await push.set('old')
    const serving = []
    for (let i = 0; i < fleet; i++) serving.push(serve(await push.client(`edge-${i}`)).catch(() => undefined))
    await push.reached(1)
    const stages = [0.3, 0.6, 1]
    const version = await push.rollout('new', { stages, hold: 150 })
    // Two at any time: one runs it, the other waits for it.
    const running: { child: ChildProcess; closed: Promise<void> }[] = [await start(['worker']), await start(['worker'])]
    const rollout = async () => (await push.status()).rollout
    for (let stage = 0; stage < stages.length - 1; stage++) {
      await until(async () => ((await rollout())?.stage ?? -1) >= stage)
      // The waiting process takes over, and another one starts to wait.
      const [first] = running.splice(0, 1)
      first!.child.kill('SIGKILL')
      await first!.closed
      running.push(await start(['worker']))
    }
    expect(await push.ended(version)).toMatchObject({ status: 'completed' })
    await push.reached(version)
    const head = (await hostOf(rp).head('config/flags/rollout'))!
    const told: string[] = []
    for await (const { type, data } of entriesAfter(rp, head, 0)) {
      const { share } = data as { share?: number }
      told.push(share === undefined ? type : `${type} ${share}`)
    }
    expect(told).toEqual(['began 0.3', 'advanced 0.6', 'advanced 1', 'completed'])
    expect((await rp.verify()).faults).toEqual([])
  })

  // Serving clients does the same on every store; this one is the fastest.
  if (kind !== 'sqlite') return
  it('an acknowledged answer of a client survives the kill of the process that accepted it', async () => {
    const { rp, push, start } = await place()
    const acked = new Map<string, number>()
    let version = await push.set('v1')
    for (let round = 0; round < 2; round++) {
      // Returning clients report their version, which counts from then on.
      acked.clear()
      const onAck = (client: string, taken: number) => acked.set(client, Math.max(taken, acked.get(client) ?? 0))
      const known = String(round === 0 ? 0 : version - 1)
      const { child, closed } = await start(['edges', String(fleet), known], onAck)
      await until(() => [...acked.values()].filter((taken) => taken === version).length >= fleet / 2, closed)
      version = await push.set(`v${version + 1}`)
      await until(() => [...acked.values()].some((taken) => taken === version), closed)
      child.kill('SIGKILL')
      await closed
      const views = new Map((await push.clients()).map((view) => [view.client, view]))
      for (const [client, taken] of acked) expect(views.get(client)!.inForce ?? 0).toBeGreaterThanOrEqual(taken)
    }
    await start(['edges', String(fleet), String(version)])
    expect(await push.reached(version)).toMatchObject({ clients: fleet, acked: fleet })
    expect((await rp.verify()).faults).toEqual([])
  })
})
