// The one write, over several shards: the commits of a batch go to their shards, all shards at the same time. A shard
// that does not answer leaves only the outcomes of its own commits unknown.

import { checkCommit } from '../../core/store/argument-checks.ts'
import type { Commit, Outcome } from '../../core/store/ports.ts'
import { holdsTimeline, plainHead } from '../../core/store/shards.ts'
import type { Holds } from './cursors.ts'
import { moving } from './move-checks.ts'
import { type Plan, plan, planAtOnce, reachesOut } from './plan.ts'
import type { Relay } from './relay.ts'
import { isUnreachable } from './shard.ts'
import { byShard, type ShardMap } from './shard-map.ts'

interface Placed extends Plan {
  readonly at: number
}

const redirectsMax = 8

export class Commits {
  readonly #shardMap: ShardMap
  readonly #holds: Holds
  readonly #relay: Relay

  constructor(shardMap: ShardMap, holds: Holds, relay: Relay) {
    this.#shardMap = shardMap
    this.#holds = holds
    this.#relay = relay
  }

  commit(commits: readonly Commit[]): Outcome[] | Promise<Outcome[]> {
    for (const commit of commits) checkCommit(commit)
    const plans: Placed[] = []
    for (const [at, commit] of commits.entries()) {
      const planned = planAtOnce(this.#shardMap, commit)
      if (!planned) return this.#commitSlowly(commits)
      plans.push({ ...planned, at })
    }
    return this.#send(commits, plans)
  }

  async #commitSlowly(commits: readonly Commit[]): Promise<Outcome[]> {
    const outcomes = new Array<Outcome>(commits.length)
    let plans: Placed[] = []
    const flush = async () => {
      const given = await this.#send(commits, plans)
      for (const { at } of plans) outcomes[at] = given[at]!
      plans = []
    }
    for (const [at, commit] of commits.entries()) {
      // A commit that reads other shards must see the commits before it in the batch.
      if (reachesOut(commit)) await flush()
      const planned = await this.#plan(commit)
      if ('refusal' in planned) outcomes[at] = planned.refusal
      else plans.push({ ...planned, at })
      if (reachesOut(commit)) await flush()
    }
    await flush()
    // No outcome is known: the store failed as a whole.
    if (outcomes.every(isAway)) throw outcomes[0]!.cause
    return outcomes
  }

  /** Only a commit that needs an unavailable shard waits for it. */
  async #plan(commit: Commit): Promise<Plan | { readonly refusal: Outcome }> {
    try {
      return await plan(this.#shardMap, this.#holds, commit)
    } catch (error) {
      if (!isUnreachable(error)) throw error
      return { refusal: away(error) }
    }
  }

  /** Without a promise if one shard has all of it and answers synchronously. */
  #send(commits: readonly Commit[], plans: readonly Placed[]): Outcome[] | Promise<Outcome[]> {
    const groups = byShard(plans, ({ shard }) => shard)
    const outcomes = new Array<Outcome>(commits.length)
    const [only] = groups
    if (!only) return outcomes
    if (groups.size > 1) return this.#sendToMany(commits, groups, outcomes)
    const answer = this.#ask(...only)
    if (answer instanceof Promise) return answer.then((given) => this.#settle(commits, only[1], given, outcomes))
    return this.#settle(commits, only[1], answer, outcomes)
  }

  async #sendToMany(
    commits: readonly Commit[],
    groups: ReadonlyMap<number, readonly Placed[]>,
    outcomes: Outcome[],
  ): Promise<Outcome[]> {
    const targets = [...groups]
    const answers = await Promise.allSettled(targets.map(async ([shard, some]) => await this.#ask(shard, some)))
    const failed = answers.flatMap((answer) => (answer.status === 'rejected' ? [answer.reason] : []))
    // On a retry with the same operations, applied commits return their success.
    const fatal = failed.length === answers.length ? failed[0] : failed.find((error) => !isUnreachable(error))
    if (fatal) throw fatal
    for (const [i, answer] of answers.entries()) {
      const some = targets[i]![1]
      if (answer.status === 'rejected') {
        for (const { at } of some) outcomes[at] = away(answer.reason)
      } else await this.#settle(commits, some, answer.value, outcomes)
    }
    return outcomes
  }

  #ask(shard: number, plans: readonly Plan[]): Outcome[] | Promise<Outcome[]> {
    return this.#shardMap.shard(shard).askNow((store) => store.commit(plans.map(({ commit }) => commit)))
  }

  #settle(
    commits: readonly Commit[],
    plans: readonly Placed[],
    given: readonly Outcome[],
    outcomes: Outcome[],
  ): Outcome[] | Promise<Outcome[]> {
    let isSettled = true
    for (const [i, planned] of plans.entries()) {
      const outcome = given[i]!
      outcomes[planned.at] = outcome.ok ? outcome : readable(outcome, planned.cursorOwner)
      const { guard } = planned.commit
      if (outcome.ok) {
        if (guard && !planned.commit.forget) this.#shardMap.note(guard.timeline, planned.shard)
        if (planned.sendsTo.length > 0 || planned.after || planned.confirm) isSettled = false
      } else if (planned.undo || this.#shardMap.redirect(outcome) !== null) isSettled = false
    }
    return isSettled ? outcomes : this.#finish(commits, plans, given, outcomes)
  }

  async #finish(
    commits: readonly Commit[],
    plans: readonly Placed[],
    given: readonly Outcome[],
    outcomes: Outcome[],
  ): Promise<Outcome[]> {
    const carried = new Set<string>()
    const waits: Promise<void>[] = []
    for (const [i, { at, shard, sendsTo, after, undo, confirm }] of plans.entries()) {
      const outcome = given[i]!
      if (!outcome.ok) {
        await undo?.()
        if (this.#shardMap.redirect(outcome) !== null) outcomes[at] = await this.#redirected(commits[at]!, outcome)
        continue
      }
      if (confirm && !outcome.isDuplicate && !(await confirm(outcome.epoch))) {
        outcomes[at] = moving(commits[at]!.guard!.timeline)
        continue
      }
      for (const target of sendsTo) {
        if (carried.has(`${shard} ${target}`)) continue
        carried.add(`${shard} ${target}`)
        waits.push(this.#relay.carryPatiently(shard, target))
      }
      if (after && !outcome.isDuplicate) waits.push(after())
    }
    await Promise.all(waits)
    return outcomes
  }

  /** Refused by a signpost: the commit is sent to the shard it points to. */
  async #redirected(commit: Commit, refused: Outcome): Promise<Outcome> {
    let outcome = refused
    for (let hops = 0; hops < redirectsMax; hops++) {
      const target = this.#shardMap.redirect(outcome)
      if (target === null || !commit.guard) break
      this.#shardMap.note(commit.guard.timeline, target)
      const planned = await plan(this.#shardMap, this.#holds, commit)
      if ('refusal' in planned) return planned.refusal
      const [answer] = await this.#ask(planned.shard, [planned])
      outcome = answer!
      if (this.#shardMap.redirect(outcome) === null) {
        const outcomes = [outcome]
        await this.#settle([commit], [{ ...planned, at: 0 }], [outcome], outcomes)
        return outcomes[0]!
      }
    }
    return outcome.ok ? outcome : readable({ ...outcome, head: null })
  }
}

/** The outcome is unknown: the commit is retried. */
function away(error: unknown): Outcome {
  const reason = error instanceof Error ? error.message : String(error)
  return { ok: false, code: 'SHARD_AWAY', reason, head: null, cause: error }
}

function isAway(outcome: Outcome): outcome is Extract<Outcome, { ok: false }> {
  return !outcome.ok && outcome.code === 'SHARD_AWAY'
}

function readable(outcome: Extract<Outcome, { ok: false }>, cursorOwner = 'a timeline on another shard'): Outcome {
  const head = outcome.head && plainHead(outcome.head)
  const reason = outcome.reason.replaceAll(holdsTimeline, cursorOwner)
  return { ...outcome, reason, head }
}
