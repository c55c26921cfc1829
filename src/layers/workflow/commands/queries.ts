// Queries and updates: reads from and changes to a run while it executes. A query records nothing. An update is
// recorded, handled once by the code, and its result is recorded for its sender. An update without a handler is refused
// once the code waits; the refusal is recorded, so a handler that is added later does not find the update.

import { RepriseError } from '../../../core/errors.ts'
import { checkFunction, refuseThenable } from '../../../core/synchronous.ts'
import type { Item } from '../history/entries.ts'
import { toFailure } from '../history/failure.ts'
import type { Command, CommandKind } from '../run/command.ts'
import type { CommandRun } from '../run/command-host.ts'
import { enterScope } from '../run/scope.ts'

type UpdateItem = Extract<Item, { kind: 'update' }>

interface UpdateHandler {
  readonly call: (args: never) => unknown
  readonly validate: ((args: never) => void) | undefined
}

interface Answer {
  readonly update: string
  readonly result?: unknown
  readonly error?: unknown
  readonly refused?: true
}

type AskedRun = Pick<CommandRun, 'state' | 'code' | 'spawn' | 'recorder'> & {
  readonly open: { readonly id: string }
}

/** Commands that the run completes by itself. The others wait for mail, a child or a time. */
const completedByRun: ReadonlySet<CommandKind> = new Set(['step', 'loop', 'undo'])

export class Queries {
  readonly #run: AskedRun
  /** Null until the first handler is registered: few runs have one. */
  #queries: Map<string, (...args: never[]) => unknown> | null = null
  #updates: Map<string, UpdateHandler> | null = null
  #waiting: UpdateItem[] = []
  #taken: number[] = []
  #answers: Answer[] = []

  constructor(run: AskedRun) {
    this.#run = run
  }

  clear(): void {
    this.#queries = null
    this.#updates = null
    this.#waiting = []
    this.#taken = []
    this.#answers = []
  }

  onQuery(name: string, handler: (...args: never[]) => unknown): void {
    checkFunction(handler, `onQuery ${name}`)
    this.#queries ??= new Map()
    this.#queries.set(name, handler)
  }

  onUpdate(name: string, handler: UpdateHandler): void {
    this.#updates ??= new Map()
    this.#updates.set(name, handler)
    const ready = this.#waiting.filter((item) => item.name === name)
    this.#waiting = this.#waiting.filter((item) => item.name !== name)
    for (const item of ready) this.#handle(item, handler)
  }

  query(name: string, args: readonly unknown[]): unknown {
    const handler = this.#queries?.get(name)
    if (!handler) {
      const known = [...(this.#queries?.keys() ?? [])].join(', ') || 'none'
      throw new RepriseError('NOT_FOUND', `${this.#run.open.id} has no query ${name}; it has: ${known}`, {
        query: name,
      })
    }
    return handler(...(args as never[]))
  }

  /** The answers of the queries without parameters, by name; for a query that throws, its error. */
  answers(): Readonly<Record<string, unknown>> {
    const found: [string, unknown][] = []
    for (const [name, handler] of this.#queries ?? []) {
      if (handler.length > 0) continue
      try {
        const answer = handler()
        refuseThenable(answer, `the query ${name}`, 'answer from variables of the code')
        found.push([name, answer])
      } catch (error) {
        found.push([name, { error: error instanceof Error ? error.message : String(error) }])
      }
    }
    return Object.fromEntries(found)
  }

  update(item: UpdateItem): void {
    const handler = this.#updates?.get(item.name)
    if (handler) this.#handle(item, handler)
    else this.#waiting.push(item)
  }

  /**
   * The error for an update that no handler takes; null if a handler exists or may still be registered: a run without
   * any handlers whose own steps are in flight may not have reached the registration yet.
   */
  refusal(name: string, open: Iterable<Pick<Command, 'kind'>> = this.#run.code.execution.open): RepriseError | null {
    const known = this.updates
    if (known.includes(name)) return null
    if (known.length === 0) for (const { kind } of open) if (completedByRun.has(kind)) return null
    const what = `${this.#run.open.id} has no update ${name}; it has: ${known.join(', ') || 'none'}`
    return new RepriseError('NOT_FOUND', what, { update: name, known })
  }

  /** Refuses the pending updates: the code waits, so no handler will take them. */
  refuse(): void {
    if (this.#waiting.length === 0) return
    for (const item of this.#waiting) {
      const error = this.refusal(item.name)
      if (!error) continue
      this.#waiting = this.#waiting.filter((each) => each !== item)
      this.#taken.push(item.seq)
      const { stack: _, ...failure } = toFailure(error)
      this.#keep(item, { update: item.update, error: failure, refused: true })
    }
  }

  /** The names of updates with a handler. */
  get updates(): readonly string[] {
    return [...(this.#updates?.keys() ?? [])]
  }

  /** The sequences of handled and refused updates; the others stay with the run when it starts over. */
  taken(): readonly number[] {
    return this.#taken
  }

  /** Records the answers that are not in history yet. */
  flush(): void {
    if (this.#answers.length === 0) return
    const { updates } = this.#run.state
    for (const answer of this.#answers.splice(0)) {
      if (Object.hasOwn(updates, answer.update)) continue
      this.#run.spawn(async () => {
        await this.#run.recorder.record('updated', answer).catch(async (error) => {
          if ((error as { code?: string }).code !== 'UNSERIALIZABLE') throw error
          await this.#run.recorder.record('updated', { update: answer.update, error: toFailure(error) })
        })
      })
    }
  }

  #handle(item: UpdateItem, handler: UpdateHandler): void {
    const { execution } = this.#run.code
    this.#taken.push(item.seq)
    execution.updates.add(`${execution.updates.count} ${item.name}`, item.args ?? null)
    const scope = execution.scope(execution.root, `~update:${item.update}`)
    enterScope(scope, async () => {
      const place = `validate of the update ${item.name}`
      refuseThenable(handler.validate?.(item.args as never), place, 'wait in the handler of the update')
      return await handler.call(item.args as never)
    }).then(
      (result) => this.#answer(item, { update: item.update, ...(result !== undefined && { result }) }),
      (error) => this.#answer(item, { update: item.update, error: toFailure(error) }),
    )
  }

  #answer(item: UpdateItem, answer: Answer): void {
    this.#keep(item, answer)
    this.#run.code.execution.wake()
  }

  /** An update that was sent to the original of this fork is answered there only. */
  #keep({ seq }: UpdateItem, answer: Answer): void {
    if (seq > (this.#run.state.forkedAt ?? 0)) this.#answers.push(answer)
  }
}
