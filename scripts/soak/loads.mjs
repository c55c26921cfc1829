// The loads that the soak's driver puts on the store, each at its own steady pace, and the driver's record of them: the
// acknowledged writes and their expected results. Every write has an id or a key, so that one whose answer was lost is sent
// again.

import { setTimeout as pause } from 'node:timers/promises'
import { again } from './again.mjs'
import { account, accounts, batchIds, ledger, order, refunds, support, totals, trial } from './model.mjs'

const ordersOpenMax = 500
const sessionsKept = 10

export class Loads {
  seen = {
    ...{
      started: 0,
      done: 0,
      held: 0,
      booked: 0,
      doubled: 0,
      rows: 0,
      deposits: 0,
      turns: 0,
      trials: 0,
      ticks: 0,
      batches: 0,
    },
    ...{ collections: 0, refused: 0, refusedBy: {} },
  }
  orderTimes = []
  appendTimes = []
  wrong = []
  #rp
  #world
  #rate
  #end
  #open = new Set()
  /** Ended, and not audited yet. */
  #ended = new Set()
  #rows = new Map()
  #balances = new Map()

  constructor(rp, world, rate, end) {
    this.#rp = rp
    this.#world = world
    this.#rate = rate
    this.#end = end
  }

  get unfinished() {
    return this.#open.size
  }

  async run() {
    await Promise.all([
      this.#orders(),
      this.#every(1000 / (2 * this.#rate), (n) => this.#setRow(n)),
      this.#every(1000 / this.#rate, (n) => this.#deposit(n)),
      this.#every(10_000, (n) => this.#talk(n)),
      this.#every(10_000, (n) => this.#tryAgain(n)),
      this.#every(60_000, () => this.#collect()),
      this.#every(20_000, () => this.audit(false)),
    ])
    await this.#ledger?.close()
  }

  /** A job of the workers reported that all its items are done. */
  batchDone(n) {
    if (this.#batches.has(n)) return
    this.#batches.add(n)
    this.seen.batches += 1
    for (const id of batchIds(n)) this.#ended.add(id)
  }
  #batches = new Set()

  async #every(everyMs, work) {
    for (let n = 0, due = Date.now(); !this.#isOver; n++, due = Math.max(due + everyMs, Date.now() - 1000)) {
      await pause(Math.max(0, Math.min(due - Date.now(), everyMs)))
      await work(n)
    }
  }

  get #isOver() {
    return Date.now() >= this.#end || this.wrong.length > 0
  }

  async #orders() {
    const everyMs = 1000 / this.#rate
    for (let n = 0, due = Date.now(); !this.#isOver; n++, due += everyMs) {
      await pause(Math.max(0, due - Date.now()))
      // After an outage, the loads do not catch up in a flood.
      if (this.#open.size >= ordersOpenMax) this.seen.held += 1
      else this.#order(`o${n}`, n % 10 === 0).catch((error) => this.wrong.push(error.stack))
    }
  }

  async #order(id, isAsked) {
    this.#open.add(id)
    const began = performance.now()
    const options = { id, here: false, queueKey: `customer-${Number(id.slice(1)) % 20}` }
    const run = await this.#again(() => this.#rp.run(order, { id, isAsked }, options))
    this.seen.started += 1
    if (isAsked) await this.#again(() => run.signal('go', true, { key: 'go' }))
    await this.#again(() => run.result())
    this.seen.done += 1
    this.#ended.add(id)
    this.#open.delete(id)
    this.orderTimes.push(performance.now() - began)
  }

  async #setRow(n) {
    const key = `k${n % 500}`
    await this.#again(async () => {
      this.#ledger ??= await this.#rp.open(ledger)
      const began = performance.now()
      try {
        await this.#ledger.set(key, { n, text: 'y'.repeat(100) })
      } catch (error) {
        // A process that was declared dead has to open its timelines again.
        this.#ledger = null
        throw error
      }
      this.appendTimes.push(performance.now() - began)
    })
    this.#rows.set(key, n)
    this.seen.rows += 1
  }
  #ledger = null

  async #deposit(n) {
    const id = `a${n % accounts}`
    await this.#again(async () => {
      const handle = await this.#rp.open(account, id)
      await handle.do('deposit', { amount: 1 }, { key: `d${n}` })
      await handle.close()
    })
    this.#balances.set(id, (this.#balances.get(id) ?? 0) + 1)
    this.seen.deposits += 1
  }

  /** A session: two turns, of which one is rolled back with its effects. */
  async #talk(n) {
    const id = `s${n}`
    await this.#again(async () => {
      const session = await this.#rp.open(support, id)
      try {
        await session.turn('500', { key: 'first' })
        await session.turn('700', { key: 'second' })
        await session.rollback({ to: 1 })
        const turns = session.messages.filter(({ role }) => role === 'user').length
        if (turns !== 1) this.wrong.push(`session ${id} has ${turns} turns after its rollback, not 1`)
      } finally {
        await session.close()
      }
    })
    if (refunds.size !== 1) this.wrong.push(`session ${id}: ${refunds.size} refunds stand, not 1`)
    refunds.clear()
    this.seen.turns += 2
    if (n >= sessionsKept) {
      await this.#again(() => this.#rp.delete(`agent/support/s${n - sessionsKept}`, { unfinished: true }))
    }
  }

  /** A run that has ended is forked, rolled back and ends again. */
  async #tryAgain(n) {
    const run = await this.#again(() => this.#rp.run(trial, n, { id: `t${n}`, here: false }))
    await this.#again(() => run.result())
    const fork = await this.#again(() => run.fork('second', { result: 10 }))
    const forked = await this.#again(() => fork.result())
    if (forked !== n + 10) this.wrong.push(`the fork of trial ${n} gave ${forked}, not ${n + 10}`)
    await this.#again(() => run.rollback({ to: 'second' }))
    const rolled = await this.#again(() => run.result())
    if (rolled !== n + 1) this.wrong.push(`trial ${n} gave ${rolled} after its rollback, not ${n + 1}`)
    this.seen.trials += 1
  }

  async #collect() {
    await this.#again(() => this.#rp.collect())
    this.seen.collections += 1
  }

  async #again(work) {
    return await again(work, ({ code }) => {
      this.seen.refused += 1
      this.seen.refusedBy[code] = (this.seen.refusedBy[code] ?? 0) + 1
    })
  }

  /**
   * Waits until open work has ended and ended timelines have expired, and collects. Then every acknowledged write must be found.
   */
  async finish(deadline) {
    while (this.#open.size > 0 && Date.now() < deadline) await pause(200)
    if (this.#open.size > 0)
      this.wrong.push(`${this.#open.size} orders did not end: ${[...this.#open].slice(0, 5).join(', ')}`)
    await this.audit(true)
    if (this.seen.ticks === 0) this.wrong.push('the schedule never fired')
    const left = async () => await this.#again(() => this.#rp.list({ prefix: 'workflow/order/', limit: 5 }))
    while ((await left()).length > 0 && Date.now() < deadline) await pause(1000)
    const rest = await left()
    if (rest.length > 0)
      this.wrong.push(`orders that ended did not expire: ${rest.map(({ timeline }) => timeline).join(', ')}`)
    await this.#collect()
    await this.#checkRows()
    await this.#checkBalances()
    const again = await this.#world.bookedLike('o')
    for (const id of again.keys()) this.wrong.push(`${id} was booked once more after it had ended`)
  }

  async #checkRows() {
    const rows = await this.#again(() => this.#rp.open(ledger))
    for (const [key, n] of this.#rows) {
      if ((rows.get(key)?.n ?? -1) !== n) this.wrong.push(`the row ${key} is ${rows.get(key)?.n}, not ${n}`)
    }
    await rows.close()
  }

  async #checkBalances() {
    const view = await this.#again(() => this.#rp.open(totals))
    const sums = await this.#again(() => view.catchUp({ timeout: '60s' }))
    for (const [id, sum] of this.#balances) {
      const { state } = await this.#again(() => account.read(this.#rp, id))
      if (state.balance !== sum) this.wrong.push(`${id} holds ${state.balance}, not ${sum}`)
      if (sums.get(id) !== sum) this.wrong.push(`the projection has ${sums.get(id)} for ${id}, not ${sum}`)
    }
    await view.close()
  }

  /** Checks that each ended run booked its row exactly once, and then deletes the rows, as an application would. */
  async audit(isLast) {
    const due = [...this.#ended]
    for (let from = 0; from < due.length; from += 500) {
      const ids = due.slice(from, from + 500)
      const counts = await this.#world.booked(ids)
      for (const id of ids) {
        const count = counts.get(id) ?? 0
        if (count === 0) this.wrong.push(`${id} ended, and its row is not there`)
        if (count > 1) this.seen.doubled += 1
        this.#ended.delete(id)
      }
      this.seen.booked += ids.length
      await this.#world.forget(ids)
    }
    const ticks = await this.#world.bookedLike('tick-')
    for (const count of ticks.values()) if (count > 1) this.seen.doubled += 1
    // Runs of the last minute may not have ended yet.
    const old = [...ticks.keys()].filter((id) => isLast || Number(id.slice('tick-'.length)) < Date.now() - 60_000)
    this.seen.ticks += old.length
    if (old.length > 0) await this.#world.forget(old)
  }
}
