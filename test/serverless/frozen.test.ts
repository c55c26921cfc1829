// A warm process of a function: its platform freezes it between two invocations or in the middle of one, for longer than its
// lease, and its connections are lost meanwhile. The next invocation works as before, and another process may continue the run.

import { type ChildProcess, spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { open, type Reprise } from 'reprise'
import { afterAll, afterEach, beforeEach, describe, expect, inject, it } from 'vitest'
import { order } from '../../examples/serverless/orders.ts'
import { type CuttingProxy, cuttingProxy } from '../support/cutting-proxy.ts'
import { temporaryFolder, until } from '../support/fixture.ts'
import { wrongIn } from '../support/outside.ts'
import { startPgBouncer } from '../support/parts.ts'
import { programPath } from '../support/programs.ts'
import { type StoreUrl, storeUrls } from '../support/store-urls.ts'
import { Invocation } from './invocation.ts'

const pooler = await startPgBouncer(inject('postgresUrl'))
afterAll(async () => await pooler?.stop())
const ports: Readonly<Record<string, () => number>> = {
  PostgreSQL: () => Number(new URL(inject('postgresUrl')).port),
  ...(pooler && { 'PgBouncer in transaction mode': () => Number(new URL(pooler.url).port) }),
}

/** A process that stays between invocations, as a container of a function does. */
class WarmProcess {
  readonly child: ChildProcess
  readonly #reports: AsyncIterator<string>

  constructor(url: string, ledger: string) {
    const env = { ...process.env, DATABASE_URL: url, LEDGER: ledger }
    const stdio = ['pipe', 'pipe', 'inherit'] as const
    this.child = spawn(process.execPath, [programPath('serverless-warm')], { env, stdio: [...stdio] })
    this.#reports = createInterface({ input: this.child.stdout! })[Symbol.asyncIterator]()
  }

  /** The report, or the text of an error. */
  async invoke(ms = 60_000): Promise<unknown> {
    this.child.stdin!.write(`${ms}\n`)
    const { value } = await this.#reports.next()
    return JSON.parse(value as string)
  }
}

describe.each(Object.keys(ports))('a frozen function behind lost connections (%s)', (place) => {
  let store: StoreUrl
  let proxy: CuttingProxy
  let client: Reprise
  let warm: WarmProcess
  let ledger = ''
  beforeEach(async () => {
    store = storeUrls.postgres!()
    proxy = await cuttingProxy(ports[place]!(), () => null)
    ledger = join(temporaryFolder('frozen'), 'ledger')
    client = await open(store.url, { housekeeping: false })
    const url = new URL(store.url)
    url.port = String(proxy.port)
    warm = new WarmProcess(url.href, ledger)
  })
  afterEach(async () => {
    warm.child.kill('SIGKILL')
    await client.close()
    await proxy.close()
    await store.remove()
  })
  const start = (item: string) => client.run(order, item, { id: item, here: false })
  const freezeWithout = () => {
    warm.child.kill('SIGSTOP')
    proxy.cut()
  }
  const works = { done: expect.any(Number), handedOver: [], nextDueAt: null }

  it('works again in its next invocation', async () => {
    const first = await start('first')
    expect(await warm.invoke()).toEqual(works)
    freezeWithout()
    const second = await start('second')
    warm.child.kill('SIGCONT')
    expect(await warm.invoke()).toEqual(works)
    expect(await Promise.all([first.result(), second.result()])).toEqual(
      ['first', 'second'].map((item) => [`charge ${item}`, `ship ${item}`]),
    )
    expect(wrongIn(ledger)).toBe(null)
  })

  it('is fenced if another process took its run, and does no step twice under another key', async () => {
    const run = await start('taken')
    const report = warm.invoke()
    await until(() => readFileSync(ledger, { flag: 'a+', encoding: 'utf8' }).includes('charge'))
    freezeWithout()
    // Until the lease of the frozen process is over, others find nothing to do.
    const isDone = async () => (await client.list({ prefix: 'workflow/order/', status: 'completed' })).length === 1
    while (!(await isDone())) await new Invocation('lambda', { url: store.url, ledger, ms: 10_000 }).ended
    warm.child.kill('SIGCONT')
    expect(await report).toEqual(works)
    expect(await run.result()).toEqual(['charge taken', 'ship taken'])
    expect(wrongIn(ledger)).toBe(null)
    await start('later')
    expect(await warm.invoke()).toEqual(works)
  })
})
