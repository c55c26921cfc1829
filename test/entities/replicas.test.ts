// Several replicas of one service on one aggregate: real processes, killed and stopped, on SQLite and PostgreSQL. The check is
// simple: every event records how many events its decision saw. More: REPRISE_REPLICA_COMMANDS=200 npx vitest run
// test/entities/replicas.test.ts

import { type ChildProcess, spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, describe, expect, it } from 'vitest'
import { programPath } from '../support/programs.ts'
import { type StoreUrl, storeUrls } from '../support/store-urls.ts'

const processes = 8
const each = Number(process.env.REPRISE_REPLICA_COMMANDS ?? 40)
const program = new URL('../programs/hot-aggregate.mjs', import.meta.url)
const built = new URL('../../dist/index.js', import.meta.url)

interface Line {
  readonly ready?: true
  readonly acked?: number
  readonly failed?: readonly string[]
}

describe.each(Object.keys(storeUrls))('replicas (%s)', { timeout: 300_000 }, (kind) => {
  const children: ChildProcess[] = []
  let place: StoreUrl | null = null
  afterEach(async () => {
    for (const child of children.splice(0)) child.kill('SIGKILL')
    await place?.remove()
  })

  async function start(who: string, count: number, how: string, onLine: (line: Line) => void = () => undefined) {
    const child = spawn(process.execPath, [programPath('hot-aggregate'), place!.url, who, String(count), how], {
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    children.push(child)
    let last: Line = {}
    const ended = new Promise<Line>((resolve) => child.on('close', () => resolve(last)))
    await new Promise<void>((resolve, reject) => {
      createInterface(child.stdout!).on('line', (text) => {
        last = JSON.parse(text)
        if (last.ready) resolve()
        else onLine(last)
      })
      child.on('close', () => reject(new Error(`${who} ended before it was ready`)))
    })
    return { child, go: () => child.stdin!.write('go\n'), ended }
  }

  /** The whole history, checked: each event was decided on all that came before it. */
  async function history() {
    const { hot } = await import(program.href)
    const { open } = await import(built.href)
    const rp = await open(place!.url)
    const a = await rp.open(hot, 'x')
    const events: { who: string; n: number; saw: number }[] = []
    for await (const { event } of a.history()) events.push(event)
    events.forEach((event, i) => {
      expect(event.saw).toBe(i)
    })
    const sum = events.reduce((total, { n }) => total + n, 0)
    expect(a.state).toMatchObject({ count: events.length, sum })
    expect((await rp.verify()).faults).toEqual([])
    expect((await rp.drill()).ok).toBe(true)
    await rp.close()
    return events
  }

  const namesOf = (events: readonly { who: string; n: number }[]) => events.map(({ who, n }) => `${who}-${n}`).sort()
  const all = (whos: readonly string[], count: number) =>
    whos.flatMap((who) => Array.from({ length: count }, (_, i) => `${who}-${i + 1}`)).sort()

  it(`${processes} processes: none of their commands fails, each is applied once`, async () => {
    place = storeUrls[kind]!()
    const whos = Array.from({ length: processes }, (_, i) => `p${i}`)
    // One of them holds its event loop now and then, longer than a turn lasts.
    const started = await Promise.all(whos.map((who, i) => start(who, each, i === 0 ? 'slow' : 'plain')))
    for (const { go } of started) go()
    for (const { ended } of started) expect((await ended).failed).toEqual([])
    expect(namesOf(await history())).toEqual(all(whos, each))
  })

  it('two replicas behind a load balancer that sends everything twice: each id is done once', async () => {
    place = storeUrls[kind]!()
    const twins = await Promise.all([start('client', 40, 'keyed'), start('client', 40, 'keyed')])
    for (const { go } of twins) go()
    const told = await Promise.all(twins.map(({ ended }) => ended))
    // The second caller gets the earlier result, or is refused by the aggregate itself; nothing else.
    for (const reason of told.flatMap(({ failed }) => failed ?? ['died'])) {
      expect(reason).toMatch(/^REFUSED$|was applied before$/)
    }
    expect(namesOf(await history())).toEqual(all(['client'], 40))
  })

  it('G1: SIGKILL and SIGSTOP among them lose nothing acknowledged, and stop no other', async () => {
    place = storeUrls[kind]!()
    const acked: Record<string, number> = {}
    const replica = (who: string) =>
      start(who, 0, 'forever', ({ acked: n }) => {
        if (n !== undefined) acked[who] = n
      })
    const whos = ['a', 'b', 'c', 'd']
    const running = new Map<string, Awaited<ReturnType<typeof start>>>()
    for (const who of whos) running.set(who, await replica(who))
    for (const { go } of running.values()) go()
    const moved = async (who: string, by: number) => {
      for (const from = acked[who] ?? 0; (acked[who] ?? 0) < from + by; ) await new Promise((r) => setTimeout(r, 5))
    }
    /** Stopped in the middle of a transaction, a process holds the lock of a SQLite file, and all wait: that is not meant. */
    const stopOutside = async (child: ChildProcess, witness: string) => {
      for (;;) {
        child.kill('SIGSTOP')
        const isFree = await Promise.race([moved(witness, 5).then(() => true), sleep(5_000, false)])
        if (isFree || kind !== 'sqlite') return isFree ? undefined : await moved(witness, 5)
        child.kill('SIGCONT')
        await moved(witness, 1)
      }
    }
    for (const who of whos) await moved(who, 3)
    for (const victim of whos) {
      const { child, ended } = running.get(victim)!
      const witness = whos.find((who) => who !== victim)!
      await stopOutside(child, witness)
      if (victim < 'c') {
        // After it is woken, it continues as before.
        child.kill('SIGCONT')
        await moved(victim, 3)
      } else {
        child.kill('SIGKILL')
        await ended
        const next = await replica(victim)
        running.set(victim, next)
        next.go()
        await moved(victim, 3)
      }
    }
    for (const { child, ended } of running.values()) {
      child.kill('SIGKILL')
      await ended
    }
    const names = namesOf(await history())
    expect(new Set(names).size).toBe(names.length)
    for (const who of whos) for (let n = 1; n <= acked[who]!; n++) expect(names).toContain(`${who}-${n}`)
  })
})
