// Sessions whose process is killed, with a service in another process that counts outside calls: a sweep over the commits of a
// session with tools of every kind, calls held in doubt for a person, and streams whose writer dies while a client reads.
// REPRISE_AGENT_KILL_EVERY: the interval between tested commits (default 17).

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { open, type Reprise } from '../../src/index.ts'
import { agent, readTurn, type StreamPosition, sendDecision } from '../../src/layers/agent/index.ts'
import { until } from '../support/fixture.ts'
import { type Report, runProgram, type Service, startService } from './service.ts'

const killEvery = Number(process.env.REPRISE_AGENT_KILL_EVERY ?? 17)
let service: Service
let runCount = 0
const folders: string[] = []
beforeAll(async () => {
  service = await startService()
})
afterAll(() => service.stop())
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true })
})

function newPlace(): { readonly url: string; readonly run: string } {
  const folder = mkdtempSync(join(tmpdir(), 'reprise-doubt-'))
  folders.push(folder)
  return { url: `sqlite:${join(folder, 'a.db')}`, run: `run-${++runCount}` }
}

const countOf = (report: Report, kind: string) =>
  Object.values(report.calls).filter((call) => call.kind === kind).length
const repeatsOf = (report: Report) =>
  [...Object.values(report.calls).map(({ count }) => count), ...Object.values(report.undone)]
    .map((count) => count - 1)
    .reduce((a, b) => a + b, 0)

describe('G5 sessions killed with SIGKILL, counted from outside', () => {
  it('at any commit: at most one repeat, none of what cannot be repeated, exactly the compensations due', async () => {
    const steps = JSON.stringify([
      { turn: ['look', 'pay', 'mail', 'gift'] },
      { turn: ['pay', 'set', 'gift', 'pay'] },
      { back: 1 },
      { turn: ['pay', 'mail'] },
    ])
    const play = (place: { url: string; run: string }, ...kill: string[]) =>
      runProgram('kinds', [place.url, service.url, place.run, steps, ...kill])
    const reference = newPlace()
    const commits = Number((await play(reference)).out)
    const expected = await service.report(reference.run)
    expect(expected.undoOrder).toHaveLength(2)
    expect(repeatsOf(expected)).toBe(0)
    expect(commits).toBeGreaterThan(20)
    let killed = 0
    for (let at = 2; at < commits; at += killEvery) {
      const place = newPlace()
      const { signal } = await play(place, String(at), at % 2 === 0 ? 'after' : 'before')
      if (signal === 'SIGKILL') killed += 1
      await play(place)
      const report = await service.report(place.run)
      for (const kind of ['set', 'pay', 'mail', 'gift'])
        expect(countOf(report, kind), kind).toBe(countOf(expected, kind))
      expect(report.undoOrder).toHaveLength(2)
      expect(report.confused).toEqual([])
      for (const id of report.undoOrder) expect(report.calls[id]!.kind).toBe('pay')
      expect(repeatsOf(report), `killed at commit ${at}`).toBeLessThanOrEqual(1)
      for (const { kind, count } of Object.values(report.calls)) {
        if (kind === 'mail' || kind === 'gift') expect(count, kind).toBe(1)
      }
    }
    expect(killed).toBeGreaterThanOrEqual(3)
  })
})

describe('G5 a call in doubt is held for a person', () => {
  const verdicts = [
    { place: 'after-call', verdict: 'done' as const, gifts: 1, last: 'done: it came' },
    { place: 'before-call', verdict: 'refuse' as const, gifts: 0, last: 'done: it did not happen' },
    { place: 'before-call', verdict: 'retry' as const, gifts: 1, last: 'done: given' },
  ]
  for (const { place, verdict, gifts, last } of verdicts) {
    it(`killed ${place}, held by the resuming process, settled as "${verdict}" from another process`, async () => {
      const { url, run } = newPlace()
      const play = async (mode: string) => await runProgram('held', [url, service.url, run, mode])
      expect((await play(place)).signal).toBe('SIGKILL')
      const held = JSON.parse((await play('resume')).out)
      expect(held).toMatchObject({
        status: 'waiting',
        waiting: { kind: 'in-doubt', tool: 'gift', args: { to: 'bob' } },
      })
      // However often it is looked at, it is not called.
      expect(JSON.parse((await play('resume')).out)).toEqual(held)
      expect(countOf(await service.report(run), 'gift')).toBe(place === 'after-call' ? 1 : 0)
      await using person = await open(url)
      await sendDecision(person, 'agent/held/s', {
        verdict,
        by: 'ann',
        ...(verdict === 'done' && { result: 'it came' }),
      })
      expect(JSON.parse((await play('resume')).out)).toMatchObject({ status: 'completed', content: last })
      const report = await service.report(run)
      expect(countOf(report, 'gift')).toBe(gifts)
      expect(repeatsOf(report)).toBe(0)
    })
  }
})

describe('C11 a streaming turn whose writer is killed', () => {
  const words = 150
  const whole = Array.from({ length: words }, (_, n) => `word-${n} `).join('')
  const streamed = agent('streamed', {})

  /** The view of a client: the displayed text, and the number of times it was dropped. */
  class Client {
    text = ''
    restarts = 0
    outcome: string | null = null
    #position: StreamPosition | undefined

    async read(rp: Reprise, untilLength = Number.POSITIVE_INFINITY): Promise<void> {
      const after = this.#position ? { after: this.#position } : {}
      for await (const event of readTurn(rp, streamed, 's', { turn: 1, ...after })) {
        if (event.kind === 'end') {
          this.outcome = event.outcome
          return
        }
        this.#position = event.position
        if (event.kind === 'restarted') {
          this.text = ''
          this.restarts += 1
        } else this.text += event.text
        if (this.text.length >= untilLength) return
      }
    }
  }

  /**
   * A client reads the beginning, disconnects, and returns while the writer dies or afterwards; then another one resumes.
   */
  async function play(policy: string) {
    const { url, run } = newPlace()
    const start = (...kill: string[]) => runProgram('streamer', [url, service.url, run, policy, String(words), ...kill])
    const victim = start('90')
    const rp = await open(url)
    const client = new Client()
    await until(async () => (await rp.head('agent/streamed/s')) !== null)
    await client.read(rp, 100)
    expect((await victim).signal).toBe('SIGKILL')
    expect(client.text.length).toBeGreaterThanOrEqual(100)
    expect(whole.startsWith(client.text)).toBe(true)
    const resumed = start()
    await client.read(rp)
    const result = JSON.parse((await resumed).out)
    return { rp, client, result, run, start, report: async () => await service.report(run) }
  }

  it('"continue": the client gets the rest and notices nothing; only the rest is requested', async () => {
    const { rp, client, result, report } = await play('continue')
    await using _rp = rp
    expect(client).toMatchObject({ text: whole, restarts: 0, outcome: 'done' })
    expect(result).toMatchObject({ status: 'completed', content: whole, usage: { outputTokens: words, cost: 1 } })
    const [first, second] = (await report()).models
    expect(second!.key).toBe(first!.key)
    // The durable part of the stream was not generated again.
    expect(second!.from).toBeGreaterThan(10)
    expect(second!.words).toBe(words - second!.from)
  })

  it('"retry": the answer starts over under the same key, the client is notified, and it is accounted once', async () => {
    const { rp, client, result, report } = await play('retry')
    await using _rp = rp
    expect(client).toMatchObject({ text: whole, restarts: 1, outcome: 'done' })
    expect(result).toMatchObject({ status: 'completed', content: whole, usage: { outputTokens: words, cost: 1 } })
    const { models } = await report()
    expect(models).toHaveLength(2)
    expect(new Set(models.map(({ key }) => key)).size).toBe(1)
  })

  it('"hold": nothing is generated until a person decides, who may settle it without the model', async () => {
    const { rp, client, result, start, report } = await play('hold')
    await using _rp = rp
    expect(result).toMatchObject({ status: 'waiting', waiting: { kind: 'in-doubt', tool: 'model' } })
    expect(client.outcome).toBe('waiting')
    await sendDecision(rp, 'agent/streamed/s', { verdict: 'done', by: 'ann', result: 'as ann says' })
    expect(JSON.parse((await start()).out)).toMatchObject({ status: 'completed', content: 'as ann says' })
    expect((await report()).models).toHaveLength(1)
  })
})
